"""PROGRAMS OF SEVERAL RANKS + TIMES -> JOINT TIMELINE: the replay of `timeline`, with kernels that need other ranks.

Kernels that meet start when the last of them could, and end together; until then each keeps its own stream. That is
HCCL's rule for point-to-point: after HcclSend a process can go on only when the matching HcclRecv has received (CANN
8.0 API reference, HcclSend, "Constraints"); a collective needs the data of all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from swapconf.timing.meetings import Meeting
from swapconf.timing.timing import Floats, JointTimeline, Program, RankTimeline, Timeline
from swapconf.words.phrases import joined, phrase


class Deadlock(ValueError):
    """Ranks wait for each other in a circle; the text names the kernels."""


@dataclass(frozen=True, kw_only=True)
class _Units:
    """What starts at once, over all ranks: one kernel, or those of a meeting.

    Attributes:
        members: Kernels by unit, ``unit``: by kernel; kernels count on from one rank to the next, ``offset`` is the
            first of each.
        before: By kernel, those that it waits for.
    """

    members: list[tuple[int, ...]]
    unit: list[int]
    before: list[tuple[int, ...]]
    offset: tuple[int, ...]


def joint_replay(
    ranks: Sequence[int],
    programs: Sequence[Program],
    durations_us: Sequence[Floats],
    meetings: Sequence[Meeting],
    absent: tuple[int, ...] = (),
) -> JointTimeline:
    """``durations_us``: by rank [n], not negative; of a meeting the longest counts. Linear in kernels and waits. Raises
    Deadlock."""
    units = _units(programs, meetings)
    duration = [value for values in durations_us for value in values.tolist()]
    ready, start, end, cause = _times(units, duration, [name for program in programs for name in program.names])
    step_us = max(end, default=0.0)
    lines = []
    for rank, program, first in zip(ranks, programs, units.offset, strict=True):
        mine = slice(first, first + len(program))
        causes = [item - first if item >= 0 else -1 for item in cause[mine]]
        lines.append(_line(rank, program, ready[mine], start[mine], end[mine], causes, step_us))
    return JointTimeline(ranks=tuple(lines), absent=absent)


def _units(programs: Sequence[Program], meetings: Sequence[Meeting]) -> _Units:
    offset = tuple(np.cumsum([0, *map(len, programs)])[:-1].tolist())
    total = sum(map(len, programs))
    unit = [-1] * total
    members: list[tuple[int, ...]] = []
    for meeting in meetings:
        together = tuple(offset[which] + kernel for which, kernel in meeting)
        for kernel in together:
            unit[kernel] = len(members)
        members.append(together)
    for kernel in range(total):
        if unit[kernel] < 0:
            unit[kernel] = len(members)
            members.append((kernel,))
    before: list[tuple[int, ...]] = []
    for program, first in zip(programs, offset, strict=True):
        last: dict[int, int] = {}
        for kernel, stream in enumerate(program.stream.tolist()):
            mine = (last[stream],) if stream in last else ()
            before.append((*mine, *(first + item for item in program.waits[kernel])))
            last[stream] = first + kernel
    return _Units(members=members, unit=unit, before=before, offset=offset)


def _times(
    units: _Units, duration: Sequence[float], names: Sequence[str]
) -> tuple[list[float], list[float], list[float], list[int]]:
    """(ready, start, end, cause) of each kernel: every unit once all that its members wait for has ended."""
    total = len(units.unit)
    ready, start, end, cause = [0.0] * total, [0.0] * total, [0.0] * total, [-1] * total
    after: list[list[int]] = [[] for _ in units.members]
    missing = [0] * len(units.members)
    for kernel, awaited in enumerate(units.before):
        for item in awaited:
            after[units.unit[item]].append(units.unit[kernel])
        missing[units.unit[kernel]] += len(awaited)
    free = [unit for unit, count in enumerate(missing) if not count]
    done = 0
    while free:
        unit = free.pop()
        done += 1
        together = units.members[unit]
        for kernel in together:
            for item in units.before[kernel]:
                if cause[kernel] < 0 or end[item] > ready[kernel]:
                    ready[kernel], cause[kernel] = end[item], item
        at = max(ready[kernel] for kernel in together)
        until = at + max(duration[kernel] for kernel in together)
        for kernel in together:
            start[kernel], end[kernel] = at, until
        for follower in after[unit]:
            missing[follower] -= 1
            if not missing[follower]:
                free.append(follower)
    if done < len(units.members):
        raise Deadlock(_circle(units, missing, names))
    return ready, start, end, cause


def _circle(units: _Units, missing: Sequence[int], names: Sequence[str]) -> str:
    """Going back from any unit that never started to one that it waits for leads into the circle."""
    unit = next(index for index, count in enumerate(missing) if count)
    path: list[int] = []
    while unit not in path:
        path.append(unit)
        unit = next(
            units.unit[item]
            for kernel in units.members[unit]
            for item in units.before[kernel]
            if missing[units.unit[item]]
        )
    meeting = [item for item in path[path.index(unit) :] if len(units.members[item]) > 1]
    told = joined(
        ", ", (reduce(_with, (_named(kernel, units, names) for kernel in units.members[item])) for item in meeting[:4])
    )
    return phrase("the ranks wait for each other in a circle and would hang: {kernels}", kernels=told)


def _with(one: str, other: str) -> str:
    return phrase("{one} with {other}", one=one, other=other)


def _named(kernel: int, units: _Units, names: Sequence[str]) -> str:
    which = sum(first <= kernel for first in units.offset) - 1
    return phrase("{kernel} (trace {number})", kernel=names[kernel], number=which + 1)


def _line(
    rank: int,
    program: Program,
    ready: list[float],
    start: list[float],
    end: list[float],
    cause: list[int],
    step_us: float,
) -> RankTimeline:
    """With the gaps of the main stream handed back as in `timeline`: what a kernel runs of one is exposed, what it was
    ready and waited for others is a bubble, and so is the end of the step where others are still running."""
    spans = _Spans(ready=ready, start=start, end=end, cause=cause, stalls=[], bubbles=[])
    reached = 0.0
    for kernel in np.flatnonzero(program.stream == program.main_stream).tolist():
        if start[kernel] > reached:
            spans.wait(kernel, reached)
            spans.blame(cause[kernel], reached)
        reached = end[kernel]
    own_end = max(end, default=0.0)
    if own_end > reached:
        spans.blame(end.index(own_end), reached)
    if step_us > own_end:
        spans.bubbles.append((own_end, step_us))
    stalls = sorted(spans.stalls)
    stalls_us = np.array([span[:2] for span in stalls], dtype=np.float64).reshape(-1, 2)
    staller = np.array([span[2] for span in stalls], dtype=np.int64)
    exposed = np.zeros(len(start))
    np.add.at(exposed, staller, stalls_us[:, 1] - stalls_us[:, 0])
    return RankTimeline(
        rank=rank,
        ready_us=np.array(ready),
        stalls_us=stalls_us,
        staller=staller,
        bubbles_us=np.array(sorted(spans.bubbles), dtype=np.float64).reshape(-1, 2),
        timeline=Timeline(
            program=program,
            start_us=np.array(start),
            end_us=np.array(end),
            cause=np.array(cause, dtype=np.int64),
            exposed_us=exposed,
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spans:
    """The kernels of one rank while the gaps of its main stream are handed out. ``stalls``: (from, until, kernel),
    ``bubbles``: (from, until)."""

    ready: list[float]
    start: list[float]
    end: list[float]
    cause: list[int]
    stalls: list[tuple[float, float, int]]
    bubbles: list[tuple[float, float]]

    def wait(self, kernel: int, since: float) -> None:
        """What of the time from ``since`` on a kernel was ready and others were not."""
        if self.start[kernel] > (at := max(self.ready[kernel], since)):
            self.bubbles.append((at, self.start[kernel]))

    def blame(self, kernel: int, since: float) -> None:
        """Hands the time from ``since`` to the end of a kernel to it and to what it started after."""
        while kernel >= 0 and self.end[kernel] > since:
            self.stalls.append((max(self.start[kernel], since), self.end[kernel], kernel))
            self.wait(kernel, since)
            kernel = self.cause[kernel]
