"""RUN GRAPH -> what the states of parameters are behind."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.trace.launch_graph import NO_NODE, STATE, TUPLE, LaunchGraph
from swapconf.whatif.graph.nodes import COPY, Nodes
from swapconf.whatif.graph.run_graph import RunGraph


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
    found = {run.kernel_of[one] for node in states for one in attached(run.graph, node) if one in run.kernel_of}
    return frozenset(one for one in found if not run.baseline.kernels.backward[one])
