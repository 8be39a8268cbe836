"""An order launches every item once, behind all that it reads from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swapconf.whatif.launch_order import Region, order


@st.composite
def regions(draw: st.DrawFn) -> Region:
    count = draw(st.integers(1, 12))
    needs = [sorted(draw(st.sets(st.integers(0, item - 1), max_size=3))) if item else [] for item in range(count)]
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    return Region(
        needs=needs,
        late=frozenset(draw(st.sets(st.integers(0, count - 1), max_size=2))),
        single=draw(flags),
        talks=draw(flags),
    )


@given(regions())
def test_every_item_once_and_behind_what_it_needs(region: Region) -> None:
    found = order(region)
    assert sorted(found) == list(range(len(region.needs)))
    place = {item: index for index, item in enumerate(found)}
    assert all(place[needed] < place[item] for item, needs in enumerate(region.needs) for needed in needs)
