"""WHAT A STRATEGY ADDS -> the literals that lie on the device for it: 512 bytes each, tens of KiB in all.

A copy reads two, where to and whether to wait; other primitives read shapes, types and the like. MindSpore 2.9.0 shares
them among micro-batches. In stages of a pipeline that a later one sends gradients, it leaves four for each copy to the
host that comes back and three for one that does not, and those that what runs again reads. Elsewhere a copy to the host
has one of its own where the forward pass reads, too, what it copies, in steps of one micro-batch always, and the others
share two; legacy models, and the last stage of a pipeline, share all (measured in 190 runs of random strategies: copies
to about three literals, a few less under the parallel optimizer; of what runs again to about 15 %).

No pass decides this: value nodes that the runtime puts on the device, counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from swapconf.trace.launch_graph import NO_NODE
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.moves import MoveTos
from swapconf.whatif.prepare import ALIGNMENT

_CONSTANT = CATEGORIES.index(Category.CONSTANT)
_OF_OUT = 3
_SHARED = 2


def rows_of_literals(asked: Asked, moves: MoveTos, again: Iterable[int]) -> list[int]:
    """For each a block of the baseline that is like it; none where it has no constant so small. ``again``: kernels of
    what runs again."""
    blocks = asked.prepared.baseline.blocks
    alike = np.flatnonzero((blocks.category == _CONSTANT) & (blocks.size_bytes == ALIGNMENT))
    return [int(row) for row in alike[:1]] * (_of_copies(asked, moves) + _of_again(asked, again))


def _of_copies(asked: Asked, moves: MoveTos) -> int:
    baseline, face = asked.prepared.baseline, asked.windows.face
    windows = list(moves.out)
    if not windows:
        return 0
    if baseline.is_sent_gradients:
        returned = {window for window, _ in moves.back}
        return _of_one_batch(asked, (int(face[window]) for window in [*windows * _OF_OUT, *returned]))
    if baseline.is_piped or not asked.is_mcore:
        return 0
    if baseline.is_accumulated:
        windows = [window for window in windows if moves.is_read(window)]
    return _SHARED + _of_one_batch(asked, (int(face[window]) for window in windows))


def _of_again(asked: Asked, again: Iterable[int]) -> int:
    if not asked.prepared.baseline.is_sent_gradients:
        return 0
    return _of_one_batch(asked, _each(asked, again))


def _each(asked: Asked, kernels: Iterable[int]) -> Iterator[int]:
    """Each kernel as often as it reads what is no node."""
    for kernel in kernels:
        yield from [kernel] * asked.run.graph.inputs[asked.run.node_of[kernel]].count(NO_NODE)


def _of_one_batch(asked: Asked, kernels: Iterable[int]) -> int:
    """How many there are in the micro-batch that has most, of each layer."""
    columns, most = asked.prepared.baseline.kernels, Counter[int]()
    layer, passing = columns.layer, columns.passing
    for (number, _), count in Counter((int(layer[kernel]), int(passing[kernel])) for kernel in kernels).items():
        most[number] = max(most[number], count)
    return most.total()
