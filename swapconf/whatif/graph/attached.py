"""RUN GRAPH -> what the states of parameters are behind, and which recomputed cells hand them on.

Upstream's word: an UpdateState is attached to what it orders.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.launch_graph import LOAD, NO_NODE, STATE, TUPLE, LaunchGraph
from swapconf.whatif.graph.nodes import COPY, Nodes
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.predict import LaunchPlan


def attached(graph: LaunchGraph | Nodes, state: int) -> Iterator[int]:
    """What a state is behind, besides another state, and copies of parameters."""
    stack = list(graph.inputs[state][1:])
    while stack:
        node = stack.pop()
        if node == NO_NODE:
            continue
        if graph.primitive[node] == TUPLE:
            stack += graph.inputs[node]
        elif graph.primitive[node] != COPY:
            yield node


def attached_kernels(run: RunGraph) -> frozenset[int]:
    """Kernels of the forward pass that a state is behind."""
    states = (node for node, primitive in enumerate(run.graph.primitive) if primitive == STATE)
    kernels = {
        run.kernel_of[behind] for node in states for behind in attached(run.graph, node) if behind in run.kernel_of
    }
    return frozenset(kernel for kernel in kernels if not run.baseline.kernels.backward[kernel])


def called(prepared: PlacedBaseline, run: RunGraph, plan: LaunchPlan) -> Ints:
    """[kernels] the number of the outermost recomputed cell in which each stands, whether it runs again or not; -1 for
    none. MindSpore 2.9.0 hands the state in which parameters are read through the calls of recomputed cells (func
    graphs that hold a monad), so only cells that read some are told."""
    baseline, actions = prepared.baseline, plan.marks.actions
    outermost = np.full(len(baseline.kernels), -1, dtype=np.int64)
    layers = [baseline.layer_of(kernel) for kernel in range(run.count)]
    for number, cell in sorted(enumerate(actions.cells), key=lambda numbered: -len(numbered[1])):
        is_asked_for = np.array([cell in actions.roots.get(layer, ()) for layer in layers], dtype=np.bool_)
        inside = np.flatnonzero(plan.marks.covered.under[number, : run.count] & is_asked_for)
        if any(_reads_parameter(run, kernel) for kernel in inside.tolist()):
            outermost[inside] = number
    return outermost


def _reads_parameter(run: RunGraph, kernel: int) -> bool:
    """Or what is made of parameters alone."""
    graph, rootless = run.graph, run.baseline.rootless
    given = [value for value in graph.inputs[run.node_of[kernel]] if value != NO_NODE]
    return any(
        graph.primitive[value] == LOAD or (value in run.kernel_of and rootless[run.kernel_of[value]]) for value in given
    )
