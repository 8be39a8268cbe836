"""CASTS of weights that were asked for by themselves -> the copies that the forward pass leaves for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from swapconf.trace.launch_graph import LOAD, NO_NODE
from swapconf.upstream.primitives import CAST
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.nodes import COPY, Nodes
from swapconf.whatif.graph.ties import Ties


@dataclass
class WeightsCast:
    """``rows``: by copy the row of the weight."""

    asked: Asked
    nodes: Nodes
    ties: Ties
    rows: dict[int, int] = field(default_factory=dict)
    _copies: dict[int, int] = field(default_factory=dict)

    def is_cast(self, node: int, kernel: int) -> bool:
        """A cast of a copy of a weight, that is; with one micro-batch of the weight itself."""
        graph, baseline = self.asked.run.graph, self.asked.prepared.baseline
        is_cast = graph.primitive[node] == CAST and kernel in baseline.weights and graph.inputs[node][0] != NO_NODE
        return is_cast and baseline.is_accumulated and graph.primitive[graph.inputs[node][0]] == LOAD

    def copied(self, node: int, kernel: int, barrier: int) -> int:
        """What the cast reads when it runs again: the forward pass leaves a copy of the weight for it, and reads that
        itself."""
        load = self.asked.run.graph.inputs[node][0]
        if load not in self._copies:
            self._copies[load] = self.nodes.add(COPY, (load,), self.nodes.name[node])
            self.rows[self._copies[load]] = self.asked.prepared.baseline.weights[kernel]
        self.nodes.inputs[node] = [self._copies[load], *self.asked.run.graph.inputs[node][1:]]
        return self.ties.behind_barrier(self._copies[load], barrier)
