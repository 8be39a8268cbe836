"""MEMORY VIEW: all that a picture of one rank's memory shows, summed up once, whatever draws it.

Times are events, as in ``simulation``. A drawing adds no figure of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.lifetimes import Category
from swapconf.words.findings import Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """What one operator of one layer (-1: outside of the layers) holds of one category."""

    category: Category
    layer: int
    operator: str
    num_blocks: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryTotal:
    """What one entry of the YAML does.

    Attributes:
        saved_bytes: Of the peak, against the same YAML without it.
        moved_bytes, recomputed: Bytes to the host and kernels run again in a training step.
    """

    origin: Origin
    text: str
    saved_bytes: int
    moved_bytes: int
    recomputed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryCurves:
    """Bytes in use at chosen moments: of each of many equal spans of time the highest and the lowest, so that the peak
    is always among them.

    ``time``: int64 [m], ascending. ``by_category``: int64 [m] each, of the categories that occur.
    """

    time: NDArray[np.int64]
    by_category: Mapping[Category, NDArray[np.int64]]

    @cached_property
    def used_bytes(self) -> NDArray[np.int64]:
        """The sum over the categories, int64 [m]."""
        total = np.zeros(len(self.time), dtype=np.int64)
        for used in self.by_category.values():
            total += used
        return total


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockMap:
    """Blocks as rectangles over time and place, columns of equal length k: the largest of ``num_blocks``.

    ``start``, ``end``: int64 [k], life in units of time; ``is_released``: bool [k], else ``end`` is that of the trace.
    ``bottom``: int64 [k], bytes; the pieces of the pool stand one upon another, each up to its highest byte ever used,
    so that the picture is as high as the peak with fragments. ``piece_bytes``: those heights.
    ``size_bytes``: int64 [k]. ``category``: uint8 [k], index into CATEGORIES. ``layer``: int32 [k], -1 outside of
    them. ``name``: int32 [k], index into ``names``. ``drawn_share``: of all bytes times life, 0 to 1.
    ``largest_left_out_bytes``: the largest block that is not among them.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    is_released: NDArray[np.bool_]
    bottom: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    category: NDArray[np.uint8]
    layer: NDArray[np.int32]
    name: NDArray[np.int32]
    names: tuple[str, ...]
    piece_bytes: tuple[int, ...]
    num_blocks: int
    drawn_share: float
    largest_left_out_bytes: int

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryView:
    """One rank of one run.

    Attributes:
        origin: Where the figures come from.
        peak_time: The first moment of the peak.
        held_at_peak: The largest first; in sum the used peak.
        notes: What a reader should know of the figures.
        ticks: How many units of time an event of the trace is, 1 or TICKS.
        entries: Of the YAML asked about.
    """

    title: str
    rank: int
    origin: str
    used_peak_bytes: int
    with_fragments_peak_bytes: int
    reserved_bytes: int
    peak_time: int
    timeline: MemoryCurves
    held_at_peak: tuple[Holding, ...]
    blocks: BlockMap
    notes: tuple[str, ...] = ()
    ticks: int = 1
    entries: tuple[EntryTotal, ...] = ()

    @property
    def peak_event(self) -> int:
        """The event of the trace at which the peak is reached."""
        return self.peak_time // self.ticks

    @cached_property
    def category_bytes(self) -> dict[Category, int]:
        """What each category holds at the peak, the largest first."""
        held: Counter[Category] = Counter()
        for holding in self.held_at_peak:
            held[holding.category] += holding.size_bytes
        return dict(held.most_common())

    @cached_property
    def layer_bytes(self) -> dict[int, dict[Category, int]]:
        """What each layer holds at the peak, by category, in order of layers; -1 is what stands outside of them."""
        held: dict[int, dict[Category, int]] = {}
        for holding in sorted(self.held_at_peak, key=lambda holding: holding.layer):
            row = held.setdefault(holding.layer, {})
            row[holding.category] = row.get(holding.category, 0) + holding.size_bytes
        return held

    @cached_property
    def operators(self) -> tuple[OperatorTotal, ...]:
        """What each operator holds at the peak in all layers together, the largest first."""
        groups: dict[tuple[str, Category], list[Holding]] = {}
        for holding in self.held_at_peak:
            groups.setdefault((holding.operator, holding.category), []).append(holding)
        totals = [
            OperatorTotal(
                operator=operator,
                category=category,
                layers=tuple(sorted({holding.layer for holding in group})),
                num_blocks=sum(holding.num_blocks for holding in group),
                size_bytes=sum(holding.size_bytes for holding in group),
            )
            for (operator, category), group in groups.items()
        ]
        return tuple(sorted(totals, key=lambda total: -total.size_bytes))


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorTotal:
    """What one operator holds of one category in ``layers`` (-1: outside of them)."""

    operator: str
    category: Category
    layers: tuple[int, ...]
    num_blocks: int
    size_bytes: int
