"""PLACEMENT planned offline -> a better one, where its first plan is far from the lower bound; takes up to minutes.

The large blocks are packed alone by the skyline heuristic (see ``offline``), in many random orders. In each, blocks
that stick out come sooner the next time (squeaky wheel optimization: Joslin and Clements, Journal of Artificial
Intelligence Research 10, 1999). Whenever the large ones are lower than before, the small ones go into the holes that
are left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swapconf.memory.allocators.offline import Columns, best_fit, most_used_during, planned, ranks
from swapconf.memory.skyline import stack
from swapconf.trace.lifetimes import Lifetimes, Placement

NEAR = 1.01  # of the lower bound
_LARGE = 1 / 700  # of the peak
_ORDERS, _TURNS = 250, 6  # orders, and how often each is mended
_PUSH = 3.0  # at most, by which a block that sticks out comes sooner, in e-folds
_NOISES = (0.0, 0.03, 0.1, 0.3)
_HOT = (2.0, 0.98, 0.95, 0.9)  # of the peak: blocks that live when so much is in use come first; 2: none
_SEED = 1


def search(lifetimes: Lifetimes, placement: Placement) -> Placement:
    """``placement`` where it is within 1 % of the lower bound, else the best plan of many. From a fixed seed, so that
    the same blocks give the same plan."""
    bound = lifetimes.used_peak_bytes
    for offset in _plans(lifetimes) if placement.mapped_bytes > bound * NEAR else ():
        height = int((offset + lifetimes.size_bytes).max())
        if height < placement.mapped_bytes:
            placement = planned(offset, height, bound)
        if height <= bound * NEAR:
            break
    return placement


def _plans(lifetimes: Lifetimes) -> Iterator[Columns]:
    """Offsets, [n] each, whenever the large blocks alone were packed lower than before."""
    start, end = ranks(lifetimes)
    size, bound = lifetimes.size_bytes, lifetimes.used_peak_bytes
    large = np.flatnonzero(size >= bound * _LARGE)
    own = start[large], end[large], size[large]
    life, weight = np.log(own[1] - own[0]), np.log(own[2])
    used = most_used_during(lifetimes)[large] / bound
    random = np.random.default_rng(_SEED)
    lowest = np.iinfo(np.int64).max
    for _ in range(_ORDERS):
        balance, hot, noise = random.random(), random.choice(_HOT), random.choice(_NOISES)
        order = (1 - balance) * life + balance * weight + 1000.0 * (used >= hot)
        order = order + noise * random.standard_normal(len(order))
        for _ in range(_TURNS):
            offset = stack(*own, order)
            top = offset + own[2]
            if top.max() < lowest:
                lowest = int(top.max())
                yield _filled(start, end, size, large, offset)
            high = top > max(bound, lowest - bound // 1000)
            if not high.any():
                break
            order = order + np.where(high, _PUSH * random.random(), 0.0)


def _filled(start: Columns, end: Columns, size: Columns, large: Columns, offset: Columns) -> Columns:
    """The other blocks in the holes between the large ones, those with the most bytes times life first."""
    fixed = np.full(len(size), -1, dtype=np.int64)
    fixed[large] = offset
    return best_fit(start, end, size, np.log(end - start) + np.log(size), fixed)
