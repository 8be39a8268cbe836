"""RUN GRAPH -> what the states of parameters are behind.

Upstream's word: an UpdateState is attached to what it orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from swapconf.trace.launch_graph import NO_NODE, STATE, TUPLE, LaunchGraph
from swapconf.whatif.graph.nodes import COPY, Nodes
from swapconf.whatif.graph.run_graph import RunGraph


class LoadStates(Protocol):
    """Those in which parameters are read; see `CellStates`."""

    @property
    def reading(self) -> Mapping[int, tuple[int, int]]:
        """By Load the micro-batch, and the first kernel that it is read for."""

    @property
    def has_loss(self) -> bool:
        """The last layer is on this stage."""

    def state(self, node: int) -> int:
        """The one of a Load, or in front of another state."""

    def set(self, node: int, state: int) -> None:
        """Let a Load read in another one."""

    def is_embedding(self, state: int) -> bool:
        """It is behind the embedding alone."""


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
