"""INPUTS of what begins in a recomputed cell -> the same, waiting as MindSpore ties them without lazy inline."""

from __future__ import annotations

from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, NO_NODE, STATE
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.ties import Ties


@dataclass
class FirstInputs:
    nodes: Nodes
    ties: Ties
    _states: dict[tuple[int, int], int] = field(default_factory=dict)

    def tied(self, inputs: list[int], gate: int) -> list[int]:
        """It waits with what it reads first, also if that is a constant, or with the state that this is read in."""
        value = next(iter(inputs), NO_NODE)
        is_tied = value >= self.nodes.count and self.nodes.primitive[value] == DEPEND
        if gate == NO_NODE or not inputs or is_tied:
            return inputs
        return [self._tied_in_state(value, gate), *inputs[1:]]

    def _tied_in_state(self, value: int, gate: int) -> int:
        nodes = self.nodes
        state = nodes.inputs[value][1] if value != NO_NODE and nodes.primitive[value] == DEPEND else NO_NODE
        if state == NO_NODE or nodes.primitive[state] != STATE:
            return self.ties.gated(value, gate)
        if (state, gate) not in self._states:
            called = self.ties.state(NO_NODE, gate)
            self._states[state, gate] = nodes.add(STATE, (called, *nodes.inputs[state][1:]))
        return self.ties.gated(nodes.inputs[value][0], self._states[state, gate])
