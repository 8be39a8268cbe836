"""TRACE -> what MindSpore's pool did in it, found again by its rules: every address, the peaks, the size of its pieces.

A trace does not tell in which pieces the pool asks the device for memory. The YAML may; where it does not, the
addresses do: they are only reproduced with the right size. Where so little is used that several sizes do, what the pool
says it took of the device decides: MindSpore 2.9.0 under mindformers' Trainer grows by 2 GiB; what 2.7.2 says it took
fits 1 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from swapconf.memory.allocators import mindspore
from swapconf.memory.allocators.mindspore import Pool
from swapconf.trace.lifetimes import UNTOLD, Lifetimes, Placement, PoolRecord
from swapconf.trace.trace import Trace
from swapconf.words.units import GIB

_OTHERS_GIB = (1, *range(3, 65))
_USUAL = 3  # pools that are tried before the others
_ONE_OF_EACH = 2  # a persistent and a common piece: larger ones change nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """``num_same``: blocks that the rules put where MindSpore put them, of ``num_blocks``. ``pool``: as it was set.
    Several sizes of pieces are possible where little memory is used; it has the one that mindformers' Trainer sets."""

    placement: Placement
    pool: Pool
    num_same: int
    num_blocks: int

    @property
    def is_exact(self) -> bool:
        return self.num_same == self.num_blocks


def replay(trace: Trace, lifetimes: Lifetimes, reported: PoolRecord = UNTOLD) -> Replay:
    """The best replay of a trace; ``lifetimes`` are those of its device blocks. ``reported``: by its run."""
    addresses = trace.blocks.address[~trace.blocks.on_host]
    best: Replay | None = None
    for count, pool in enumerate(_pools(reported, is_native=bool(trace.marks)), 1):
        found = _replay(lifetimes, addresses, pool)
        if best is None or _rank(found, reported) > _rank(best, reported):
            best = found
        fits = reported.reserved_bytes in (None, best.placement.reserved_bytes) or count >= _USUAL
        if fits and (best.is_exact or (count > _USUAL and found.placement.device_requests <= _ONE_OF_EACH)):
            break
    assert best is not None
    return best


def _pools(reported: PoolRecord, *, is_native: bool) -> Iterator[Pool]:
    """As the YAML sets it; as mindformers' Trainer does; as it is where nobody sets it; and all others."""
    trainer = replace(mindspore.PYNATIVE if is_native else mindspore.TRAINER, limit_bytes=reported.limit_bytes)
    yield trainer if reported.growth_bytes is None else replace(trainer, growth_bytes=reported.growth_bytes)
    yield trainer
    yield replace(trainer, growth_bytes=GIB, first_bytes=0)
    for size in _OTHERS_GIB:
        yield replace(trainer, growth_bytes=size * GIB)


def _replay(lifetimes: Lifetimes, addresses: np.ndarray[tuple[int], np.dtype[np.int64]], pool: Pool) -> Replay:
    placement = mindspore.place(lifetimes, pool)
    return Replay(placement=placement, pool=pool, num_blocks=len(lifetimes), num_same=_num_same(placement, addresses))


def _rank(replayed: Replay, reported: PoolRecord) -> tuple[int, bool]:
    return replayed.num_same, replayed.placement.reserved_bytes == reported.reserved_bytes


def _num_same(placement: Placement, addresses: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Blocks of a segment have its base in common; the base that most of them have is the real one."""
    total = 0
    for segment in np.unique(placement.segment):
        rows = placement.segment == segment
        total += int(np.unique(addresses[rows] - placement.offset[rows], return_counts=True)[1].max())
    return total
