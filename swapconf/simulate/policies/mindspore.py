"""LIFETIMES -> PLACEMENT as MindSpore 2.9.0 does it: best fit in pieces of whole GiB, persistent tensors in their own.

Measured with MindSpore 2.9.0 (memory_optimize_level O0, a simulated Ascend): every address and every peak with
fragments of all traces is reproduced by these rules.

- A request takes the smallest hole that is large enough; of several, the one at the lowest address. Freed neighbours
  join at once.
- There are two managers, one for persistent blocks (weights, optimizer state, constants) and one for the rest. A
  request tries its own, then the other, then asks the device for a new piece.
- Only the first piece asked for a persistent block belongs to the persistent manager; it is 1 GiB, or as many whole GiB
  as the request needs. All others belong to the common one; they come in multiples of ``growth_bytes``.
- ``growth_bytes`` (measured: 1 and 2 GiB) is ``increase_size`` of ``mindspore.runtime.set_memory``: 2 GiB unless set.
  mindformers calls it when the YAML has ``context.max_device_memory``, and passes ``context.mempool_block_size`` as
  this size. Where nobody calls it (a bare training cell), pieces are 1 GiB.
- The device gives pieces from the top of its memory downwards, so that of two equal holes the later piece wins.

The peak with fragments is the sum over the pieces of the highest byte ever used.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from swapconf.simulate.free_space import FreeSpace
from swapconf.simulation import Lifetimes, Placement, high_water_bytes
from swapconf.units import GIB

TRAINER_GROWTH_BYTES = 2 * GIB
_PERSISTENT_GROWTH_BYTES = GIB


def place(lifetimes: Lifetimes, growth_bytes: int = TRAINER_GROWTH_BYTES) -> Placement:
    """Where MindSpore puts each block. Segments are numbered as they are asked for."""
    pool = _Pool(growth_bytes)
    sizes, persistent = lifetimes.size_bytes.tolist(), lifetimes.is_persistent.tolist()
    address = [0] * len(sizes)
    for event in lifetimes.events.tolist():
        if event >= 0:
            address[event] = pool.allocate(sizes[event], persistent[event])
        else:
            pool.release(address[~event], sizes[~event])
    segment = np.array([pool.segment_of(start) for start in address], dtype=np.int32)
    offset = np.array(address, dtype=np.int64) + np.array(pool.depths, dtype=np.int64)[segment]
    return Placement(
        segment=segment, offset=offset, used_peak_bytes=lifetimes.used_peak_bytes,
        mapped_bytes=int(high_water_bytes(segment, offset, lifetimes.size_bytes).sum()),
        reserved_bytes=pool.reserved_bytes, device_requests=len(pool.depths))


class _Pool:
    """Addresses count down from 0, one piece below the other, with a byte between them so that holes stay apart.

    ``depths``: how far below 0 each piece starts.
    """

    def __init__(self, growth_bytes: int) -> None:
        self._growth_bytes = growth_bytes
        self.depths: list[int] = []
        self.reserved_bytes = 0
        self._common, self._persistent = FreeSpace(), FreeSpace()
        self._first_persistent: int | None = None

    def allocate(self, size_bytes: int, is_persistent: bool) -> int:
        own, other = (self._persistent, self._common) if is_persistent else (self._common, self._persistent)
        address = own.take(size_bytes)
        if address is None and not (is_persistent and self._first_persistent is None):
            address = other.take(size_bytes)
        if address is None:
            address = self._extend(size_bytes, is_persistent).take(size_bytes)
        assert address is not None
        return address

    def release(self, address: int, size_bytes: int) -> None:
        is_own = self.segment_of(address) == self._first_persistent
        (self._persistent if is_own else self._common).give(address, size_bytes)

    def segment_of(self, address: int) -> int:
        return bisect_left(self.depths, -address)

    def _extend(self, size_bytes: int, is_persistent: bool) -> FreeSpace:
        is_first_persistent = is_persistent and self._first_persistent is None
        unit = _PERSISTENT_GROWTH_BYTES if is_first_persistent else self._growth_bytes
        piece_bytes = -(-size_bytes // unit) * unit
        self.depths.append((self.depths[-1] if self.depths else 0) + piece_bytes + 1)
        self.reserved_bytes += piece_bytes
        if is_first_persistent:
            self._first_persistent = len(self.depths) - 1
        manager = self._persistent if is_first_persistent else self._common
        manager.give(-self.depths[-1], piece_bytes)
        return manager
