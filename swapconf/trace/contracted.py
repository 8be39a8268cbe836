"""LAUNCH GRAPH of operators -> LAUNCH GRAPH of launches: each fused kernel is one node, as in MindSpore's last graph.

It reads what its operators read of others, each value once, in the order of its inputs; of several outputs each is
taken out of it by a ``TupleGetItem``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.trace.columns import FUSED
from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph


@dataclass(frozen=True, kw_only=True, eq=False)
class Contracted:
    """``operators``: by node of ``graph`` those of the other graph that it launches, each behind those that it reads.
    ``node_of``: by operator the node that launches it. ``behind``: of the other graph, see `LaunchGraph`."""

    graph: LaunchGraph
    operators: Sequence[tuple[int, ...]]
    node_of: Sequence[int]
    behind: Sequence[int]

    def opened(self, launched: Iterable[int]) -> list[int]:
        """The operators of launches, and what is launched behind them."""
        return [*(operator for node in launched for operator in self.operators[node]), *self.behind]


def contracted(graph: LaunchGraph) -> Contracted:
    """Raises ValueError where operators of a fused kernel read from each other in a circle."""
    found = _Contracting(graph)
    found.read()
    return found.contracted()


def _in_order(graph: LaunchGraph, mine: Sequence[int]) -> tuple[int, ...]:
    """The operators of a kernel, each behind those that it reads, else as they are numbered."""
    left, order = list(mine), list[int]()
    while left:
        waiting = set(left)
        ready = [node for node in left if waiting.isdisjoint(graph.inputs[node])]
        if not ready:
            raise ValueError("operators of a fused kernel read from each other in a circle")
        order += ready[:1]
        left.remove(ready[0])
    return tuple(order)


class _Contracting:
    """Nodes grow behind one another. ``source``: by node the one whose columns it has, NO_NODE for what takes an output
    out of a kernel; ``value``: by operator the node that shows its output."""

    def __init__(self, graph: LaunchGraph) -> None:
        self._old = graph
        self._operators: list[tuple[int, ...]] = []
        self._source: list[int] = []
        self._inputs: list[list[int]] = []
        self._item: list[int] = []
        self._node_of = [NO_NODE] * len(graph)
        groups: dict[int, list[int]] = {}
        for node, cluster in enumerate(graph.cluster):
            groups.setdefault(~node if cluster == NO_NODE else cluster, []).append(node)
        for mine in groups.values():
            made = self._add(mine[0], _in_order(graph, mine), int(graph.item[mine[0]]))
            for node in mine:
                self._node_of[node] = made
        self._value = list(self._node_of)

    def _add(self, source: int, operators: tuple[int, ...], item: int) -> int:
        self._source.append(source)
        self._operators.append(operators)
        self._inputs.append([])
        self._item.append(item)
        return len(self._source) - 1

    def _is_fused(self, node: int) -> bool:
        return self._source[node] != NO_NODE and self._old.cluster[self._source[node]] != NO_NODE

    def read(self) -> None:
        self._take()
        for node, operators in enumerate(self._operators):
            if operators:
                read = self._outside(operators) if self._is_fused(node) else self._old.inputs[operators[0]]
                self._inputs[node] = [NO_NODE if given == NO_NODE else self._value[given] for given in read]

    def _take(self) -> None:
        """Takes outputs out of kernels of several."""
        shown: dict[int, set[int]] = {}
        for node, inputs in enumerate(self._old.inputs):
            for given in inputs:
                if given != NO_NODE and self._node_of[given] != self._node_of[node]:
                    shown.setdefault(self._node_of[given], set()).add(given)
        for node, outputs in shown.items():
            if len(outputs) > 1:
                for item, operator in enumerate(one for one in self._operators[node] if one in outputs):
                    self._value[operator] = self._add(NO_NODE, (), item)
                    self._inputs[-1] = [node, NO_NODE]

    def _outside(self, operators: tuple[int, ...]) -> list[int]:
        """What a fused kernel reads: one value for each of its inputs; what has no number among them comes last."""
        numbered, others = dict[tuple[int, int], None](), dict[int, None]()
        for node in operators:
            numbers = self._old.given[node]
            for place, given in enumerate(self._old.inputs[node]):
                if given != NO_NODE and given not in operators:
                    number = numbers[place] if place < len(numbers) else NO_NODE
                    if number == NO_NODE:
                        others[given] = None
                    else:
                        numbered[number, given] = None
        known = [given for _, given in sorted(numbered)]
        return [*known, *(given for given in others if given not in known)]

    def contracted(self) -> Contracted:
        old, source = self._old, self._source
        primitive = [
            ITEM if one == NO_NODE else f"{FUSED}{old.cluster[one]}" if self._is_fused(node) else old.primitive[one]
            for node, one in enumerate(source)
        ]
        graph = replace(
            old,
            name=tuple("" if one == NO_NODE else old.name[one] for one in source),
            primitive=tuple(primitive),
            inputs=tuple(map(tuple, self._inputs)),
            item=np.array(self._item, dtype=np.int64),
            unique=tuple("" if one == NO_NODE else old.unique[one] for one in source),
            forward_unique=tuple("" if one == NO_NODE else old.forward_unique[one] for one in source),
            fused=tuple(None if one == NO_NODE else old.fused[one] for one in source),
            end=self._node_of[old.end],
            cluster=(),
            given=(),
            behind=(),
        )
        return Contracted(graph=graph, operators=self._operators, node_of=self._node_of, behind=old.behind)
