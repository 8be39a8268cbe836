"""LAUNCH GRAPH -> the same before MindSpore puts the branches of its conditions inline.

A condition of the last graph is a ConditionSwitch, which hands values to the kernels of two branches, and a
ConditionGather, which reads what both hand out. The passes before see three kernels instead: of each branch a
PartialInline, which reads all that the branch is handed, and a Switch, which reads the condition and both
(``ProcessSwitchNode`` of ge_kernel_executor.cc). A PartialInline is launched as soon as what it reads is there: in a
step of one micro-batch amid its backward pass, as are the branch of the optimizer for gradients that overflow, behind
their scale, and the learning rate of legacy models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph
from swapconf.trace.launch_order import inputs_first

_SWITCH, _GATHER, _BRANCH = "ConditionSwitch", "ConditionGather", "PartialInline"


class Place(NamedTuple):
    """An input of a node."""

    node: int
    turn: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Branched:
    """``graph``: nodes have the same numbers; a ConditionSwitch is the first branch now, a ConditionGather the Switch,
    and second branches come last. ``branches``: of these the nodes. ``first``: by branch and Switch where its first
    input stands in the other graph, behind all inputs where it has none."""

    graph: LaunchGraph
    branches: frozenset[int] = frozenset()
    first: Mapping[int, Place]


def branched(graph: LaunchGraph) -> Branched:
    """Raises GraphCycle."""
    if _GATHER not in graph.primitive:
        return Branched(graph=graph, first={})
    conditions = _Conditions(graph)
    for node in inputs_first(graph.inputs):  # inner conditions in front of the one that they belong to
        if graph.primitive[node] == _GATHER:
            conditions.close(node)
    return conditions.branched()


class _Conditions:
    """``switch_of``: by ConditionGather."""

    def __init__(self, graph: LaunchGraph) -> None:
        self._graph = graph
        self._inputs, self._primitive = list(graph.inputs), list(graph.primitive)
        self._switch_of: dict[int, int] = {}
        self._branches: set[int] = set()
        self._first: dict[int, Place] = {}

    def close(self, gather: int) -> None:
        """First stand the outputs of the first branch, then those of the second."""
        outputs = self._graph.inputs[gather]
        taken = [self._taken(part) for part in (outputs[: len(outputs) // 2], outputs[len(outputs) // 2 :])]
        switches = {place.node for places in taken for place in places}
        if len(switches) != 1:  # not seen
            return
        switch, second = switches.pop(), len(self._primitive)
        read = self._graph.inputs[switch]
        self._primitive.append(_BRANCH)
        self._inputs.append(())
        self._primitive[switch] = _BRANCH
        for branch, places in zip((switch, second), taken, strict=True):
            self._inputs[branch] = tuple(read[place.turn] for place in sorted(places))
            self._first[branch] = min(places, default=Place(switch, len(read)))
        self._inputs[gather] = (read[0], switch, second)
        self._first[gather] = Place(switch, 0)
        self._switch_of[gather] = switch
        self._branches |= {switch, second}

    def _taken(self, outputs: Sequence[int]) -> set[Place]:
        """What a branch takes of the inputs of its ConditionSwitch, behind the condition."""
        graph, places, seen, stack = self._graph, set[Place](), set[int](), list(outputs)
        while stack:
            node = stack.pop()
            if node == NO_NODE or node in seen:
                continue
            seen.add(node)
            given = graph.inputs[self._switch_of.get(node, node)]
            if graph.primitive[node] == ITEM and given[0] != NO_NODE and graph.primitive[given[0]] == _SWITCH:
                places.add(Place(given[0], 1 + int(graph.item[node])))
            else:
                stack += given
        return places

    def branched(self) -> Branched:
        """What takes the only output of a ConditionGather out of it is not there, either."""
        old, more = self._graph, len(self._primitive) - len(self._graph)
        single = {gather for gather in self._switch_of if len(old.inputs[gather]) == 2}
        items = {
            node: given[0]
            for node, given in enumerate(old.inputs)
            if old.primitive[node] == ITEM and given[0] in single
        }
        graph = replace(
            old,
            name=(*old.name, *[""] * more),
            primitive=tuple(self._primitive),
            inputs=tuple(tuple(items.get(given, given) for given in read) for read in self._inputs),
            item=np.concatenate([old.item, np.full(more, NO_NODE)]),
            unique=(*old.unique, *[""] * more),
            forward_unique=(*old.forward_unique, *[""] * more),
            fused=(*old.fused, *[None] * more),
        )
        return Branched(graph=graph, branches=frozenset(self._branches), first=self._first)
