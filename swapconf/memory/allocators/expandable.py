"""LIFETIMES -> PLACEMENT in virtual memory: address ranges without end, device memory behind them in granules of 2 MiB.

A granule is mapped when the first block touches it and given back when the last one leaves it, so that a hole costs
memory only where blocks share its first and last granule. Requests below 1 MiB have a range of their own: in the other
one they would keep granules mapped between large blocks. In each range a request takes the smallest hole that is large
enough, else the range grows.

This is the idea of PyTorch's ``expandable_segments`` and of MindSpore's ``enable_vmm`` with ``vmm_align_size:2MB``.
Both keep what they mapped until an allocation fails; ``mapped_bytes`` is what they cannot do without.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from swapconf.memory.free_space import FreeSpace
from swapconf.trace.lifetimes import Lifetimes, Placement
from swapconf.words.units import MIB

GRANULE_BYTES = 2 * MIB
SMALL_BYTES = MIB


def place(lifetimes: Lifetimes) -> Placement:
    """Where virtual memory puts each block. Segment 0 holds the small ones, segment 1 the others."""
    sizes = lifetimes.size_bytes.tolist()
    segment = (lifetimes.size_bytes >= SMALL_BYTES).astype(np.int32)
    ranges = (_Range(), _Range())
    owner = [ranges[index] for index in segment.tolist()]
    offset = [0] * len(sizes)
    highest = 0
    for event in lifetimes.events.tolist():
        if event >= 0:
            offset[event] = owner[event].allocate(sizes[event])
            highest = max(highest, sum(part.num_mapped for part in ranges))
        else:
            owner[~event].release(offset[~event], sizes[~event])
    return Placement(
        segment=segment,
        offset=np.array(offset, dtype=np.int64),
        used_peak_bytes=lifetimes.used_peak_bytes,
        mapped_bytes=highest * GRANULE_BYTES,
        reserved_bytes=highest * GRANULE_BYTES,
        device_requests=sum(part.num_mappings for part in ranges),
    )


class _Range:
    """``num_mapped``: granules that are mapped now; ``num_mappings``: how often one was."""

    def __init__(self) -> None:
        self.num_mapped = 0
        self.num_mappings = 0
        self._shared: Counter[int] = Counter()  # of granules that a block touches and does not fill: how many do
        self._free = FreeSpace()
        self._end = 0

    def allocate(self, size_bytes: int) -> int:
        offset = self._free.take(size_bytes)
        if offset is None:
            offset = self._grow(size_bytes)
        filled, touched = _granules(offset, size_bytes)
        self._count(filled + sum(granule not in self._shared for granule in touched))
        self._shared.update(touched)
        return offset

    def _count(self, num_new: int) -> None:
        self.num_mapped += num_new
        self.num_mappings += num_new

    def _grow(self, size_bytes: int) -> int:
        """In whole granules; the rest of the last one is a hole."""
        granules = -(-size_bytes // GRANULE_BYTES)
        offset, self._end = self._end, self._end + granules * GRANULE_BYTES
        if rest := self._end - offset - size_bytes:
            self._free.give(offset + size_bytes, rest)
        return offset

    def release(self, offset: int, size_bytes: int) -> None:
        self._free.give(offset, size_bytes)
        filled, touched = _granules(offset, size_bytes)
        self.num_mapped -= filled
        for granule in touched:
            self._shared[granule] -= 1
            if not self._shared[granule]:
                del self._shared[granule]
                self.num_mapped -= 1


def _granules(offset: int, size_bytes: int) -> tuple[int, frozenset[int]]:
    """How many granules a block fills, which no other block can touch then, and which it touches at its ends."""
    end = offset + size_bytes
    first_filled, last_filled = -(-offset // GRANULE_BYTES), end // GRANULE_BYTES
    touched = frozenset(border // GRANULE_BYTES for border in (offset, end) if border % GRANULE_BYTES)
    return max(last_filled - first_filled, 0), touched if size_bytes else frozenset()
