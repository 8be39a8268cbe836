"""PRIMITIVES asked for by themselves that nothing needs to run again -> for what their gradients wait.

MindSpore 2.9.0 ties what such a primitive is given first to the gradient that arrives at it, before it finds out that
nothing reads what would be made again (frontend/optimizer/irpass/recompute.cc; measured: the product of a router, whose
gradient turns what it is given).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swapconf.trace.launch_graph import NO_NODE, TUPLE
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.gradients import arrived, given_to
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.site_actions import asked_alone


@dataclass
class ForNothing:
    asked: Asked
    nodes: Nodes
    _gates: dict[int, int] = field(default_factory=dict)

    @cached_property
    def kernels(self) -> frozenset[int]:
        """Those that the model marks itself are none."""
        marks, baseline = self.asked.plan.marks, self.asked.prepared.baseline
        alone = asked_alone(marks.sites, marks.actions) & ~marks.actions.by_model[marks.sites.of_node]
        alone &= ~baseline.views & ~baseline.kernels.backward
        return frozenset(np.flatnonzero(alone[: self.asked.run.count]).tolist()) - frozenset(self.asked.again)

    @cached_property
    def _gradients(self) -> Mapping[int, Collection[int]]:
        """By kernel the nodes of its gradient, ascending."""
        found = defaultdict[int, list[int]](list)
        for gradient, kernel in self.asked.run.forward_of.items():
            if kernel in self.kernels:
                found[kernel].append(self.asked.run.node_of[gradient])
        return {kernel: dict.fromkeys(sorted(nodes)) for kernel, nodes in found.items()}

    def gate(self, kernel: int) -> int:
        """The gradients that arrive at that of a node; NO_NODE for none."""
        if kernel not in self._gates:
            run, mine = self.asked.run, self._gradients[kernel]
            given = dict.fromkeys(one for node in mine for one in given_to(run, node))
            found = [arrived(run, one, "") for one in given if run.source(one)[0] not in mine]
            self._gates[kernel] = self.nodes.add(TUPLE, found) if found else NO_NODE
        return self._gates[kernel]
