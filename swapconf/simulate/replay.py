"""TRACE -> what MindSpore's pool did in it, found again by its rules: every address, the peaks, the size of its pieces.

A trace does not tell in which pieces the pool asks the device for memory. Its addresses do: they are only reproduced
with the right size. Where so little is used that several sizes do, what the pool says it took of the device decides:
MindSpore 2.9.0 under mindformers' Trainer grows by 2 GiB; what 2.7.2 says it took fits 1 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.simulate.policies import mindspore
from swapconf.simulation import Lifetimes, Placement
from swapconf.trace import Trace
from swapconf.units import GIB

_GROWTH_GIB = (2, 1, *range(3, 65))
_ONE_OF_EACH = 2  # a persistent and a common piece: larger ones change nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """``num_same``: blocks that the rules put where MindSpore put them, of ``num_blocks``. Several sizes of pieces are
    possible where little memory is used; ``growth_bytes`` is then the one that mindformers' Trainer sets."""

    placement: Placement
    growth_bytes: int
    num_same: int
    num_blocks: int

    @property
    def is_exact(self) -> bool:
        return self.num_same == self.num_blocks


def replay(trace: Trace, lifetimes: Lifetimes, reserved_bytes: int | None = None) -> Replay:
    """The best replay of a trace; ``lifetimes`` are those of its device blocks. ``reserved_bytes``: what its run said
    that the pool had taken of the device, None where it did not."""
    addresses = np.array([block.address for block in trace.blocks if not block.on_host], dtype=np.int64)
    best: Replay | None = None
    for growth in _GROWTH_GIB:
        placement = mindspore.place(lifetimes, growth * GIB)
        found = Replay(placement=placement, growth_bytes=growth * GIB, num_blocks=len(lifetimes),
                       num_same=_num_same(placement, addresses))
        if best is None or _rank(found, reserved_bytes) > _rank(best, reserved_bytes):
            best = found
        told = growth > _GROWTH_GIB[0] or reserved_bytes in (None, placement.reserved_bytes)
        if (best.is_exact and told) or (growth > _GROWTH_GIB[0] and placement.device_requests <= _ONE_OF_EACH):
            break
    assert best is not None
    return best


def _rank(found: Replay, reserved_bytes: int | None) -> tuple[int, bool]:
    return found.num_same, found.placement.reserved_bytes == reserved_bytes


def _num_same(placement: Placement, addresses: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Blocks of a segment have its base in common; the base that most of them have is the real one."""
    total = 0
    for segment in np.unique(placement.segment):
        rows = placement.segment == segment
        total += int(np.unique(addresses[rows] - placement.offset[rows], return_counts=True)[1].max())
    return total
