"""LIFETIMES -> PLACEMENT planned with all lifetimes known: what a packing can reach in practice.

Blocks are rectangles, time wide and bytes high, to be stacked as low as possible (dynamic storage allocation, NP-hard).
Two heuristics take the blocks in an order:

- skyline: the best fit of Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018). Look
  at the skyline of what is placed, take its lowest stretch, and put there the first block in the order that fits into
  the stretch in time; where none fits, raise the stretch to its lower neighbour.
- best fit: each block in its turn goes into the smallest hole between the blocks that it meets in time.

An order is by life, by size, or by powers of both in between, and may put first what lives while nearly all memory is
in use. One does not suit all networks: several are tried until a packing is close enough to the lower bound, first
those that were best on traces, then random ones (from a fixed seed, so that the same blocks give the same packing).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.skyline import stack
from swapconf.trace.lifetimes import Lifetimes, Placement

GOOD_ENOUGH = 1.005  # of the lower bound
_MAX_RECIPES, _MAX_BLOCKS = 40, 200_000  # that many recipes at most, fewer where there are many blocks
_MAX_BEST_FIT = 20_000  # its time grows with the square of the number of blocks
_HOT = 0.98  # of the peak
_NOISE = 0.1

Columns = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """``balance``: 0 orders by life, 1 by size. ``hot_first``: what lives near the peak comes first. ``skyline``: that
    heuristic, else best fit. ``noise``: how far the order is shaken, in e-folds."""

    balance: float
    hot_first: bool = False
    skyline: bool = True
    noise: float = 0.0


RECIPES = (
    Recipe(balance=0.0),
    Recipe(balance=0.5),
    Recipe(balance=0.0, hot_first=True),
    Recipe(balance=1.0, hot_first=True, skyline=False),
    Recipe(balance=0.2, skyline=False),
    Recipe(balance=1.0),
    Recipe(balance=0.3),
    Recipe(balance=0.75),
    Recipe(balance=1.0, skyline=False),
)


def place(lifetimes: Lifetimes) -> Placement:
    """One segment, as high as the best packing found."""
    used_peak_bytes, size_bytes = lifetimes.used_peak_bytes, lifetimes.size_bytes
    best, height = np.zeros(len(lifetimes), dtype=np.int64), 0
    for offset in _packings(lifetimes):
        top = int((offset + size_bytes).max())
        if not height or top < height:
            best, height = offset, top
        if height <= used_peak_bytes * GOOD_ENOUGH:
            break
    return planned(best, height, used_peak_bytes)


def planned(offset: Columns, height: int, used_peak_bytes: int) -> Placement:
    """One segment that is taken once."""
    return Placement(
        segment=np.zeros(len(offset), dtype=np.int32),
        offset=offset,
        mapped_bytes=height,
        reserved_bytes=height,
        device_requests=1 if height else 0,
        used_peak_bytes=used_peak_bytes,
    )


def _packings(lifetimes: Lifetimes) -> Iterator[Columns]:
    """Offsets, [n] each, one for every recipe that is tried."""
    if not len(lifetimes):
        return
    start, end = ranks(lifetimes)
    size = lifetimes.size_bytes
    life, large = np.log(end - start), np.log(size)
    hot = most_used_during(lifetimes) >= _HOT * lifetimes.used_peak_bytes
    random = np.random.default_rng(0)
    for recipe in _recipes(len(lifetimes), random):
        order = (1 - recipe.balance) * life + recipe.balance * large
        order = order + recipe.noise * random.standard_normal(len(order)) + 1000.0 * (hot & recipe.hot_first)
        yield (stack if recipe.skyline else best_fit)(start, end, size, order)


def _recipes(num_blocks: int, random: np.random.Generator) -> Iterator[Recipe]:
    count = max(3, min(_MAX_RECIPES, _MAX_BLOCKS // num_blocks))
    recipes = [
        *RECIPES,
        *(
            Recipe(
                balance=random.random(), hot_first=random.random() < 0.5, skyline=random.random() < 0.7, noise=_NOISE
            )
            for _ in range(count)
        ),
    ]
    return (recipe for recipe in recipes[:count] if recipe.skyline or num_blocks <= _MAX_BEST_FIT)


def most_used_during(lifetimes: Lifetimes) -> Columns:
    """The most bytes in use at any time of each block's life, [n]: the maximum of ranges, from those of 1, 2, 4, ..."""
    used = lifetimes.used
    first = np.searchsorted(used.time, lifetimes.start)
    last = np.searchsorted(used.time, lifetimes.end)
    levels = [used.bytes_after]
    while 2 ** len(levels) <= len(used.time):
        half = 2 ** (len(levels) - 1)
        levels.append(np.maximum(levels[-1][:-half], levels[-1][half:]))
    level = np.log2(last - first).astype(np.int64)
    most = np.zeros(len(lifetimes), dtype=np.int64)
    for index, maxima in enumerate(levels):
        rows = level == index
        most[rows] = np.maximum(maxima[first[rows]], maxima[last[rows] - 2**index])
    return most


def ranks(lifetimes: Lifetimes) -> tuple[Columns, Columns]:
    """Births and releases as places in the order of all times; what is never released ends behind the last."""
    times = np.unique(np.concatenate([lifetimes.start, lifetimes.end]))
    return np.searchsorted(times, lifetimes.start), np.searchsorted(times, lifetimes.end)


def best_fit(
    start: Columns, end: Columns, size: Columns, order: NDArray[np.float64], fixed: Columns | None = None
) -> Columns:
    """Offsets of the blocks, [n], the highest in the order first. ``fixed``: [n], those that are given, else -1."""
    offset = np.full(len(start), -1, dtype=np.int64) if fixed is None else fixed.copy()
    given = np.flatnonzero(offset >= 0)
    done = np.concatenate([given, np.zeros(len(start) - len(given), dtype=np.int64)])
    sequence = np.lexsort((start, -order))
    for place, block in enumerate(sequence[offset[sequence] < 0].tolist(), len(given)):
        others = done[:place]
        others = others[(start[others] < end[block]) & (end[others] > start[block])]
        others = others[np.argsort(offset[others], kind="stable")]
        below = np.concatenate([[0], np.maximum.accumulate(offset[others] + size[others])])
        room = offset[others] - below[:-1]
        fits = np.flatnonzero(room >= size[block])
        offset[block] = below[fits[room[fits].argmin()]] if len(fits) else below[-1]
        done[place] = block
    return offset
