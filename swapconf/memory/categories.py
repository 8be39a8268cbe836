"""LIFETIMES -> memory by category over time, and what is alive at the peak, by layer and operator."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.memory_view import Holding
from swapconf.trace.lifetimes import CATEGORIES, Category, Lifetimes, Usage, usage

_IN_LAYER = re.compile(r"[./]layers(?:-CellList/|\.)\d+(?:-\w+/|\.)(.*)$")


def by_category(lifetimes: Lifetimes) -> dict[Category, Usage]:
    """The bytes of each category in use over time, of the categories that occur. Their sum is ``lifetimes.used``."""
    found = {}
    for index, category in enumerate(CATEGORIES):
        rows = lifetimes.category == index
        if rows.any():
            found[category] = usage(lifetimes.start[rows], lifetimes.end[rows], lifetimes.size_bytes[rows])
    return found


def alive(lifetimes: Lifetimes, time: int) -> NDArray[np.bool_]:
    """Which blocks live at a time, [n]: born at it or before, released after it."""
    return (lifetimes.start <= time) & (lifetimes.end > time)


def holdings_at_peak(lifetimes: Lifetimes) -> tuple[Holding, ...]:
    """What is alive at the first moment of the peak, the largest first; in sum the used peak."""
    num_blocks: Counter[tuple[Category, int, str]] = Counter()
    size_bytes: Counter[tuple[Category, int, str]] = Counter()
    operators = [operator_of(name) for name in lifetimes.names]
    for block in np.flatnonzero(alive(lifetimes, lifetimes.used.peak_time)).tolist():
        key = (CATEGORIES[lifetimes.category[block]], int(lifetimes.layer[block]), operators[lifetimes.name[block]])
        num_blocks[key] += 1
        size_bytes[key] += int(lifetimes.size_bytes[block])
    return tuple(
        Holding(
            category=category,
            layer=layer,
            operator=operator,
            size_bytes=size,
            num_blocks=num_blocks[category, layer, operator],
        )
        for (category, layer, operator), size in size_bytes.most_common()
    )


def bytes_at_peak(lifetimes: Lifetimes) -> dict[Category, int]:
    """What each category holds at the first moment of the peak, the largest first; only what is there."""
    there = alive(lifetimes, lifetimes.used.peak_time)
    sums = np.bincount(lifetimes.category[there], weights=lifetimes.size_bytes[there], minlength=len(CATEGORIES))
    found = {category: int(size) for category, size in zip(CATEGORIES, sums, strict=True) if size}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def operator_of(name: str) -> str:
    """The dotted path from the layer, or else from the model, of a kernel or a parameter, with its primitive::

    .../layers-CellList/0-LLamaDecodeLayer/attention-LLamaAttention/wq-Linear/MatMul-op0 -> attention.wq.MatMul
    adam_m.model.layers.3.feed_forward.w1.weight -> feed_forward.w1.weight
    """
    inside = _IN_LAYER.search(name)
    path = inside[1] if inside else name
    if "/" not in name:
        return path
    *cells, kernel = path.split("/")
    named = [cell.partition("-")[0] for cell in cells if "-" in cell]
    return ".".join([*(named if inside else named[-1:]), kernel.partition("-op")[0]])
