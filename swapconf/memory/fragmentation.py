"""LIFETIMES -> FRAGMENTATION: what each allocator needs beyond what is in use, which blocks cause it, what would help.

The gap is defined in one way for all policies, see ``Placement.gap_bytes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from swapconf.memory.allocators import mindspore, policies
from swapconf.memory.categories import alive
from swapconf.memory.offline_search import search
from swapconf.trace.lifetimes import CATEGORIES, Category, Lifetimes, Placement
from swapconf.words.units import GIB

_BLOCK_SIZES_GIB = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A block that keeps ``hole_bytes`` below it from joining the free memory above it."""

    hole_bytes: int
    size_bytes: int
    category: Category
    layer: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Fragmentation:
    """``placements`` by policy.

    Attributes:
        causes: Of MindSpore's gap, the largest first.
        mapped_by_block_size: The peak with fragments by the size in which MindSpore's pool grows, in GiB; empty where
            MindSpore's rules do not explain the trace, so that nothing can be said of another size.
    """

    lower_bound_bytes: int
    pool: mindspore.Pool
    placements: Mapping[str, Placement]
    causes: tuple[Cause, ...]
    mapped_by_block_size: Mapping[int, int]

    @property
    def best_block_gib(self) -> int | None:
        """The size with the lowest peak, the smallest of several; None where nothing can be said of it."""
        return min(self.mapped_by_block_size, key=lambda size: (self.mapped_by_block_size[size], size), default=None)

    @property
    def best_mapped_bytes(self) -> int | None:
        """The peak with fragments with that size."""
        return None if self.best_block_gib is None else self.mapped_by_block_size[self.best_block_gib]


def study(
    lifetimes: Lifetimes, pool: mindspore.Pool = mindspore.TRAINER, *, is_exact: bool = True, thorough: bool = False
) -> Fragmentation:
    """All policies on one set of lifetimes. ``pool``: see the policy ``mindspore``. ``is_exact``: whether its rules put
    every block where MindSpore put it. ``thorough``: search longer for a plan within 1 % of the lower bound, up to
    minutes."""
    placements = {name: place(lifetimes) for name, place in policies(pool).items()}
    if thorough:
        placements["offline"] = search(lifetimes, placements["offline"])
    mapped = (
        {
            size: mindspore.place(lifetimes, replace(pool, growth_bytes=size * GIB)).mapped_bytes
            for size in _BLOCK_SIZES_GIB
        }
        if is_exact
        else {}
    )
    return Fragmentation(
        lower_bound_bytes=lifetimes.used_peak_bytes,
        pool=pool,
        placements=placements,
        causes=causes(lifetimes, placements["mindspore"]),
        mapped_by_block_size=mapped,
    )


def causes(lifetimes: Lifetimes, placement: Placement) -> tuple[Cause, ...]:
    """The blocks above the holes at the moment when the placement, which gives nothing back, reaches its height. Free
    memory at the top of a segment is the doing of the block that raised it so high, though it may be gone."""
    if not len(lifetimes):
        return ()
    top = placement.offset + lifetimes.size_bytes
    holes: dict[int, int] = {}
    segments = np.unique(placement.segment).tolist()
    raised = [_highest(placement, top, segment) for segment in segments]
    live = alive(lifetimes, int(lifetimes.start[raised].max()))
    for segment, highest in zip(segments, raised, strict=True):
        rows = np.flatnonzero(live & (placement.segment == segment))
        rows = rows[np.argsort(placement.offset[rows], kind="stable")]
        ends = np.concatenate([[0], top[rows]])
        for block, hole in zip([*rows.tolist(), highest], [*placement.offset[rows], top[highest]] - ends, strict=True):
            holes[block] = holes.get(block, 0) + int(hole)
    ranked = sorted((block for block in holes if holes[block]), key=lambda block: (-holes[block], block))
    return tuple(
        Cause(
            hole_bytes=holes[block],
            size_bytes=int(lifetimes.size_bytes[block]),
            category=CATEGORIES[lifetimes.category[block]],
            layer=int(lifetimes.layer[block]),
            name=lifetimes.names[lifetimes.name[block]],
        )
        for block in ranked
    )


def _highest(placement: Placement, top: np.ndarray[tuple[int], np.dtype[np.int64]], segment: int) -> int:
    """The first block that reached the height of its segment."""
    rows = np.flatnonzero(placement.segment == segment)
    return int(rows[top[rows].argmax()])
