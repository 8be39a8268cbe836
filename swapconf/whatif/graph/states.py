"""WHOLE LAYERS RECOMPUTED -> what a forward pass returns waits for the state in which it read its parameters.

MindSpore 2.9.0 hands that state (``UpdateState``) through the graphs of recomputed layers. Where all layers of a
micro-batch are such, it does not see any more that nothing writes a parameter (measured).
"""

from __future__ import annotations

from dataclasses import dataclass

from swapconf.trace.launch_graph import DEPEND, LOAD, NO_NODE, STATE
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.nodes import Nodes


@dataclass(frozen=True)
class States:
    asked: Asked
    nodes: Nodes

    def tie(self) -> None:
        run, nodes = self.asked.run, self.nodes
        for batch, saved in run.saved_of.items():
            kernels = self._of_layers(batch)
            state = self._last(kernels) if kernels and all(map(self._is_whole, kernels)) else NO_NODE
            value = nodes.inputs[saved][0]
            if state != NO_NODE and nodes.primitive[value] == DEPEND and not nodes.waits_for_state(value):
                nodes.inputs[value] = [nodes.tied(nodes.inputs[value][0], state), *nodes.inputs[value][1:]]

    def _of_layers(self, batch: int) -> list[int]:
        baseline, run = self.asked.prepared.baseline, self.asked.run
        backward, passing = baseline.kernels.backward, baseline.kernels.passing
        mine = set(baseline.batches[batch])
        return [kernel for kernel in range(run.count) if not backward[kernel] and int(passing[kernel]) in mine]

    def _is_whole(self, kernel: int) -> bool:
        cell = int(self.asked.root[kernel])
        return cell != NO_CELL and self.asked.plan.marks.actions.cells[cell] == ""

    def _last(self, kernels: list[int]) -> int:
        """The state behind all reads of parameters."""
        run = self.asked.run
        inputs = (given for kernel in kernels for given in run.graph.inputs[run.node_of[kernel]])
        loads = (given for given in inputs if given != NO_NODE and run.graph.primitive[given] == LOAD)
        state = next((run.graph.inputs[load][1] for load in loads if len(run.graph.inputs[load]) > 1), NO_NODE)
        found, known = NO_NODE, set[int]()
        while state != NO_NODE and state not in known:
            known.add(state)
            state = next((user for user in run.users[state] if run.graph.primitive[user] == STATE), NO_NODE)
            found = state if state != NO_NODE else found
        return found
