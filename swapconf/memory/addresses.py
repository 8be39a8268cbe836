"""LIFETIMES + PLACEMENT -> what MindSpore's tracker would have written of them: addresses and running sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.blocks import Blocks, offsets
from swapconf.trace.lifetimes import NEVER, Lifetimes, Placement


def unnamed(blocks: Blocks) -> Lifetimes:
    """The blocks on the device, without what they hold: where they go does not depend on it."""
    rows = np.flatnonzero(~blocks.on_host)
    nothing = np.zeros(len(rows), dtype=np.int32)
    return Lifetimes(
        start=blocks.start[rows],
        end=blocks.end[rows],
        size_bytes=blocks.size_bytes[rows],
        is_persistent=blocks.is_persistent[rows],
        category=nothing.astype(np.uint8),
        layer=nothing,
        name=nothing,
        names=("",),
    )


def with_addresses(blocks: Blocks, live: Lifetimes, placement: Placement) -> Blocks:
    """``blocks`` with the addresses and sums of those on the device; ``live``, ``placement``: of these, in their
    order."""
    rows = np.flatnonzero(~blocks.on_host)
    base = np.cumsum(_piece_bytes(live, placement)) - _piece_bytes(live, placement)
    columns = {
        "address": base[placement.segment] + placement.offset,
        "used_bytes": _used(live),
        "pool_peak_bytes": _peaks(live, placement),
    }
    new = {}
    for name, values in columns.items():
        new[name] = getattr(blocks, name).copy()
        new[name][rows] = values
    return replace(blocks, **new)


def used_bytes(start: NDArray[np.int64], end: NDArray[np.int64], size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """In use after each birth; ``start`` is ascending."""
    freed = end != NEVER
    by_end = np.argsort(end[freed], kind="stable")
    gone = offsets(size_bytes[freed][by_end])
    return np.asarray(np.cumsum(size_bytes) - gone[np.searchsorted(end[freed][by_end], start)])


def _used(live: Lifetimes) -> NDArray[np.int64]:
    return used_bytes(live.start, live.end, live.size_bytes)


def _peaks(live: Lifetimes, placement: Placement) -> NDArray[np.int64]:
    """The most that the pool had taken at each birth: of each piece the highest byte so far, summed up."""
    highest: dict[int, int] = {}
    total, peaks = 0, []
    for segment, top in zip(placement.segment.tolist(), (placement.offset + live.size_bytes).tolist(), strict=True):
        total += max(top - highest.get(segment, 0), 0)
        highest[segment] = max(top, highest.get(segment, 0))
        peaks.append(total)
    return np.array(peaks, dtype=np.int64)


def _piece_bytes(live: Lifetimes, placement: Placement) -> NDArray[np.int64]:
    """Up to the highest byte ever used, and a byte between two pieces."""
    pieces = np.zeros(int(placement.segment.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(pieces, placement.segment, placement.offset + live.size_bytes)
    return pieces + 1
