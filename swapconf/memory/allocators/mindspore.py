"""LIFETIMES -> PLACEMENT as MindSpore 2.9.0 does it: best fit in pieces that double, persistent tensors in their own.

Measured with MindSpore 2.9.0 (memory_optimize_level O0, a simulated Ascend): every address and every peak with
fragments of all traces is reproduced by these rules (docs/evidence/pool.md). They were first read in its public source:
``abstract_dynamic_mem_pool.cc`` (who asks whom) and ``abstract_ascend_memory_pool_support.cc`` (the size of a piece).

- A request takes the smallest hole that is large enough; of several, the one at the lowest address. Freed neighbours
  join at once.
- There are two managers, one for persistent blocks (weights, optimizer state, constants) and one for the rest. A
  common request asks its own manager only, a persistent one its own, then the common one. Where there is no hole, the
  device is asked for a new piece.
- Only the first piece asked for a persistent block belongs to the persistent manager, all others to the common one.
- Each other stream has a common manager of its own, with its own pieces. In PyNative mode what a swap brings back is
  allocated on the stream that copies.
- A piece is one unit, doubled until the request fits: with a unit of 2 GiB, 4.64 GiB come in a piece of 8 GiB. In
  PyNative mode nothing switches task sink off, so there it is as many units as the request takes: 6 GiB. The unit of
  the persistent piece is 1 GiB, that of all others ``growth_bytes``.
- What the rank may use of the device cuts both: a unit that is not 1 GiB, which counts as not set, to what is left but
  1 GiB; the piece to what is left. A dry run goes on behind the limit, in pieces of exactly the request.
- ``growth_bytes`` is ``increase_size`` of ``mindspore.runtime.set_memory``: 2 GiB unless set. mindformers calls it when
  the YAML has ``context.max_device_memory``, and passes ``context.mempool_block_size`` as this size. Where nobody calls
  it (a bare training cell), pieces are 1 GiB. So is the first one of a PyNative dry run, which is asked for before the
  trainer is there (``early_growth_bytes``).
- The device gives pieces from the top of its memory downwards, so that of two equal holes the later piece wins.

The peak with fragments is the sum over the pieces of the highest byte ever used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.memory.free_space import FreeSpace
from swapconf.trace.lifetimes import MAIN_STREAM, Lifetimes, Placement, high_water_bytes
from swapconf.words.units import GIB

TRAINER_GROWTH_BYTES = 2 * GIB
_PERSISTENT_GROWTH_BYTES = GIB
_NOT_SET_BYTES = GIB  # kDefaultMempoolBlockSize
_KEPT_BACK_BYTES = GIB
_TOP = 1 << 80  # no trace tells of as much, damaged or not


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """``growth_bytes``: the unit of the pieces. ``first_bytes``: what each manager asks the device for at the start; 0:
    nothing. ``limit_bytes``: what the rank may use of the device; None: more than it ever asks for.
    ``early_growth_bytes``: the unit of the first common piece, where nobody has set the other by then; 0: it is set.
    ``doubles``: a piece is its unit doubled until the request fits; else as many units as that takes."""

    growth_bytes: int = TRAINER_GROWTH_BYTES
    first_bytes: int = GIB
    limit_bytes: int | None = None
    early_growth_bytes: int = 0
    doubles: bool = True


TRAINER = Pool()
PYNATIVE = Pool(first_bytes=0, early_growth_bytes=GIB, doubles=False)


def place(lifetimes: Lifetimes, pool: Pool = TRAINER) -> Placement:
    """Where MindSpore puts each block. Segments are numbered as they are asked for."""
    pieces, address = _filled(lifetimes, pool)
    depths = np.array(pieces.depths, dtype=np.int64)
    depth = np.array([_TOP - start for start in address], dtype=np.int64)
    segment = np.searchsorted(depths, depth).astype(np.int32)
    offset = depths[segment] - depth
    return Placement(
        segment=segment,
        offset=offset,
        used_peak_bytes=lifetimes.used_peak_bytes,
        mapped_bytes=int(high_water_bytes(segment, offset, lifetimes.size_bytes).sum()),
        reserved_bytes=pieces.reserved_bytes,
        device_requests=len(pieces.depths),
    )


def piece_bytes(lifetimes: Lifetimes, pool: Pool = TRAINER) -> tuple[int, ...]:
    """The size of each piece, in the order in which the pool asks for them."""
    return tuple(_filled(lifetimes, pool)[0].sizes_bytes)


def _filled(lifetimes: Lifetimes, pool: Pool) -> tuple[_Pieces, list[int]]:
    """The pieces after all events, and the address of each block."""
    pieces = _Pieces(pool)
    sizes, address = lifetimes.size_bytes.tolist(), [0] * len(lifetimes)
    kinds = list(zip(lifetimes.is_persistent.tolist(), lifetimes.streams.tolist(), strict=True))
    of_kind = {kind: pieces.manager(*kind) for kind in dict.fromkeys(kinds)}
    manager = [of_kind[kind] for kind in kinds]
    events = lifetimes.events
    # to be released before it is born, as few predictions have it: it stays
    too_early = lifetimes.end <= lifetimes.start
    if too_early.any():
        events = events[(events >= 0) | ~too_early[~events]]
    # what is handed on inside a fused kernel has no bytes, and lies nowhere
    nothing = lifetimes.size_bytes == 0 if lifetimes.size_bytes.any() else np.zeros(len(lifetimes), dtype=np.bool_)
    if nothing.any():
        events = events[~nothing[np.where(events < 0, ~events, events)]]
    for event in events.tolist():
        if event < 0:
            manager[~event].give(address[~event], sizes[~event])
            continue
        start = manager[event].take(sizes[event])
        if start is None:
            manager[event], start = pieces.allocate(manager[event], sizes[event])
        address[event] = start
    for block in np.flatnonzero(nothing).tolist():
        address[block] = _TOP - pieces.depths[0]
    return pieces, address


class _Pieces:
    """Addresses count down from ``_TOP``, one piece below the other, with a byte between them so that holes stay apart.

    ``depths``: how far below that each piece starts; ``sizes_bytes``: how large it is.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.depths: list[int] = []
        self.sizes_bytes: list[int] = []
        self.reserved_bytes = 0
        self._common, self._persistent = FreeSpace(), FreeSpace()
        self._of_stream = {MAIN_STREAM: self._common}
        self._has_persistent = False
        if pool.first_bytes:
            self._extend(self._persistent, pool.first_bytes)
            self._extend(self._common, pool.first_bytes)

    def manager(self, is_persistent: bool, stream: int) -> FreeSpace:
        """Whom a block asks first."""
        common = self._of_stream.setdefault(stream, FreeSpace())
        return self._persistent if is_persistent and common is self._common else common

    def allocate(self, manager: FreeSpace, size_bytes: int) -> tuple[FreeSpace, int]:
        """Where a block lies that the manager whom it asked first has no hole for, and with which manager."""
        if manager is self._persistent and self._has_persistent:
            manager = self._common  # all other pieces are common ones
        address = manager.take(size_bytes)
        if address is None:
            self._extend(manager, size_bytes)
            address = manager.take(size_bytes)
        assert address is not None
        return manager, address

    def _extend(self, manager: FreeSpace, size_bytes: int) -> None:
        piece_bytes = self._next_bytes(size_bytes, manager is self._persistent)
        self.depths.append((self.depths[-1] if self.depths else 0) + piece_bytes + 1)
        self.sizes_bytes.append(piece_bytes)
        self.reserved_bytes += piece_bytes
        self._has_persistent |= manager is self._persistent
        manager.give(_TOP - self.depths[-1], piece_bytes)

    def _next_bytes(self, size_bytes: int, is_first_persistent: bool) -> int:
        limit = self._pool.limit_bytes
        unit = self._pool.growth_bytes if self.depths else self._pool.early_growth_bytes or self._pool.growth_bytes
        left = None if limit is None else max(limit - self.reserved_bytes, size_bytes)
        if is_first_persistent:
            unit = _PERSISTENT_GROWTH_BYTES
        elif left is not None and unit != _NOT_SET_BYTES:
            unit = min(unit, left - _KEPT_BACK_BYTES if left > _KEPT_BACK_BYTES else left)
        piece = unit
        if self._pool.doubles:
            while piece < size_bytes:
                piece *= 2
        else:
            piece *= max(-(-size_bytes // unit), 1)
        return piece if left is None else min(piece, left)
