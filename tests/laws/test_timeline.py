"""What holds of every timeline, whatever runs and whatever waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.timing.timeline import prefetches, replay, serial
from swapconf.timing.timing import COLLECTIVE, COMPUTE, KINDS, TO_DEVICE, TO_HOST, Floats, Program, Waits, covered_us
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import NEVER
from tests.laws.strategies import numbers, places_in, rows_of

BOOLEANS, MOVES = st.booleans(), st.sampled_from(("no", "out", "in"))
BY_STREAM = (COMPUTE, COLLECTIVE, TO_HOST, TO_DEVICE, COMPUTE)


def unfreed(count: int) -> Ints:
    return np.full(count, NEVER, dtype=np.int64)


@st.composite
def programs(draw: st.DrawFn, max_kernels: int = 16) -> tuple[Program, Floats]:
    """Kernels on up to five streams; each waits for any earlier ones of other streams. Whole microseconds, so that
    sums are exact."""
    count = draw(numbers(1, max_kernels))
    stream = draw(rows_of(numbers(0, 4), count))
    waits = []
    for kernel in range(count):
        others = [item for item in range(kernel) if stream[item] != stream[kernel]]
        waits.append(tuple(others[place] for place in draw(places_in(len(others), 3))) if others else ())
    duration = draw(rows_of(numbers(0, 50), count))
    return Program(
        names=tuple(map(str, range(count))),
        stream=np.array(stream, dtype=np.int32),
        waits=Waits.of_rows(waits),
        kind=np.array([BY_STREAM[item] for item in stream], dtype=np.uint8),
        event=np.arange(count, dtype=np.int64),
        freed=unfreed(count),
    ), np.array(duration, dtype=np.float64)


def edges(program: Program) -> list[tuple[int, int]]:
    """(earlier, later) of all that must follow each other, from scratch."""
    found = [(awaited, kernel) for kernel, waits in enumerate(program.waits) for awaited in waits]
    for kernel in range(len(program)):
        mine = [item for item in range(kernel) if program.stream[item] == program.stream[kernel]]
        found.extend((item, kernel) for item in mine)
    return found


def longest_path(program: Program, duration_us: Floats) -> float:
    length = list(duration_us)
    for earlier, later in sorted(edges(program), key=lambda edge: edge[1]):
        length[later] = max(length[later], length[earlier] + duration_us[later])
    return float(max(length))


@given(programs())
def test_no_kernel_starts_before_what_it_waits_for(made: tuple[Program, Floats]) -> None:
    line = replay(*made)
    assert all(line.end_us[earlier] <= line.start_us[later] for earlier, later in edges(made[0]))
    assert (line.end_us - line.start_us == made[1]).all()


@given(programs())
def test_the_step_is_the_longest_path_and_no_shorter_than_any_stream(made: tuple[Program, Floats]) -> None:
    line = replay(*made)
    assert line.step_us == longest_path(*made)
    assert all(line.step_us >= line.busy_us(stream) for stream in set(made[0].stream.tolist()))
    assert sum(made[1][kernel] for kernel in line.critical_path) == line.step_us


@given(programs())
def test_the_main_stream_works_or_stands_still_because_of_something(made: tuple[Program, Floats]) -> None:
    program, duration = made
    line = replay(program, duration)
    assert line.busy_us(program.main_stream) + line.exposed_us.sum() == line.step_us
    assert (line.exposed_us >= 0).all()
    assert (line.exposed_us <= duration).all()
    assert not line.exposed_us[program.stream == program.main_stream].any()


@given(programs())
def test_without_overlap_the_step_costs_the_sum(made: tuple[Program, Floats]) -> None:
    program, duration = made
    assert replay(serial(program), duration).step_us == duration.sum()
    assert replay(program, duration).step_us <= duration.sum()


def copies(program: Program) -> Flags:
    return np.isin(program.kind, (TO_HOST, TO_DEVICE))


@given(programs())
def test_copies_that_take_no_time_are_never_waited_for(made: tuple[Program, Floats]) -> None:
    program, duration = made
    line = replay(program, np.where(copies(program), 0.0, duration))
    assert not line.exposed_us[copies(program)].any()


@st.composite
def swaps(draw: st.DrawFn) -> tuple[Program, Program, Floats]:
    """Computation on one stream that swaps, and the same without: each copy waits for one kernel of the main stream and
    for the copy that it undoes, and a later kernel of the main stream waits for it."""
    count = draw(numbers(2, 12))
    lasting = [float(item) for item in draw(rows_of(numbers(1, 50), count))]
    stream: list[int] = []
    waits: list[tuple[int, ...]] = []
    main: list[int] = []
    pending: list[int] = []
    moved: list[int] = []
    kept = []
    for index in range(count):
        awaited = tuple(pending) if draw(BOOLEANS) else ()
        if awaited:
            pending = []
        main.append(len(stream))
        kept.append(lasting[index])
        stream.append(0)
        waits.append(awaited)
        move = draw(MOVES)
        if move == "out" or (move == "in" and moved):
            copy = len(stream)
            waits.append((main[-1],) if move == "out" else (main[-1], moved.pop()))
            stream.append(2 if move == "out" else 3)
            kept.append(float(draw(numbers(0, 50))))
            pending.append(copy)
            if move == "out":
                moved.append(copy)
    with_swap = Program(
        names=tuple(map(str, range(len(stream)))),
        stream=np.array(stream, dtype=np.int32),
        waits=Waits.of_rows(waits),
        kind=np.array([BY_STREAM[item] for item in stream], dtype=np.uint8),
        event=np.arange(len(stream)),
        freed=unfreed(len(stream)),
    )
    without = Program(
        names=tuple(map(str, main)),
        stream=np.zeros(count, dtype=np.int32),
        waits=Waits.of_rows([()] * count),
        kind=np.zeros(count, dtype=np.uint8),
        event=np.arange(count),
        freed=unfreed(count),
    )
    return with_swap, without, np.array(kept)


@given(swaps())
def test_with_infinite_bandwidth_swap_costs_nothing(made: tuple[Program, Program, Floats]) -> None:
    program, without, duration = made
    is_copy = copies(program)
    free = replay(program, np.where(is_copy, 0.0, duration))
    assert free.step_us == replay(without, duration[~is_copy]).step_us
    assert replay(program, duration).step_us >= free.step_us


@given(swaps())
def test_a_prefetch_that_uses_up_its_room_makes_nothing_later(made: tuple[Program, Program, Floats]) -> None:
    program, _, duration = made
    line = replay(program, duration)
    for item in prefetches(line):
        assert program.kind[item.kernel] == TO_DEVICE
        assert item.later_us >= 0
        later = duration.copy()
        later[item.kernel] += item.later_us
        follows = [
            kernel
            for kernel in range(item.kernel + 1, len(program))
            if program.stream[kernel] == program.stream[item.kernel]
        ]
        if not follows:
            assert replay(program, later).step_us == line.step_us


@given(programs(), st.integers(0, 15), st.integers(1, 20))
def test_a_longer_kernel_never_makes_the_step_shorter(made: tuple[Program, Floats], which: int, more: int) -> None:
    program, duration = made
    longer = duration.copy()
    longer[which % len(program)] += more
    assert 0 <= replay(program, longer).step_us - replay(program, duration).step_us <= more


@given(programs())
def test_a_missing_wait_never_makes_the_step_longer(made: tuple[Program, Floats]) -> None:
    program, duration = made
    free = replace(program, waits=Waits.of_rows([()] * len(program)))
    assert replay(free, duration).step_us <= replay(program, duration).step_us


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_covered_time_is_that_of_the_union(intervals: list[tuple[int, int]]) -> None:
    start = np.array([at for at, _ in intervals], dtype=np.float64)
    end = start + np.array([length for _, length in intervals], dtype=np.float64)
    union = {tick for at, length in intervals for tick in range(at, at + length)}
    assert covered_us(start, end) == len(union)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_takes_no_time(kind: object) -> None:
    nothing = Program(
        names=(),
        stream=np.zeros(0, dtype=np.int32),
        kind=np.zeros(0, dtype=np.uint8),
        waits=Waits.of_rows(()),
        event=np.zeros(0, dtype=np.int64),
        freed=unfreed(0),
    )
    line = replay(nothing, np.zeros(0))
    assert line.step_us == line.occupancy(kind) == 0  # type: ignore[arg-type]
    assert line.critical_path == ()
