"""PROGRAM + TIMES -> TIMELINE: every kernel starts as soon as its stream and the kernels that it waits for allow.

Launching is taken to be free. What a copy or a collective costs is what the main stream stands still for it: a gap of
the main stream is handed back along the kernels whose ends let each other start, each as long as it lies in the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.timing import TO_DEVICE, TO_HOST, Floats, Prefetch, Program, Timeline, Waits
from swapconf.trace.lifetimes import NEVER, Lifetimes


def replay(program: Program, duration_us: Floats) -> Timeline:
    """``duration_us``: [n], not negative. Linear in the number of kernels and waits."""
    runs = runs_of(program, duration_us)
    first = runs.first.tolist()
    of_run, after_us = runs.of_kernel[program.waits.awaited].tolist(), runs.end_us[program.waits.awaited].tolist()
    awaited, bounds = program.waits.awaited.tolist(), program.waits.bounds
    low, high = bounds[runs.first].tolist(), bounds[runs.first + 1].tolist()
    ahead = runs.ahead[runs.first]
    run_ahead = np.where(ahead >= 0, runs.of_kernel[ahead], len(first)).tolist()
    ahead_us = np.where(ahead >= 0, runs.end_us[ahead], 0.0).tolist()
    start = [0.0] * (len(first) + 1)
    because = ahead.tolist()
    for run in range(len(first)):
        at = start[run_ahead[run]] + ahead_us[run]
        for pair in range(low[run], high[run]):
            end = start[of_run[pair]] + after_us[pair]
            if end > at:
                at, because[run] = end, awaited[pair]
        start[run] = at
    cause = runs.ahead
    cause[runs.first] = because
    began_us = np.array(start)[runs.of_kernel]
    start_us, end_us = began_us + runs.start_us, began_us + runs.end_us
    return Timeline(
        program=program,
        start_us=start_us,
        end_us=end_us,
        cause=cause,
        exposed_us=_exposed(program, start_us, end_us, cause),
    )


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Kernels of one stream that follow each other without waiting for another, as one: run r begins with the kernel
    ``first[r]``, ascending. Of each kernel: ``of_kernel``, its run; ``ahead``, the one before it on its stream, -1 for
    none; ``start_us``, ``end_us``, counted from the start of the run."""

    first: NDArray[np.int64]
    of_kernel: NDArray[np.int64]
    ahead: NDArray[np.int64]
    start_us: Floats
    end_us: Floats


def runs_of(program: Program, duration_us: Floats, opening: NDArray[np.bool_] | None = None) -> Runs:
    """``opening``: [n] kernels that begin a run of their own, whatever they wait for."""
    order = np.argsort(program.stream, kind="stable")
    is_new = np.diff(program.stream[order], prepend=-1) != 0
    ahead = np.empty(len(order), dtype=np.int64)
    ahead[order] = np.where(is_new, -1, np.roll(order, 1))
    opens = is_new | (np.diff(program.waits.bounds)[order] > 0)
    if opening is not None:
        opens |= opening[order]
    first = np.sort(order[opens])
    of_kernel = np.empty(len(order), dtype=np.int64)
    of_kernel[order] = np.searchsorted(first, order[opens])[np.cumsum(opens) - 1]
    reached = np.cumsum(duration_us[order])
    begun = np.concatenate([[0.0], reached[:-1]])[: len(order)]
    opened = begun[opens][np.cumsum(opens) - 1]
    start_us, end_us = np.empty(len(order)), np.empty(len(order))
    start_us[order], end_us[order] = begun - opened, reached - opened
    return Runs(first=first, of_kernel=of_kernel, ahead=ahead, start_us=start_us, end_us=end_us)


def serial(program: Program) -> Program:
    """The same kernels one after another, so that nothing overlaps."""
    return replace(program, waits=Waits.of_rows([()] * len(program)), stream=np.zeros(len(program), dtype=np.int32))


def _exposed(program: Program, start_us: Floats, end_us: Floats, cause: NDArray[np.int64]) -> Floats:
    """Of each gap of the main stream, and of what is left when it has ended."""
    main = np.flatnonzero(program.stream == program.main_stream)
    reached = np.concatenate([[0.0], end_us[main]])
    gaps = np.flatnonzero(start_us[main] > reached[:-1])
    start, end, causes = start_us.tolist(), end_us.tolist(), cause.tolist()
    exposed = [0.0] * len(start)
    for kernel, since in zip(main[gaps].tolist(), reached[gaps].tolist(), strict=True):
        _blame(causes[kernel], since, start, end, causes, exposed)
    if len(end) and end_us.max() > reached[-1]:
        _blame(int(end_us.argmax()), float(reached[-1]), start, end, causes, exposed)
    return np.array(exposed)


def _blame(
    kernel: int, since: float, start: list[float], end: list[float], cause: list[int], exposed: list[float]
) -> None:
    """Hands the time from ``since`` to the end of a kernel to it and to what it started after."""
    while kernel >= 0 and end[kernel] > since:
        exposed[kernel] += end[kernel] - max(start[kernel], since)
        kernel = cause[kernel]


def prefetches(timeline: Timeline) -> tuple[Prefetch, ...]:
    """Every copy back to the device whose copy to the host is in the same step and whose reader waits for it."""
    program = timeline.program
    undone, reader = _undone(program), _first_waiter(program)
    kernels = np.flatnonzero((undone >= 0) & (reader < len(program)))
    released_us = clock_us(timeline, program.freed[undone[kernels]])
    columns = (
        kernels,
        undone[kernels],
        timeline.exposed_us[kernels],
        timeline.start_us[reader[kernels]] - timeline.end_us[kernels],
        timeline.start_us[kernels] - released_us,
    )
    return tuple(
        Prefetch(kernel=kernel, to_host=to_host, late_us=late, later_us=later, earlier_us=earlier)
        for kernel, to_host, late, later, earlier in zip(*(column.tolist() for column in columns), strict=True)
    )


def _undone(program: Program) -> NDArray[np.int64]:
    """[n] the copy to the host that a copy back undoes: of those that it waits for the first, -1 where there is none.
    The others are those that had been launched until then."""
    waits = program.waits
    pairs = np.flatnonzero((program.kind[waits.waiter] == TO_DEVICE) & (program.kind[waits.awaited] == TO_HOST))
    found = np.full(len(program), -1, dtype=np.int64)
    found[waits.waiter[pairs][::-1]] = waits.awaited[pairs][::-1]
    return found


def _first_waiter(program: Program) -> NDArray[np.int64]:
    """[n] the first kernel of the main stream that waits for a copy back; n where none does."""
    waits = program.waits
    pairs = np.flatnonzero(
        (program.kind[waits.awaited] == TO_DEVICE) & (program.stream[waits.waiter] == program.main_stream)
    )
    first = np.full(len(program), len(program), dtype=np.int64)
    np.minimum.at(first, waits.awaited[pairs], waits.waiter[pairs])
    return first


def clock_us(timeline: Timeline, event: NDArray[np.int64]) -> Floats:
    """When an event of the memory tracker happens: when the main stream gets to the kernel that is launched next."""
    program = timeline.program
    main = np.flatnonzero(program.stream == program.main_stream)
    clock = np.append(timeline.start_us[main], timeline.step_us)
    at: Floats = clock[np.searchsorted(program.event[main], event, side="left")]
    return at


def of_step(program: Program, live: Lifetimes) -> Lifetimes:
    """Without what is born after the step; what lives through it is never released."""
    after = program.event.max(initial=0)
    inside = live.start <= after
    return Lifetimes(
        start=live.start[inside],
        end=np.where(live.end[inside] > after, NEVER, live.end[inside]),
        size_bytes=live.size_bytes[inside],
        is_persistent=live.is_persistent[inside],
        layer=live.layer[inside],
        category=live.category[inside],
        name=live.name[inside],
        names=live.names,
    )


def memory(timeline: Timeline, live: Lifetimes) -> tuple[Floats, NDArray[np.int64]]:
    """Device bytes in use over the clock of the step: (microseconds, bytes from then on), both [m].

    Memory is given out in the order of launches. What is born after the step is left out, what lives through it is in
    use from the start.
    """
    curve = of_step(timeline.program, live).used
    return clock_us(timeline, curve.time), curve.bytes_after
