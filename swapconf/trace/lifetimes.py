"""SIMULATION: memory over the time of one rank, whether a trace recorded it or a what-if predicted it.

Times are events, as in ``trace``: a trace counts every allocation and release, so no two of them share a time. A
prediction keeps the trace's events, multiplied by ``TICKS`` so that new events fit between two of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from swapconf.words.phrases import mark

NEVER = 2**63 - 1
TICKS = 1 << 20
MAIN_STREAM = 0


class Category(Enum):
    """What a block holds."""

    WEIGHT = mark("weights")
    OPTIMIZER = mark("optimizer state")
    GRADIENT = mark("gradients")
    ACTIVATION = mark("forward activations")
    RECOMPUTED = mark("recomputed")
    SWAP = mark("swap buffers")
    COMMUNICATION = mark("communication")
    WORKSPACE = mark("workspace")
    CONSTANT = mark("constants")
    TEMPORARY = mark("temporaries")


CATEGORIES = tuple(Category)
CONSTANT_VALUE = "ConstantValue"  # kind of a block, in MindSpore's word
OF_KIND = {CONSTANT_VALUE: Category.CONSTANT, "PyNativeInput": Category.CONSTANT, "WorkSpace": Category.WORKSPACE}


@dataclass(frozen=True, kw_only=True)
class Lifetimes:
    """Device allocations of one rank, as columns of equal length n, in order of birth (``start`` ascending).

    ``start``, ``end``: int64 [n], events of birth and release; NEVER for a block that is never released.
    ``size_bytes``: int64 [n]. ``is_persistent``: bool [n]; MindSpore keeps a block of its own for these.
    ``category``: uint8 [n], index into CATEGORIES. ``layer``: int32 [n], global index, -1 outside the layers.
    ``name``: int32 [n], index into ``names``, the full name of the kernel (or parameter) that made the block.
    ``stream``: int64 [n], whose memory it is: each stream has its own; int64 [0] where all is that of MAIN_STREAM.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    is_persistent: NDArray[np.bool_]
    category: NDArray[np.uint8]
    layer: NDArray[np.int32]
    name: NDArray[np.int32]
    names: tuple[str, ...]
    stream: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.start)

    def occupying(self) -> Lifetimes:
        """Without blocks of no bytes, which stand for what is handed on inside a fused kernel."""
        kept = self.size_bytes > 0
        if kept.all():
            return self
        names = ("start", "end", "size_bytes", "is_persistent", "category", "layer", "name")
        return replace(
            self,
            **{name: getattr(self, name)[kept] for name in names},
            stream=self.stream[kept] if len(self.stream) else self.stream,
        )

    @property
    def streams(self) -> NDArray[np.int64]:
        """The same, always int64 [n]."""
        return self.stream if len(self.stream) else np.full(len(self), MAIN_STREAM, dtype=np.int64)

    @cached_property
    def used(self) -> Usage:
        """Bytes in use after each event."""
        return usage(self.start, self.end, self.size_bytes)

    @cached_property
    def used_peak_bytes(self) -> int:
        """The most bytes in use at once: MindSpore's peak without fragments. As ``used`` has it, for less: it is
        reached when something is born."""
        order = np.argsort(self.end, kind="stable")
        freed = np.concatenate([[0], np.cumsum(self.size_bytes[order])])
        gone = np.searchsorted(self.end[order], self.start, side="right")
        return int((np.cumsum(self.size_bytes) - freed[gone]).max(initial=0))

    @cached_property
    def events(self) -> NDArray[np.int64]:
        """What an allocator is asked for, in order: i for the birth of block i, ~i for its release."""
        freed = np.flatnonzero(self.end != NEVER)
        asked = np.concatenate([~freed, np.arange(len(self))])
        time = np.concatenate([self.end[freed], self.start])
        ordered: NDArray[np.int64] = asked[np.argsort(time, kind="stable")]
        return ordered


@dataclass(frozen=True, kw_only=True)
class Usage:
    """A step curve: ``bytes_after[i]`` are in use from ``time[i]`` on. Both int64 [m], ``time`` ascending."""

    time: NDArray[np.int64]
    bytes_after: NDArray[np.int64]

    @property
    def peak_bytes(self) -> int:
        return int(self.bytes_after.max(initial=0))

    @property
    def peak_time(self) -> int:
        """The first moment of the peak; 0 where there is nothing."""
        return int(self.time[self.bytes_after.argmax()]) if len(self.time) else 0


def usage(start: NDArray[np.int64], end: NDArray[np.int64], size_bytes: NDArray[np.int64]) -> Usage:
    """The sum of the sizes of blocks that live at once; at equal times releases come first."""
    freed = end != NEVER
    time = np.concatenate([end[freed], start])
    change = np.concatenate([-size_bytes[freed], size_bytes])
    order = np.argsort(time, kind="stable")
    return Usage(time=time[order], bytes_after=np.cumsum(change[order]))


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRecord:
    """What a run said of MindSpore's pool; None where it did not.

    Attributes:
        reserved_bytes: What it took of the device.
        limit_bytes: What MindSpore might take.
        growth_bytes: The unit of its pieces, as the YAML sets it.
    """

    reserved_bytes: int | None = None
    limit_bytes: int | None = None
    growth_bytes: int | None = None


UNTOLD = PoolRecord()


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a policy puts each block of a ``Lifetimes`` (columns of length n, same order).

    ``segment``: int32 [n], which piece of device memory; ``offset``: int64 [n], bytes from the start of the segment.
    ``mapped_bytes``: the most device memory that held blocks or was caught between them: for each segment up to its
    highest byte ever used (MindSpore's peak with fragments); where a policy gives memory back, what it held at once.
    ``reserved_bytes``: what it held of the device, in the pieces in which it asks; at least ``mapped_bytes``.
    ``device_requests``: how often it asked the device, which is slow; as often again after giving back.
    ``used_peak_bytes``: the most in use at once, whatever the policy.
    """

    segment: NDArray[np.int32]
    offset: NDArray[np.int64]
    mapped_bytes: int
    reserved_bytes: int
    device_requests: int
    used_peak_bytes: int

    @property
    def gap_bytes(self) -> int:
        """What the policy needs beyond what is in use, in one way for all policies: mapped at its peak minus used at
        its peak. Of ``mindspore``, the peak with fragments minus the peak without."""
        return self.mapped_bytes - self.used_peak_bytes

    @property
    def fragmentation_ratio(self) -> float:
        """The part of the mapped memory that no block needs, 0 to 1."""
        return self.gap_bytes / self.mapped_bytes if self.mapped_bytes else 0.0


def high_water_bytes(
    segment: NDArray[np.int32], offset: NDArray[np.int64], size_bytes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The highest byte ever used of each segment, int64 [number of segments]."""
    highest = np.zeros(int(segment.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(highest, segment, offset + size_bytes)
    return highest
