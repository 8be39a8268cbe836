"""TIMING: one training step of one rank on its streams, and when each of its kernels runs.

A `Program` is what has to run and what must wait for what; a `Timeline` is when it runs. Kernels are counted in the
order in which they are launched, and none waits for a later one. Times are microseconds from the start of the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from swapconf.words.phrases import mark

Floats = NDArray[np.float64]


class KernelKind(Enum):
    """What a kernel occupies."""

    COMPUTE = mark("compute")
    COLLECTIVE = mark("communication")
    TO_HOST = "D2H"
    TO_DEVICE = "H2D"


KINDS = tuple(KernelKind)
COMPUTE, COLLECTIVE, TO_HOST, TO_DEVICE = range(len(KINDS))


@dataclass(frozen=True, kw_only=True, eq=False)
class Waits:
    """Who waits for whom, of n kernels: int64 [m] each, ``waiter`` ascending, what one waits for ascending, too.
    ``bounds``: int64 [n + 1], the pairs of kernel i are those from bounds[i] to bounds[i + 1]."""

    waiter: NDArray[np.int64]
    awaited: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def of_pairs(cls, waiter: NDArray[np.int64], awaited: NDArray[np.int64], count: int) -> Waits:
        """Pairs in any order, some of them several times. ``count``: of kernels."""
        keys = np.unique(waiter * count + awaited)
        return cls(
            waiter=keys // max(count, 1),
            awaited=keys % max(count, 1),
            bounds=np.searchsorted(keys, np.arange(count + 1) * count),
        )

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> Waits:
        """By kernel, what it waits for."""
        return cls.of_pairs(
            np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int64),
            np.array([item for row in rows for item in row], dtype=np.int64),
            len(rows),
        )

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, kernel: int) -> tuple[int, ...]:
        """What one kernel waits for, ascending."""
        return tuple(self.awaited[self.bounds[kernel] : self.bounds[kernel + 1]].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        awaited, bounds = tuple(self.awaited.tolist()), self.bounds.tolist()
        return (awaited[low:high] for low, high in pairwise(bounds))


@dataclass(frozen=True, kw_only=True)
class Program:
    """``names`` of the n kernels, ``stream`` int32 [n], ``kind`` uint8 [n] (index into KINDS), and ``waits``: by kernel
    those of other streams that it waits for; that it waits for the one before it on its own stream is not told again.
    ``event``: int64 [n], when the memory tracker saw it launched, ascending. ``freed``: int64 [n], of a copy to the
    host the event at which the block on the device is released, NEVER of all others and where it is kept."""

    names: tuple[str, ...]
    stream: NDArray[np.int32]
    kind: NDArray[np.uint8]
    waits: Waits
    event: NDArray[np.int64]
    freed: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def main_stream(self) -> int:
        """The one with the most kernels that compute."""
        streams, counts = np.unique(self.stream[self.kind == COMPUTE], return_counts=True)
        return int(streams[counts.argmax()]) if len(streams) else -1


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """``start_us``, ``end_us``: float64 [n]. ``cause``: int64 [n], the kernel whose end let this one start, -1 for the
    start of the step. ``exposed_us``: float64 [n], how long the main stream stood still because of this kernel; with
    the time that the main stream is busy it adds up to ``step_us``."""

    program: Program
    start_us: Floats
    end_us: Floats
    cause: NDArray[np.int64]
    exposed_us: Floats

    @cached_property
    def step_us(self) -> float:
        return float(self.end_us.max(initial=0.0))

    def busy_us(self, stream: int) -> float:
        mine = self.program.stream == stream
        return float((self.end_us[mine] - self.start_us[mine]).sum())

    def occupancy(self, kind: KernelKind) -> float:
        """The part of the step, 0 to 1, in which a kernel of this kind runs; for a copy, its link is in use."""
        mine = np.flatnonzero(self.program.kind == KINDS.index(kind))
        return covered_us(self.start_us[mine], self.end_us[mine]) / self.step_us if self.step_us else 0.0

    def exposed_of(self, kind: KernelKind) -> float:
        return float(self.exposed_us[self.program.kind == KINDS.index(kind)].sum())

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """Kernels that follow each other without a gap from the start of the step to its end."""
        path: list[int] = []
        kernel = int(self.end_us.argmax()) if len(self.end_us) else -1
        while kernel >= 0:
            path.append(kernel)
            kernel = int(self.cause[kernel])
        return tuple(reversed(path))


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefetch:
    """One copy back to the device, all else unchanged.

    Attributes:
        late_us: How long the main stream waits for it.
        later_us: By how much later it could end without being waited for.
        earlier_us: By how much earlier it could start before the forward copy is released, so that both are held;
            negative where they are.
    """

    kernel: int
    to_host: int
    late_us: float
    later_us: float
    earlier_us: float


def covered_us(start_us: Floats, end_us: Floats) -> float:
    """The length of the union of intervals, both [m]."""
    if not len(start_us):
        return 0.0
    order = np.argsort(start_us, kind="stable")
    start, reached = start_us[order], np.maximum.accumulate(end_us[order])
    before = np.concatenate([start[:1], reached[:-1]])
    return float(np.maximum(reached - np.maximum(start, before), 0.0).sum())


@dataclass(frozen=True, kw_only=True)
class RankTimeline:
    """One rank on a clock that it shares with others.

    Attributes:
        timeline: Its kernels; there ``cause`` stays within the rank, and ``exposed_us`` tells of what the rank itself
            runs.
        ready_us: Float64 [n], when a kernel could have started if the others had been there.
        bubbles_us: Float64 [k, 2], from when until when the main stream stood still because they were not; their
            lengths, the time that it is busy and all exposed times add up to the step of all ranks.
        stalls_us: Float64 [s, 2], from when until when it stood still because of ``staller``: int64 [s], kernels; in
            sum the exposed times.
    """

    rank: int
    timeline: Timeline
    ready_us: Floats
    bubbles_us: Floats
    stalls_us: Floats
    staller: NDArray[np.int64]

    @property
    def bubble_us(self) -> float:
        return float((self.bubbles_us[:, 1] - self.bubbles_us[:, 0]).sum())

    @property
    def busy_us(self) -> float:
        """Of the main stream."""
        return self.timeline.busy_us(self.timeline.program.main_stream)


@dataclass(frozen=True, kw_only=True)
class JointTimeline:
    """One step of several ranks, which wait for each other. ``absent``: ranks that some of these exchange data with,
    and whose step is not known; they are taken to be on time."""

    ranks: tuple[RankTimeline, ...]
    absent: tuple[int, ...] = ()

    @cached_property
    def step_us(self) -> float:
        return max((line.timeline.step_us for line in self.ranks), default=0.0)

    @property
    def imbalance(self) -> float:
        """By how much the busiest rank is busier than the mean: 0 where all are equally busy."""
        busy = [line.busy_us for line in self.ranks]
        return max(busy) * len(busy) / sum(busy) - 1 if sum(busy) else 0.0

    @property
    def bubble_share(self) -> float:
        """The part of the step, 0 to 1, that ranks wait for others, in the mean of the ranks."""
        waited = sum(line.bubble_us for line in self.ranks)
        return waited / (len(self.ranks) * self.step_us) if self.step_us else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineSchedule:
    """How a pipeline is cut: ``num_chunks`` parts of the model on each stage (1: no interleave)."""

    num_stages: int
    num_micro_batches: int
    num_chunks: int = 1

    def step_us(self, micro_us: Sequence[float]) -> float:
        """The least that 1F1B takes. ``micro_us``: by stage, forward and backward of one micro-batch.

        A stage works through all micro-batches, and every stage before it once before that and once after it. Equal
        stages make that (m + p - 1)(tf + tb), and (m + (p - 1) / v)(tf + tb) with an interleave of v (Narayanan et al.
        2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2)."""
        return max(
            self.num_micro_batches * own + sum(micro_us[:stage]) / self.num_chunks for stage, own in enumerate(micro_us)
        )
