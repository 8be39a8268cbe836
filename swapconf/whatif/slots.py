"""SLOTS: where between two kernels of the baseline each thing stands that a strategy adds.

A *position* orders what happens: kernel i stands at ``i * TICKS``. Between it and the next one stand, in this order:

1. `GRADIENT_ONLY`, in turns: what the loss computes for its gradient, where the baseline does so with the forward pass.
2. `AT_START`, in turns: what runs again at the start of a backward pass, because it waits for no gradient of its cell.
3. `COPY_OUT`, in turns of `COPY_TURN`: copies to the host; `EARLY` more where the kernel that is copied runs right
   before its copy, ``EARLY`` in front of it.
4. `COPY_BACK` in front of the next kernel: copies back to the device.
5. `AGAIN`, in turns: what runs again for the gradient that the next kernel is, and gradients that wait for it.

Before the first gradient of a backward pass what MindSpore launches earlier there has a half of its own
(`BEFORE_GRADIENTS` in front, in turns; `FORWARD_END` in front what is left of the forward pass), and gradients of the
head stand `HEAD` in front of it. A turn is `TURN` wide, so that the blocks of one are born and released inside of it.
"""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline

TURN = 2
AT_START = TICKS // 4
COPY_OUT, COPY_TURN, EARLY = TICKS // 2, 2 * TURN, TURN
COPY_BACK = TICKS // 4
AGAIN = TICKS - TICKS // 4
BEFORE_GRADIENTS, HEAD = TICKS // 2, TICKS // 8
GRADIENT_ONLY, FORWARD_END = TICKS // 8, TICKS - TICKS // 8 * 3


def born_at(baseline: Baseline, position: Ints) -> Ints:
    """When a block is allocated by what stands at a position."""
    kernel, part = np.divmod(position, TICKS)
    before = baseline.kernels.before
    return np.where(
        part == 0, before[kernel] * TICKS, (before[np.minimum(kernel + 1, len(before) - 1)] - 1) * TICKS + part
    )


def freed_after(baseline: Baseline, position: Ints) -> Ints:
    """When a block is released whose last use stands at a position."""
    kernel, part = np.divmod(position, TICKS)
    window = (baseline.kernels.before[np.minimum(kernel + 1, len(baseline.kernels.before) - 1)] - 1) * TICKS
    return np.asarray(window + np.where(part == 0, 1, part + 1))


def turns_at(place: Ints, order: Ints) -> Ints:
    """The turn of each thing among those at the same place, where one runs after the other by their ``order``."""
    ranked = np.lexsort((order, place))
    starts = np.flatnonzero(np.diff(place[ranked], prepend=-1))
    turn = np.empty(len(place), dtype=np.int64)
    turn[ranked] = np.arange(len(place)) - np.repeat(starts, np.diff(starts, append=len(place)))
    return turn
