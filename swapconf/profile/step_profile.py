"""STEP PROFILE: one simulated step as a profiler would have seen it: kernels, overlap and memory, on one clock.

Times are whole nanoseconds from the start of the step, the grain of the profiler's files. Intervals are int64 [m, 2],
(start, end), ascending and apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.timing import COLLECTIVE, COMPUTE, Program
from swapconf.trace.lifetimes import Category
from swapconf.trace.trace import Task

Intervals = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Allocations:
    """Device blocks that live in the step, columns of equal length: ``name`` of the kernel or parameter,
    ``size_bytes``, ``start_ns``, ``end_ns``: int64; NEVER for what outlives the step. ``allocated_bytes``,
    ``freed_bytes``: int64, in use after the birth and after the release."""

    name: tuple[str, ...]
    size_bytes: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    allocated_bytes: NDArray[np.int64]
    freed_bytes: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class StepProfile:
    """``start_ns``, ``end_ns``: int64 [n], of the n kernels of ``program``; ``tasks`` and ``groups`` (of communication,
    "" for none) belong to them, ``origin`` is uint8 [n], index into cost.ORIGINS. ``cause``: int64 [n], the kernel
    whose end let this one start, -1 for none.

    ``memory_ns``: int64 [m], ascending; a moment stands there twice where memory peaks within it, the peak first.
    ``memory_bytes``: by category int64 [m], from then on. ``reserved_bytes``: what the pool took of the device.
    """

    rank: int
    hardware: str
    program: Program
    tasks: tuple[Task, ...]
    groups: tuple[str, ...]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    origin: NDArray[np.uint8]
    cause: NDArray[np.int64]
    memory_ns: NDArray[np.int64]
    memory_bytes: Mapping[Category, NDArray[np.int64]]
    allocations: Allocations
    reserved_bytes: int

    @property
    def step_ns(self) -> int:
        return int(self.end_ns.max(initial=0))

    @cached_property
    def used_bytes(self) -> NDArray[np.int64]:
        """The sum over the categories, int64 [m]."""
        total = np.zeros(len(self.memory_ns), dtype=np.int64)
        for column in self.memory_bytes.values():
            total += column
        return total

    @cached_property
    def computing(self) -> Intervals:
        return self._running(COMPUTE)

    @cached_property
    def communicating(self) -> Intervals:
        return self._running(COLLECTIVE)

    @cached_property
    def only_communicating(self) -> Intervals:
        """Communication that no computation covers."""
        return without(self.communicating, self.computing)

    @cached_property
    def free(self) -> Intervals:
        """Neither: the device waits, or only copies."""
        whole = np.array([[0, self.step_ns]], dtype=np.int64)
        return without(whole, union(np.concatenate([self.computing, self.communicating])))

    def _running(self, kind: int) -> Intervals:
        mine = self.program.kind == kind
        return union(np.stack([self.start_ns[mine], self.end_ns[mine]], axis=1))


def union(intervals: Intervals) -> Intervals:
    """Any intervals as ascending ones that are apart; those without length are left out."""
    spans: list[list[int]] = []
    for start, end in sorted(map(tuple, intervals.tolist())):
        if end <= start:
            continue
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


def without(intervals: Intervals, taken: Intervals) -> Intervals:
    """What is left of intervals; both are ascending and apart."""
    left: list[list[int]] = []
    place, holes = 0, taken.tolist()
    for start, end in intervals.tolist():
        while place < len(holes) and holes[place][1] <= start:
            place += 1
        at, hole = start, place
        while hole < len(holes) and holes[hole][0] < end:
            if holes[hole][0] > at:
                left.append([at, holes[hole][0]])
            at = max(at, holes[hole][1])
            hole += 1
        if at < end:
            left.append([at, end])
    return np.array(left, dtype=np.int64).reshape(-1, 2)


def length_ns(intervals: Intervals) -> int:
    return int((intervals[:, 1] - intervals[:, 0]).sum())
