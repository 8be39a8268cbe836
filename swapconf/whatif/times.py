"""POSITIONS -> TIMES of Lifetimes.

A *position* tells where something happens; see `slots`.
"""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline


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
    before = baseline.kernels.before
    window = (before[np.minimum(kernel + 1, len(before) - 1)] - 1) * TICKS
    return np.asarray(window + np.where(part == 0, 1, part + 1))
