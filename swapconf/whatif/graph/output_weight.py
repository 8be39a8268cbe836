"""NORM IN FRONT OF THE OUTPUT LAYER RECOMPUTED -> its weight is read once for all that take their logits from it.

The network and its layers for multi-token prediction share one output layer. In the baseline MindSpore copies the
weight for each, as the tokens of experts are counted in between; where the norm in front of it is called in such a
layer, both read the weight itself, behind that (measured with MindSpore 2.9.0: DeepSeek-V3).

Mirrors monads: one Load for both readers, where no UpdateState parts them.

That turns its gradients, too. Of several Loads each has its own, and that of the network comes last, as it waits for
those of the layers. The readers of one Load are met in the order in which the model returns losses, its own first
(``DFunctor::MapMorphism`` of frontend/optimizer/ad/dfunctor.cc accumulates gradients as it meets nodes). Where they are
summed over micro-batches, MindSpore makes one product of all that are of one weight, of their factors end to end in
that order (``AssignAddOpt`` of frontend/parallel/pass/assign_add_opt.cc, by ``GetOrderedCnodes``). Seen in MindSpore's
graph in front of that pass, and in the order of what was joined in 28 runs of DeepSeek-V3 and TeleChat3-MoE with one
such layer, at both levels, of which 12 are turned. Gradients that are only added up were in none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from swapconf.models.cells import FINAL_NORM
from swapconf.trace.launch_graph import COMMUNICATION, NO_NODE
from swapconf.upstream.primitives import CAST, NORM, VIEWS
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.run_graph import RunGraph

_PRODUCT, _JOINED = "MatMul", "Concat"
_SHOW = frozenset({CAST, *COMMUNICATION, *VIEWS})  # what they read


def read_twice(asked: Asked, nodes: Nodes) -> list[tuple[int, int]]:
    """Casts of copies of the weight, as nodes: one that stays, and one that is like it."""
    run, kernels = asked.run, asked.baseline.kernels
    called = len(_called(asked))
    if not called:
        return []
    casts: defaultdict[str, list[int]] = defaultdict(list)
    outside = (kernels.layer < 0) & ~kernels.backward & (kernels.primitives == CAST)
    for kernel in np.flatnonzero(outside[: run.count]).tolist():
        node = run.node_of[kernel]
        if nodes.copied(nodes.inputs[node][0]) != NO_NODE:
            _, _, cell = kernels.name[kernel].rpartition("/")[0].rpartition("/")
            casts[cell].append(node)
    pairs = [pair for alike in casts.values() for pair in zip(alike[::2], alike[1::2], strict=False)]
    return pairs if len(pairs) == called else []


def turn_gradients(asked: Asked, nodes: Nodes) -> None:
    """Of the factors that are one product those of the network come first, where the weight is read once."""
    called = {int(asked.baseline.kernels.layer[kernel]) for kernel in _called(asked)}
    for layers, joined in _products(asked.run) if called else ():
        own = [place for place, layer in enumerate(layers) if layer < 0]
        extra = [place for place, layer in enumerate(layers) if layer >= 0]
        if called.issuperset(layers[place] for place in extra):
            for node in joined:
                inputs = nodes.inputs[node]
                inputs[: len(layers)] = [inputs[place] for place in (*own, *extra)]


def _called(asked: Asked) -> list[int]:
    """The norms in front of the output layer that layers call again."""
    kernels = asked.baseline.kernels
    return [
        kernel
        for kernel in asked.again
        if asked.root[kernel] != NO_CELL
        and kernels.cell[kernel] == FINAL_NORM
        and kernels.primitive[kernel] == NORM
        and kernels.layer[kernel] >= 0
    ]


def _products(run: RunGraph) -> Iterator[tuple[list[int], list[int]]]:
    """Of each product of what several norms have left: their layers, -1 for the network, and its two factors."""
    primitive, inputs = run.graph.primitive, run.graph.inputs
    for node, kind in enumerate(primitive):
        joined = [given for given in inputs[node] if given != NO_NODE and primitive[given] == _JOINED]
        if kind == _PRODUCT and len(joined) == 2:
            for factor in joined:
                norms = [_norm(run, given) for given in inputs[factor] if given != NO_NODE]
                layers = [int(run.baseline.kernels.layer[norm]) for norm in norms if norm is not None]
                if len(layers) == len(norms):
                    yield layers, joined


def _norm(run: RunGraph, node: int) -> int | None:
    """The norm whose output a node shows, as a gradient shows none."""
    node, _ = run.origin(node)
    while node != NO_NODE and run.graph.primitive[node] in _SHOW:
        node, _ = run.origin(run.graph.inputs[node][0])
    return run.kernel_of.get(node) if node != NO_NODE and run.graph.primitive[node] == NORM else None
