"""BASELINE -> READS by gradients of the sums that a fused Add and norm leaves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swapconf.whatif.baseline import Baseline
from swapconf.whatif.laid_out import ADD_AND_NORM, SUM


def sums_read(baseline: Baseline) -> Iterator[tuple[int, int]]:
    """Reads by gradients of the sum that a fused Add and norm leaves, with the number of the layer whose Add that is:
    the one that made what is added, also for the first norm of the next layer and the one behind all layers."""
    kernels, reads = baseline.kernels, baseline.reads
    for kernel in (index for index, primitive in enumerate(kernels.primitive) if primitive == ADD_AND_NORM):
        made = baseline.made.get(kernel, [])
        makers = baseline.added(kernel)
        if len(made) > SUM and makers:
            low, high = np.searchsorted(reads.block, [made[SUM], made[SUM] + 1])
            layer = int(kernels.layer[max(makers)])
            yield from ((row, layer) for row in range(low, high) if kernels.backward[reads.kernel[row]])
