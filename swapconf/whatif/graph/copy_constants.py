"""COPIES -> the constants that lie on the device for them.

A copy reads two constants: where to, and whether to wait. MindSpore 2.9.0 shares them among micro-batches, and leaves
in stages of a pipeline that a later one sends gradients four for each copy to the host that comes back and three for
one that does not; elsewhere what a copy to the host reads is
its own where the forward pass reads that, too, in steps of one micro-batch always, and the others share two. Legacy
models, and the last stage of a pipeline, share all (measured: in 160 runs of random strategies to about three
constants, a few less under the parallel optimizer).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.moves import Moves
from swapconf.whatif.prepare import ALIGNMENT

_CONSTANT = CATEGORIES.index(Category.CONSTANT)
_OF_OUT = 3
_SHARED = 2


def rows_of_copies(asked: Asked, moves: Moves) -> list[int]:
    """For each of these constants a block of the baseline that is like it; none where it has no constant so small."""
    blocks = asked.prepared.baseline.blocks
    alike = np.flatnonzero((blocks.category == _CONSTANT) & (blocks.size_bytes == ALIGNMENT))
    return [int(row) for row in alike[:1]] * _count(asked, moves)


def _count(asked: Asked, moves: Moves) -> int:
    baseline, windows = asked.prepared.baseline, sorted(moves.out)
    if not windows:
        return 0
    if baseline.is_sent_gradients:
        returned = sorted({window for window, _ in moves.back})
        return _OF_OUT * _different(asked, windows) + _different(asked, returned)
    if baseline.is_piped or not asked.is_mcore:
        return 0
    if baseline.is_accumulated:
        windows = [window for window in windows if moves.is_read(window)]
    return _SHARED + _different(asked, windows)


def _different(asked: Asked, windows: Sequence[int]) -> int:
    """How many there are of one micro-batch."""
    kernels, face = asked.prepared.baseline.kernels, asked.windows.face[list(windows)]
    counts = Counter(zip(kernels.layer[face].tolist(), kernels.passing[face].tolist(), strict=True))
    most = Counter[int]()
    for (layer, _), count in counts.items():
        most[layer] = max(most[layer], count)
    return most.total()
