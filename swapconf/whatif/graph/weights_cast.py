"""CASTS that a strategy parts from what they were one with -> the copies of weights that the forward pass leaves for
them, and whether that of a reader runs again.

Mirrors CSE (frontend/optimizer/cse.cc): flagged otherwise, equal casts are several.
"""

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


def stays(asked: Asked, cast: int, reader: int) -> bool:
    """Whether what ``reader`` reads of a cast that stands for equal ones of two cells is not that which runs again; of
    other kernels never. MindSpore has made one of a layer's cast and that of its first norm, as long as they are
    flagged alike: where the layer is recomputed and one of the two is left out of that, it has two (measured with
    2.9.0: Qwen3)."""
    own = asked.casts.get(cast)
    if own is None:
        return False
    sites, layer = asked.plan.marks.sites, int(asked.prepared.baseline.kernels.layer[cast])
    site = own.site if asked.user(cast, reader, layer) in own.users else int(sites.of_moved[cast])
    return not asked.plan.marks.actions.again[site]
