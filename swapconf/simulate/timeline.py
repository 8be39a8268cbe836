"""PROGRAM + TIMES -> TIMELINE: every kernel starts as soon as its stream and the kernels that it waits for allow.

Launching is taken to be free. What a copy or a collective costs is what the main stream stands still for it: a gap of
the main stream is handed back along the kernels whose ends let each other start, each as long as it lies in the gap.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from swapconf.simulation import NEVER, Lifetimes, usage
from swapconf.timing import TO_DEVICE, TO_HOST, Floats, Prefetch, Program, Timeline


def replay(program: Program, duration_us: Floats) -> Timeline:
    """``duration_us``: [n], not negative. Linear in the number of kernels and waits."""
    durations, streams = duration_us.tolist(), program.stream.tolist()
    start: list[float] = []
    end: list[float] = []
    cause: list[int] = []
    last: dict[int, int] = {}
    for kernel, stream in enumerate(streams):
        because = last.get(stream, -1)
        at = end[because] if because >= 0 else 0.0
        for awaited in program.waits[kernel]:
            if end[awaited] > at:
                at, because = end[awaited], awaited
        start.append(at)
        end.append(at + durations[kernel])
        cause.append(because)
        last[stream] = kernel
    return Timeline(program=program, start_us=np.array(start), end_us=np.array(end),
                    cause=np.array(cause, dtype=np.int64), exposed_us=_exposed(program, start, end, cause))


def serial(program: Program) -> Program:
    """The same kernels one after another, so that nothing overlaps."""
    return replace(program, waits=((),) * len(program), stream=np.zeros(len(program), dtype=np.int32))


def _exposed(program: Program, start: list[float], end: list[float], cause: list[int]) -> Floats:
    exposed = [0.0] * len(start)
    reached = 0.0
    for kernel in np.flatnonzero(program.stream == program.main_stream).tolist():
        if start[kernel] > reached:
            _blame(cause[kernel], reached, start, end, cause, exposed)
        reached = end[kernel]
    if end and max(end) > reached:
        _blame(end.index(max(end)), reached, start, end, cause, exposed)
    return np.array(exposed)


def _blame(kernel: int, since: float, start: list[float], end: list[float], cause: list[int],
           exposed: list[float]) -> None:
    """Hands the time from ``since`` to the end of a kernel to it and to what it started after."""
    while kernel >= 0 and end[kernel] > since:
        exposed[kernel] += end[kernel] - max(start[kernel], since)
        kernel = cause[kernel]


def prefetches(timeline: Timeline) -> tuple[Prefetch, ...]:
    """Every copy back to the device whose copy to the host is in the same step and whose reader waits for it."""
    program = timeline.program
    reader = _first_waiter(program)
    pairs = [(kernel, to_host, reader[kernel]) for kernel in np.flatnonzero(program.kind == TO_DEVICE).tolist()
             if kernel in reader and (to_host := _undone(program, kernel)) >= 0]
    released_us = _clock_us(timeline, program.freed[[to_host for _, to_host, _ in pairs]])
    return tuple(Prefetch(
        kernel=kernel, to_host=to_host, late_us=float(timeline.exposed_us[kernel]),
        later_us=float(timeline.start_us[reading] - timeline.end_us[kernel]),
        earlier_us=float(timeline.start_us[kernel] - released))
        for (kernel, to_host, reading), released in zip(pairs, released_us, strict=True))


def _undone(program: Program, kernel: int) -> int:
    """The copy to the host that a copy back undoes: of those that it waits for the first, -1 where there is none. The
    others are those that had been launched until then."""
    return next((item for item in program.waits[kernel] if program.kind[item] == TO_HOST), -1)


def _first_waiter(program: Program) -> dict[int, int]:
    """By copy the first kernel of the main stream that waits for it."""
    first: dict[int, int] = {}
    for kernel in np.flatnonzero(program.stream == program.main_stream).tolist():
        for awaited in program.waits[kernel]:
            if program.kind[awaited] == TO_DEVICE:
                first.setdefault(awaited, kernel)
    return first


def _clock_us(timeline: Timeline, event: NDArray[np.int64]) -> Floats:
    """When an event of the memory tracker happens: when the main stream gets to the kernel that is launched next."""
    program = timeline.program
    main = np.flatnonzero(program.stream == program.main_stream)
    clock = np.append(timeline.start_us[main], timeline.step_us)
    at: Floats = clock[np.searchsorted(program.event[main], event, side="left")]
    return at


def memory(timeline: Timeline, live: Lifetimes) -> tuple[Floats, NDArray[np.int64]]:
    """Device bytes in use over the clock of the step: (microseconds, bytes from then on), both [m].

    Memory is given out in the order of launches. What is born after the step is left out, what lives through it is in
    use from the start.
    """
    after = timeline.program.event.max(initial=0)
    inside = live.start <= after
    curve = usage(live.start[inside], np.where(live.end[inside] > after, NEVER, live.end[inside]),
                  live.size_bytes[inside])
    return _clock_us(timeline, curve.time), curve.bytes_after
