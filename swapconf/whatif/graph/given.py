"""NODES that run again -> what the recomputed cells are given that they are in.

MindSpore calls a recomputed cell as a whole until late (measured with 2.9.0).

Mirrors the inputs of the K graph's call (frontend/optimizer/irpass/recompute.cc).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, LOAD, NO_NODE, STATE, TUPLE
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.ties import Ties


def given(
    nodes: Nodes, copies: Mapping[tuple[int, Part], int], is_parameter: Callable[[int], bool]
) -> dict[int, tuple[int, ...]]:
    """By node: parameters, by the tie behind which the call reads each, and values in the order of the forward pass.
    ``copies``: by kernel and part the node that runs again."""
    parts: defaultdict[Part, list[int]] = defaultdict(list)
    for (_, part), node in copies.items():
        if part.cell != NO_CELL:
            parts[part].append(node)
    parameters = _parameters(nodes, is_parameter)
    given_of = dict[int, tuple[int, ...]]()
    for members in parts.values():
        read = {value for node in members for value in nodes.inputs[node] if value >= nodes.count}
        tied = [value for value in read.difference(members) if nodes.primitive[value] == DEPEND]
        loaded = [nodes.inputs[value][0] for value in read if nodes.primitive[value] == LOAD]
        gates = dict.fromkeys(
            nodes.inputs[value][1] for value in (*sorted(tied), *sorted(loaded)) if nodes.primitive[value] == DEPEND
        )
        of_gates = [parameter for gate in gates for parameter in parameters[gate]]
        values = sorted(tied, key=nodes.maker)
        given_of |= dict.fromkeys(members, (*dict.fromkeys(of_gates), *values))
    return given_of


def _parameters(nodes: Nodes, is_parameter: Callable[[int], bool]) -> defaultdict[int, list[int]]:
    """By gate those that wait for it and are read by more than a state, by tie."""
    read = {given for node in range(len(nodes)) if nodes.is_kernel(node) for given in nodes.inputs[node]}
    read |= {nodes.inputs[value][0] for value in read if value != NO_NODE and nodes.primitive[value] == LOAD}
    by_gate = defaultdict[int, list[int]](list)
    for node in range(nodes.count, len(nodes)):
        if nodes.primitive[node] == DEPEND and node in read:
            tie, gate = nodes.inputs[node][:2]
            if gate != NO_NODE and nodes.primitive[gate] == TUPLE and is_parameter(tie):
                by_gate[gate].append(tie)
    return by_gate


@dataclass
class FirstInputs:
    """Inputs of what begins in a recomputed cell, waiting as MindSpore ties them without lazy inline."""

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
