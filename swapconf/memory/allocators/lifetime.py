"""LIFETIMES -> PLACEMENT by lifetime: pools for long-lived tensors, the large ones in pieces of exactly their size.

The method of AscendSpeed's memory fragmentation optimisation (``MEMORY_FRAGMENTATION=1``; in MindSpeed's documentation
"memory-fragmentation", there ``--memory-fragmentation``): tell tensors apart by how long they live, keep long and short
lives in separate pools, give a large long-lived tensor a block of exactly its size, and allocate in several levels so
that long-lived pools do not fragment. The constants and the levels below are this module's own; no code of theirs.

A training step repeats, so from its second run on a request is known by the kind that the same kernel's block turned
out to be in the first:

- INITIAL: persistent, made before the first step: weights, gradients that are accumulated, constants.
- OPTIMIZER: persistent, of the category optimizer state; it is complete when the first step ends.
- KEPT: not persistent, yet never released: it stays for the next step.
- WAITING: released, but only after more than ``SHORT_LIFE`` other allocations: an activation that waits in the forward
  pass for its backward pass, or a gradient that waits for the optimizer.
- SHORT: all others.

Nothing else is known of the future. A request goes through these levels:

1. a hole between the blocks of its own pool, the smallest that fits (never for a large long-lived tensor, whose piece
   holds nothing else);
2. a free piece of exactly the size that it needs, whichever pool used it last;
3. a new piece of the device: of exactly its size, or for small ones a piece to share. Before the pools grow over the
   most that they ever held, they give free pieces back, the largest first.

A piece to share is 2 MiB, as in PyTorch, but no more than 1/32768 of the peak of the first step (2 MiB of 64 GiB), so
that small models show what large ones would. What is not smaller than a quarter of such a piece is large.

So fragments are only what small and short-lived blocks leave between them, and the gap stands and falls with giving
back: pools that keep every piece hold several times more than MindSpore's pool wastes (``gives_back=False`` tells). The
price is ``device_requests``: each asks anew, after giving back, while the device waits. Where memory is ample, a pool
like this keeps what it has, and leaves other libraries, such as the collectives', what is left.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.free_space import FreeSpace
from swapconf.trace.lifetimes import CATEGORIES, NEVER, Category, Lifetimes, Placement
from swapconf.words.units import MIB

SHORT_LIFE = 20
MAX_PIECE_BYTES, MIN_PIECES, MIN_SHARING = 2 * MIB, 32768, 4
_ALIGN = 512
_STRIDE = 1 << 45  # more than any piece


class PoolKind(IntEnum):
    SHORT = 0
    INITIAL = 1
    OPTIMIZER = 2
    KEPT = 3
    WAITING = 4


def kinds(lifetimes: Lifetimes) -> NDArray[np.uint8]:
    """The Kind of each block, [n]: what its first step shows of it."""
    followers = np.searchsorted(lifetimes.start, lifetimes.end) - np.arange(len(lifetimes)) - 1
    never = lifetimes.end == NEVER
    is_state = lifetimes.category == CATEGORIES.index(Category.OPTIMIZER)
    kind = np.where(followers > SHORT_LIFE, PoolKind.WAITING, PoolKind.SHORT)
    kind = np.where(never, np.where(lifetimes.is_persistent, PoolKind.INITIAL, PoolKind.KEPT), kind)
    return np.where(never & lifetimes.is_persistent & is_state, PoolKind.OPTIMIZER, kind).astype(np.uint8)


def place(lifetimes: Lifetimes, gives_back: bool = True) -> Placement:
    """Where the pools put each block. A segment is a piece of the device, numbered as it was asked for."""
    device = _Device(gives_back)
    piece_bytes = max(min(lifetimes.used_peak_bytes // MIN_PIECES, MAX_PIECE_BYTES) // _ALIGN * _ALIGN, _ALIGN)
    pools = [_Pool(device, piece_bytes, shares_large=kind is PoolKind.SHORT) for kind in PoolKind]
    owner = [pools[kind] for kind in kinds(lifetimes).tolist()]
    sizes = lifetimes.size_bytes.tolist()
    address = [0] * len(sizes)
    for event in lifetimes.events.tolist():
        if event >= 0:
            address[event] = owner[event].allocate(sizes[event])
        else:
            owner[~event].release(address[~event], sizes[~event])
    return Placement(
        segment=np.array([start // _STRIDE for start in address], dtype=np.int32),
        offset=np.array([start % _STRIDE for start in address], dtype=np.int64),
        used_peak_bytes=lifetimes.used_peak_bytes,
        mapped_bytes=device.most_bytes,
        reserved_bytes=device.most_bytes,
        device_requests=len(device.size_bytes),
    )


class _Device:
    """``size_bytes``: of each piece ever asked for. ``most_bytes``: the most held at once. Free pieces are kept by
    size."""

    def __init__(self, gives_back: bool) -> None:
        self.size_bytes: list[int] = []
        self.most_bytes = 0
        self._gives_back = gives_back
        self._held_bytes = 0
        self._free: dict[int, list[int]] = {}

    def piece(self, size_bytes: int) -> int:
        if same := self._free.get(size_bytes):
            found = same.pop()
            if not same:
                del self._free[size_bytes]
            return found
        while self._gives_back and self._free and self._held_bytes + size_bytes > self.most_bytes:
            self._give_back(max(self._free))
        self._held_bytes += size_bytes
        self.most_bytes = max(self.most_bytes, self._held_bytes)
        self.size_bytes.append(size_bytes)
        return len(self.size_bytes) - 1

    def keep(self, piece: int) -> None:
        """Nothing lives in it; the next request of its size has it."""
        self._free.setdefault(self.size_bytes[piece], []).append(piece)

    def _give_back(self, size_bytes: int) -> None:
        self._free[size_bytes].pop()
        if not self._free[size_bytes]:
            del self._free[size_bytes]
        self._held_bytes -= size_bytes


class _Pool:
    """Blocks of one kind. ``shares_large``: large blocks, too, may lie in holes of larger pieces. An address is its
    piece times ``_STRIDE`` plus the offset in it."""

    def __init__(self, device: _Device, piece_bytes: int, shares_large: bool) -> None:
        self._device = device
        self._piece_bytes = piece_bytes
        self._shares_large = shares_large
        self._holes = FreeSpace()
        self._used_bytes: dict[int, int] = {}

    def allocate(self, size_bytes: int) -> int:
        is_large = size_bytes >= self._piece_bytes // MIN_SHARING
        address = self._holes.take(size_bytes) if self._shares_large or not is_large else None
        if address is None:
            address = self._new_piece(size_bytes, size_bytes if is_large else self._piece_bytes)
        self._used_bytes[address // _STRIDE] += size_bytes
        return address

    def _new_piece(self, size_bytes: int, piece_bytes: int) -> int:
        piece = self._device.piece(piece_bytes)
        self._used_bytes[piece] = 0
        if rest := piece_bytes - size_bytes:
            self._holes.give(piece * _STRIDE + size_bytes, rest)
        return piece * _STRIDE

    def release(self, address: int, size_bytes: int) -> None:
        piece = address // _STRIDE
        self._holes.give(address, size_bytes)
        self._used_bytes[piece] -= size_bytes
        if not self._used_bytes[piece]:
            del self._used_bytes[piece]
            self._holes.remove(piece * _STRIDE, piece * _STRIDE + self._device.size_bytes[piece])
            self._device.keep(piece)
