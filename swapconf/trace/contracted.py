"""LAUNCH GRAPH of operators -> LAUNCH GRAPH of launches: what is fused is one node, as MindSpore's last graph has it.

A fused kernel reads what its operators read from outside, each value once, in the order in which they come to it; of
several values that others read, each is taken out of it by a ``TupleGetItem``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.trace.columns import FUSED
from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph


@dataclass(frozen=True, kw_only=True, eq=False)
class Contracted:
    """``members``: by node of ``graph`` the nodes that it stands for, each behind those that it reads; itself where it
    is no fused kernel. ``node_of``: by node of the graph of operators the one that stands for it."""

    graph: LaunchGraph
    members: Sequence[tuple[int, ...]]
    node_of: Sequence[int]

    def opened(self, launched: Sequence[int]) -> list[int]:
        """The operators of launches."""
        return [node for launch in launched for node in self.members[launch]]


def contracted(graph: LaunchGraph) -> Contracted:
    """Raises ValueError where a fused kernel would wait for itself."""
    groups: dict[int, list[int]] = {}
    for node, cluster in enumerate(graph.cluster):
        if cluster != NO_NODE:
            groups.setdefault(cluster, []).append(node)
    found = _Building(graph, {cluster: _inputs_first(graph, nodes) for cluster, nodes in groups.items()})
    return found.contracted()


def _inputs_first(graph: LaunchGraph, nodes: list[int]) -> tuple[int, ...]:
    """Each behind those that it reads, else as they are numbered."""
    mine, order, done = set(nodes), list[int](), set[int]()
    stack = nodes[::-1]
    while stack:
        node = stack[-1]
        left = [given for given in graph.inputs[node] if given in mine and given not in done and given != node]
        if node in done or not left:
            stack.pop()
            if node not in done:
                done.add(node)
                order.append(node)
        elif len(stack) > len(graph):
            raise ValueError("nodes of the graph read from each other in a circle")
        else:
            stack += left[::-1]
    return tuple(order)


class _Building:
    def __init__(self, graph: LaunchGraph, groups: dict[int, tuple[int, ...]]) -> None:
        self._old, self._groups = graph, groups
        self._inputs: list[list[int]] = []
        self._members: list[tuple[int, ...]] = []
        self._primitive: list[str] = []
        self._source: list[int] = []  # the node whose columns each has, NO_NODE for none
        self._item: list[int] = []
        self._node_of = [NO_NODE] * len(graph)
        self._value = [NO_NODE] * len(graph)  # what shows the output of each

    def _add(self, primitive: str, source: int, members: tuple[int, ...], item: int) -> int:
        self._primitive.append(primitive)
        self._source.append(source)
        self._members.append(members)
        self._item.append(item)
        self._inputs.append([])
        return len(self._primitive) - 1

    def contracted(self) -> Contracted:
        old, is_first = self._old, {members[0]: cluster for cluster, members in self._groups.items()}
        for node, cluster in enumerate(old.cluster):
            if cluster == NO_NODE:
                self._node_of[node] = self._add(old.primitive[node], node, (node,), int(old.item[node]))
            elif node in is_first:
                made = self._add(f"{FUSED}{cluster}", node, self._groups[cluster], NO_NODE)
                for member in self._groups[cluster]:
                    self._node_of[member] = made
        self._show()
        for made, members in enumerate(self._members):
            if not members:
                continue
            is_fused = old.cluster[members[0]] != NO_NODE
            read = self._read(members) if is_fused else old.inputs[members[0]]
            self._inputs[made] += [NO_NODE if given == NO_NODE else self._value[given] for given in read]
        return Contracted(graph=self._graph(), members=self._members, node_of=self._node_of)

    def _read(self, members: tuple[int, ...]) -> list[int]:
        """What a fused kernel reads: in the order of its inputs, where that is known, else as its operators read it."""
        turn: dict[int, int] = {}
        for member in members:
            for place, given in enumerate(self._old.inputs[member]):
                if given != NO_NODE and given not in members:
                    known = self._old.given[member][place : place + 1]
                    number = known[0] if known and known[0] != NO_NODE else len(self._old)
                    turn[given] = min(turn.get(given, number), number)
        return sorted(turn, key=lambda given: turn[given])

    def _show(self) -> None:
        """What shows the output of each node: of a fused kernel with several that others read, what takes it out."""
        outside: dict[int, list[int]] = {}
        for node, inputs in enumerate(self._old.inputs):
            for given in inputs:
                if given != NO_NODE and self._old.cluster[given] not in (NO_NODE, self._old.cluster[node]):
                    outside.setdefault(self._old.cluster[given], []).append(given)
        for node in range(len(self._old)):
            self._value[node] = self._node_of[node]
        for cluster, members in self._groups.items():
            read = set(outside.get(cluster, ()))
            shown = [member for member in members if member in read]
            if len(shown) > 1:
                for place, member in enumerate(shown):
                    self._value[member] = self._add(ITEM, NO_NODE, (), place)
                    self._inputs[self._value[member]] = [self._node_of[member], NO_NODE]

    def _graph(self) -> LaunchGraph:
        old = self._old

        def column(values: Sequence[str]) -> tuple[str, ...]:
            return tuple(values[source] if source != NO_NODE else "" for source in self._source)

        return replace(
            old,
            name=column(old.name),
            primitive=tuple(self._primitive),
            inputs=tuple(map(tuple, self._inputs)),
            item=np.array(self._item, dtype=np.int64),
            unique=column(old.unique),
            forward_unique=column(old.forward_unique),
            fused=tuple(old.fused[source] if source != NO_NODE else None for source in self._source),
            cluster=(),
            given=(),
            end=self._node_of[old.end],
        )
