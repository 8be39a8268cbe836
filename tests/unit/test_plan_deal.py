"""Layers dealt to the stages otherwise, where that beats any swap."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.plan.deal import better_deal, fairest
from swapconf.plan.modes import KEEP, RECOMPUTED, uniform
from swapconf.plan.planned import plan
from swapconf.whatif.layer_share import LayerShare
from tests.unit.planning import evaluator, made_up_judge


def share(busy_us: float, layer_us: float = 10.0, layer_bytes: float = 100.0) -> LayerShare:
    return LayerShare(num_layers=2, layer_bytes=layer_bytes, layer_us=layer_us, busy_us=busy_us)


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.integers(-9, 30)), min_size=2, max_size=3
    )
)
def test_the_fairest_deal_has_room_and_no_other_with_room_is_faster(stages: list[tuple[int, int, int, int]]) -> None:
    here = [count for count, _, _, _ in stages]
    shares = [share(count * us + 5.0, float(us), float(size)) for count, us, size, _ in stages]
    spare = [float(room) for _, _, _, room in stages]

    def slowest(counts: tuple[int, ...] | list[int]) -> float:
        return max(
            item.busy_us + (count - now) * item.layer_us for count, now, item in zip(counts, here, shares, strict=True)
        )

    def has_room(counts: tuple[int, ...] | list[int]) -> bool:
        return all(
            (count - now) * item.layer_bytes <= room
            for count, now, item, room in zip(counts, here, shares, spare, strict=True)
        )

    every = [c for c in product(range(1, sum(here) + 1), repeat=len(here)) if sum(c) == sum(here) and has_room(c)]
    found = fairest(sum(here), here, shares, spare)
    if found is None:
        assert not every
    else:
        assert sum(found) == sum(here)
        assert has_room(found)
        assert slowest(found) == min(map(slowest, every))


def test_a_layer_of_the_full_stage_goes_where_there_is_room() -> None:
    judge = made_up_judge(4, 2)
    full = judge.pool_bytes(uniform(KEEP, judge.network))
    judge = made_up_judge(4, 2, budget_bytes=max(full) - 100)
    found = plan(judge, effort=0.2)
    assert better_deal(found) is None, "a small swap costs less than a tenth of a percent"
    deal = better_deal(replace(found, chosen=judge.score(uniform(RECOMPUTED, judge.network))))
    assert deal is not None
    assert deal.counts == (1, 3)
    assert deal.offset == (-1, 1)
    assert deal.change == pytest.approx(10_051 / 10_050 - 1)
    assert better_deal(plan(judge.under(made_up_judge(4, 2).limits))) is None, "nothing is needed"
    assert better_deal(plan(made_up_judge(4, 1, budget_bytes=2000))) is None, "one stage"


def test_what_a_layer_holds_and_takes_is_read_from_the_trace() -> None:
    (found,) = evaluator().layer_shares()
    assert found.num_layers == 2
    assert 0 < 2 * found.layer_us < found.busy_us
    assert 0 < 2 * found.layer_bytes < lifetimes(evaluator().traces[0]).used_peak_bytes
