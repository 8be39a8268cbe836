"""MOVES -> UNDERFLOWS: of which copies back MindSpore may die while it compiles.

It looks for the kernel ``prefetch`` before the first reader of a copy. Whether there is one, it decides with copies
counted; which one it is, it reads from a table without them. In between it reads memory before the start of that table
(MindSpore 2.9.0): mostly it dies of this (SIGSEGV), but what lies there differs from run to run, and some are spared.
"""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Flags
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.swap import Windows

MARGIN = 8  # kernels by which a predicted place may be off: twice the most seen where one died that seemed safe


def underflows(
    baseline: Baseline, program: StrategyProgram, windows: Windows, more: Flags, margin: int = MARGIN
) -> Flags:
    """[windows] the prefetch reaches back before the start of the step when copies are not counted, but not when they
    are; or nearly so, by a ``margin`` of kernels. ``more``: [windows] what moves is a view of its own, as it is flagged
    otherwise than those that MindSpore has merged with it in the baseline, so that there is a kernel more."""
    kernels = np.sort(np.concatenate([program.where, program.inserted, program.where[windows.face[more]]]))
    copies = np.sort(np.concatenate([windows.copied, windows.returned[~windows.unread]]))
    starts = baseline.step_starts
    begin = starts[np.searchsorted(starts, windows.face, side="right") - 1] * TICKS
    plain = np.searchsorted(kernels, windows.used) - np.searchsorted(kernels, begin)
    counted = plain + np.searchsorted(copies, windows.used) - np.searchsorted(copies, begin)
    between = (windows.prefetch < counted + margin) & (windows.prefetch >= plain - margin)
    return np.asarray(~windows.unread & between)
