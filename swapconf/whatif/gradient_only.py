"""BASELINE -> what the loss computes for its gradient alone, such as ``Cast``, ``Exp`` and ``Sub`` of the softmax.

It reads the forward pass, and nothing that is made behind its end. MindSpore names many gradients after a cell of a
layer that they are not of, so that a gradient inside the layers is told by what it reads.
"""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.whatif.baseline import Baseline


def gradient_only(baseline: Baseline) -> dict[int, Ints]:
    """By the first kernel of a backward pass: kernels behind it, up to the first gradient inside the layers, on the
    main stream, that read what the forward pass made, or each other, alone, and that a gradient needs."""
    kernels, reads = baseline.kernels, baseline.reads
    inside = np.zeros(len(kernels), dtype=np.bool_)
    inside[reads.kernel[(reads.face >= 0) & (kernels.passing[reads.face] >= 0)]] = True
    inside &= kernels.backward & ~baseline.views
    of_gradients = np.zeros(len(kernels), dtype=np.bool_)
    of_gradients[reads.kernel[kernels.backward[baseline.maker[reads.block]]]] = True
    found: dict[int, Ints] = {}
    for start in np.unique(baseline.returnable[baseline.returnable > 0]).tolist():
        end = start + int(np.argmax(np.append(inside[start:], True)))
        if needed := _needed(baseline, _alone(baseline, start, end), of_gradients):
            found[start] = np.array(needed, dtype=np.int64)
    return found


def _alone(baseline: Baseline, start: int, end: int) -> list[int]:
    kernels, maker = baseline.kernels, baseline.maker[baseline.reads.block]
    found: list[int] = []
    for kernel in range(start, end):
        makers = [int(maker[row]) for row in baseline.rows_of(kernel)]
        is_forward = bool(makers) and not kernels.backward[kernel] and kernels.stream[kernel] == 0
        if is_forward and all(source < start or source in found for source in makers):
            found.append(kernel)
    return found


def _needed(baseline: Baseline, alone: list[int], of_gradients: Flags) -> list[int]:
    found: list[int] = []
    for kernel in reversed(alone):
        readers = set(baseline.followers(kernel))
        if readers & set(found) or any(of_gradients[reader] for reader in readers - set(alone)):
            found.insert(0, kernel)
    return found
