"""NORM IN FRONT OF THE OUTPUT LAYER RECOMPUTED -> its weight is read once for all that take their logits from it.

The network and its layers for multi-token prediction share one output layer. In the baseline MindSpore copies the
weight for each, as the tokens of experts are counted in between; where the norm in front of it is called in such a
layer, both read the weight itself, behind that (measured with MindSpore 2.9.0: DeepSeek-V3).

Mirrors monads: one Load for both readers, where no UpdateState parts them.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from swapconf.models.cells import FINAL_NORM
from swapconf.trace.launch_graph import NO_NODE
from swapconf.upstream.primitives import CAST, NORM
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.nodes import Nodes


def read_twice(asked: Asked, nodes: Nodes) -> list[tuple[int, int]]:
    """Casts of copies of the weight, as nodes: one that stays, and one that is like it."""
    run, kernels = asked.run, asked.prepared.baseline.kernels
    called = sum(
        kernels.cell[kernel] == FINAL_NORM and kernels.primitive[kernel] == NORM and kernels.layer[kernel] >= 0
        for kernel in asked.again
        if asked.root[kernel] != NO_CELL
    )
    if not called:
        return []
    casts: defaultdict[str, list[int]] = defaultdict(list)
    outside = (kernels.layer < 0) & ~kernels.backward & (kernels.primitives == CAST)
    for kernel in np.flatnonzero(outside[: run.count]).tolist():
        node = run.node_of[kernel]
        if nodes.copied(nodes.inputs[node][0]) != NO_NODE:
            _, _, cell = kernels.name[kernel].rpartition("/")[0].rpartition("/")
            casts[cell].append(node)
    found = [pair for alike in casts.values() for pair in zip(alike[::2], alike[1::2], strict=False)]
    return found if len(found) == called else []
