"""What holds of every placement, whatever the blocks: nothing overlaps, nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.memory.allocators import POLICIES
from swapconf.trace.lifetimes import CATEGORIES, NEVER, TICKS, Lifetimes, Placement, usage
from swapconf.words.units import GIB, MIB
from tests.laws.strategies import numbers, rows_of

SIZES = st.one_of(st.integers(1, 64), st.integers(1, 64 * 2048), st.integers(1, 3 * 2048 * 1024)).map(lambda n: 512 * n)
BOOLEANS, HALVED = st.booleans(), st.sampled_from([1, 2])


@st.composite
def lives(draw: st.DrawFn, max_blocks: int = 40, released: bool = False) -> Lifetimes:
    """Blocks whose births and releases are shuffled events; as in predictions, a release may share its time."""
    count = draw(numbers(1, max_blocks))
    length = draw(rows_of(numbers(1, 2 * count), count))
    kept = [False] * count if released else draw(rows_of(BOOLEANS, count))
    start = np.arange(count, dtype=np.int64) * TICKS
    end = start + np.array(length, dtype=np.int64) * TICKS // draw(HALVED)
    persistent = draw(rows_of(BOOLEANS, count))
    category = draw(rows_of(numbers(0, len(CATEGORIES) - 1), count))
    return Lifetimes(
        start=start,
        end=np.where(kept, NEVER, end),
        category=np.array(category, dtype=np.uint8),
        size_bytes=np.array(draw(rows_of(SIZES, count)), dtype=np.int64),
        is_persistent=np.array(persistent) & np.array(kept),
        layer=np.full(count, -1, dtype=np.int32),
        name=np.zeros(count, dtype=np.int32),
        names=("x",),
    )


def overlaps(live: Lifetimes, placement: Placement) -> list[tuple[int, int]]:
    """Pairs of blocks that live at once and share bytes, from scratch."""
    found = []
    for first in range(len(live)):
        for second in range(first):
            if (
                placement.segment[first] == placement.segment[second]
                and live.start[first] < live.end[second]
                and live.start[second] < live.end[first]
                and placement.offset[first] < placement.offset[second] + live.size_bytes[second]
                and placement.offset[second] < placement.offset[first] + live.size_bytes[first]
            ):
                found.append((second, first))
    return found


@pytest.mark.parametrize("policy", POLICIES)
@given(live=lives())
def test_no_two_live_blocks_share_a_byte(policy: str, live: Lifetimes) -> None:
    placement = POLICIES[policy](live)
    assert (placement.offset >= 0).all()
    assert overlaps(live, placement) == []


@pytest.mark.parametrize("policy", POLICIES)
@given(live=lives())
def test_no_less_is_reserved_than_mapped_nor_mapped_than_used(policy: str, live: Lifetimes) -> None:
    placement = POLICIES[policy](live)
    assert placement.reserved_bytes >= placement.mapped_bytes >= placement.used_peak_bytes == live.used_peak_bytes
    assert 0 <= placement.fragmentation_ratio < 1
    assert placement.device_requests > 0


@given(live=lives())
def test_the_peak_is_the_most_of_what_is_in_use_after_each_event(live: Lifetimes) -> None:
    assert live.used_peak_bytes == live.used.peak_bytes == usage(live.start, live.end, live.size_bytes).peak_bytes


@given(live=lives(released=True))
def test_what_is_released_is_gone(live: Lifetimes) -> None:
    assert live.used.bytes_after[-1] == 0
    assert live.used.bytes_after.min() >= 0
    assert usage(live.start, live.end, live.size_bytes).peak_bytes == live.used_peak_bytes


@pytest.mark.parametrize("policy", ["mindspore", "lifetime", "expandable"])
@given(live=lives(released=True, max_blocks=12))
def test_when_all_is_released_all_can_be_used_again(policy: str, live: Lifetimes) -> None:
    """A last block, as large as what the pool may give it in one piece, needs nothing new. ``lifetime`` may need less:
    with it, others do not live long in comparison."""
    before = POLICIES[policy](live)
    piece = 2 * GIB if policy == "mindspore" else before.mapped_bytes // (2 * MIB) * (2 * MIB)
    if policy == "lifetime":  # a higher peak would have others share larger pieces
        piece = min(piece, live.used_peak_bytes)
    if piece:
        assert POLICIES[policy](followed_by(live, piece)).reserved_bytes <= before.reserved_bytes


def followed_by(live: Lifetimes, size_bytes: int) -> Lifetimes:
    time = int(live.end.max()) + TICKS
    return Lifetimes(
        start=np.append(live.start, time),
        end=np.append(live.end, time + TICKS),
        size_bytes=np.append(live.size_bytes, size_bytes),
        is_persistent=np.append(live.is_persistent, False),
        category=np.append(live.category, np.uint8(0)),
        layer=np.append(live.layer, np.int32(-1)),
        name=np.append(live.name, np.int32(0)),
        names=live.names,
    )


@given(live=lives())
def test_expandable_maps_the_granules_that_blocks_touch_and_no_others(live: Lifetimes) -> None:
    """Counted granule by granule, as the policy itself must not: a trace may speak of blocks of any size."""
    placement = POLICIES["expandable"](live)
    touched = [
        {(int(segment), granule) for granule in range(offset // (2 * MIB), -(-(offset + size) // (2 * MIB)))}
        for segment, offset, size in zip(
            placement.segment, placement.offset.tolist(), live.size_bytes.tolist(), strict=True
        )
    ]
    most = requests = 0
    alive: dict[int, set[tuple[int, int]]] = {}
    for event in live.events.tolist():
        if event < 0:
            del alive[~event]
            continue
        before = set().union(*alive.values())
        alive[event] = touched[event]
        requests += len(touched[event] - before)
        most = max(most, len(before | touched[event]))
    assert (placement.mapped_bytes, placement.device_requests) == (most * 2 * MIB, requests)
