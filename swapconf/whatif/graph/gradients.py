"""RUN + NODE -> the gradients that it waits for."""

from __future__ import annotations

from swapconf.trace.launch_graph import NO_NODE
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.run_graph import RunGraph


def given_to(run: RunGraph, node: int) -> list[int]:
    """The gradients among the inputs of a node."""
    given = (one for one in run.graph.inputs[node] if one != NO_NODE and run.is_gradient(one))
    return list(dict.fromkeys(given))


def arrived(run: RunGraph, node: int) -> int:
    """A gradient in front of the views of it that belong to no node."""
    while (
        (kernel := run.kernel_of.get(node)) is not None
        and run.graph.primitive[node] in VIEWS
        and kernel not in run.forward_of
        and run.graph.inputs[node][0] != NO_NODE
        and run.is_gradient(run.graph.inputs[node][0])
    ):
        node = run.graph.inputs[node][0]
    return node
