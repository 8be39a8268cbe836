"""PROGRAMS OF SEVERAL RANKS + TIMES -> ENDS: when each kernel ends, as in `joint`, and nothing else of it.

For those who ask again and again. Kernels that nothing but their stream holds up are one run, and ranks are worked
through in the order of their launches; where that order does not lead to the end, the general replay does it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from swapconf.timing.joint import joint_replay
from swapconf.timing.meetings import Meeting
from swapconf.timing.timeline import Runs, runs_of
from swapconf.timing.timing import Floats, Program


def joint_ends_us(
    programs: Sequence[Program], durations_us: Sequence[Floats], meetings: Sequence[Meeting]
) -> list[Floats]:
    """By rank float64 [n]. ``durations_us``: by rank [n], not negative; of a meeting the longest counts. Raises
    Deadlock."""
    lasting = [duration.copy() for duration in durations_us]
    opens = [np.zeros(len(program), dtype=np.bool_) for program in programs]
    for meeting in meetings:
        longest = max(float(lasting[rank][kernel]) for rank, kernel in meeting)
        for rank, kernel in meeting:
            lasting[rank][kernel] = longest
            opens[rank][kernel] = True
    ranks = [
        _Rank(program, runs_of(program, duration, also))
        for program, duration, also in zip(programs, lasting, opens, strict=True)
    ]
    if not _done(ranks, meetings):
        joint = joint_replay(range(len(programs)), programs, durations_us, meetings)
        return [line.timeline.end_us for line in joint.ranks]
    return [rank.ends_us() for rank in ranks]


class _Rank:
    """The runs of one rank, worked through up to ``here``; ``start``: of those behind it."""

    def __init__(self, program: Program, runs: Runs) -> None:
        self.runs, waits, first = runs, program.waits, runs.first
        self.count, self.here, self.start = len(first), 0, [0.0] * (len(first) + 1)
        self.of_run = runs.of_kernel[waits.awaited].tolist()
        self.after_us = runs.end_us[waits.awaited].tolist()
        self.low, self.high = waits.bounds[first].tolist(), waits.bounds[first + 1].tolist()
        ahead = runs.ahead[first]
        self.run_ahead = np.where(ahead >= 0, runs.of_kernel[ahead], len(first)).tolist()
        self.ahead_us = np.where(ahead >= 0, runs.end_us[ahead], 0.0).tolist()

    def reach(self, stop: int) -> None:
        """Start all runs up to one, each when it could if nobody else were needed, that one, too."""
        start, of_run, after_us, here = self.start, self.of_run, self.after_us, slice(self.here, stop + 1)
        columns = self.run_ahead[here], self.ahead_us[here], self.low[here], self.high[here]
        for run, (ahead, ahead_us, low, high) in enumerate(zip(*columns, strict=True), self.here):
            at = start[ahead] + ahead_us
            for pair in range(low, high):
                end = start[of_run[pair]] + after_us[pair]
                if end > at:
                    at = end
            start[run] = at
        self.here = min(stop, self.count)

    def ends_us(self) -> Floats:
        return np.array(self.start)[self.runs.of_kernel] + self.runs.end_us


def _done(ranks: Sequence[_Rank], meetings: Sequence[Meeting]) -> bool:
    """Whether all could be worked through."""
    meeting_of: list[dict[int, int]] = [{} for _ in ranks]
    for number, meeting in enumerate(meetings):
        for which, kernel in meeting:
            meeting_of[which][int(ranks[which].runs.of_kernel[kernel])] = number
    stops = [[*sorted(mine), rank.count] for mine, rank in zip(meeting_of, ranks, strict=True)]
    missing, at = [len(meeting) for meeting in meetings], [0.0] * len(meetings)
    waiting: dict[int, list[int]] = {}
    going = list(range(len(ranks)))
    while going:
        which = going.pop()
        rank, mine = ranks[which], meeting_of[which]
        while rank.here < rank.count:
            rank.reach(stops[which][bisect_left(stops[which], rank.here)])
            if rank.here == rank.count:
                break
            number = mine[rank.here]
            at[number] = max(at[number], rank.start[rank.here])
            missing[number] -= 1
            waiting.setdefault(number, []).append(which)
            if missing[number]:
                break
            for other in waiting.pop(number):
                ranks[other].start[ranks[other].here] = at[number]
                ranks[other].here += 1
                going += [other] * (other != which)
    return all(rank.here == rank.count for rank in ranks)
