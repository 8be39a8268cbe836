"""LAUNCH GRAPH + FUSED KERNELS -> LAUNCH GRAPH of operators, as `opened` makes kernels of them.

Each operator is a node that knows of which fused kernel it is (``cluster``), and which input of that each of its own
is (``given``). What takes one of several outputs out of such a kernel is a node no more: who reads that reads the
operator which makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from swapconf.trace.columns import FUSED
from swapconf.trace.expanded_numbers import with_numbers
from swapconf.trace.func_graph_text import Argument, Kind
from swapconf.trace.fused_kernels import FusedKernel
from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE, LaunchGraph


def opened_graph(
    graph: LaunchGraph, inside: Mapping[str, FusedKernel], names: Mapping[str, Sequence[str]]
) -> LaunchGraph | None:
    """``inside``: by name of a fused kernel what is in it, ``names``: what its operators are named. None where a kernel
    of several outputs is read as a whole."""
    found = _Opening(graph, inside, names).graph()
    return None if found is None else with_numbers(found)


class _Row(NamedTuple):
    """Of one node, as the columns of `LaunchGraph`."""

    name: str
    primitive: str
    inputs: tuple[int, ...]
    item: int
    unique: str
    forward_unique: str
    fused: str | None
    cluster: int
    given: tuple[int, ...]


class _Opening:
    """``value``: by node of the graph the new one that shows its output; ``taken``: nodes that are none any more."""

    def __init__(
        self, graph: LaunchGraph, inside: Mapping[str, FusedKernel], names: Mapping[str, Sequence[str]]
    ) -> None:
        self._old, self._names = graph, names
        self._kernels = {node: inside[name] for node, name in enumerate(graph.name) if name in inside}
        self._first: dict[int, int] = {}  # operator of each fused kernel
        self._value: list[int] = []
        self._taken: set[int] = set()
        count = 0
        for node in range(len(graph)):
            kernel, source = self._kernels.get(node), self._source(node)
            if kernel is not None:
                self._first[node] = count
                self._value.append(count + kernel.outputs[-1])
                count += len(kernel.operators)
            elif source is not None:
                self._taken.add(node)
                self._value.append(self._first[source] + self._kernels[source].outputs[int(graph.item[node])])
            else:
                self._value.append(count)
                count += 1

    def _source(self, node: int) -> int | None:
        """The fused kernel of several outputs that a node takes one out of."""
        source = self._old.inputs[node][0] if self._old.primitive[node] == ITEM else NO_NODE
        return source if source in self._kernels and len(self._kernels[source].outputs) > 1 else None

    def graph(self) -> LaunchGraph | None:
        old = self._old
        if any(self._reads_whole(node) for node in range(len(old)) if node not in self._taken):
            return None
        rows = [row for node in range(len(old)) for row in self._rows(node)]
        return replace(
            old,
            name=tuple(row.name for row in rows),
            primitive=tuple(row.primitive for row in rows),
            inputs=tuple(row.inputs for row in rows),
            item=np.array([row.item for row in rows], dtype=np.int64),
            unique=tuple(row.unique for row in rows),
            forward_unique=tuple(row.forward_unique for row in rows),
            fused=tuple(row.fused for row in rows),
            end=self._value[old.end],
            cluster=tuple(row.cluster for row in rows),
            given=tuple(row.given for row in rows),
            of_function=frozenset(self._value[node] for node in old.of_function - self._kernels.keys()),
        )

    def _reads_whole(self, node: int) -> bool:
        """Who only waits for a kernel waits for any of its operators."""
        inputs = self._old.inputs[node]
        values = inputs[:1] if self._old.primitive[node] == DEPEND else inputs
        read = (self._kernels[given] for given in values if given in self._kernels)
        return any(len(kernel.outputs) > 1 for kernel in read)

    def _rows(self, node: int) -> Iterator[_Row]:
        old = self._old
        read = tuple(NO_NODE if given == NO_NODE else self._value[given] for given in old.inputs[node])
        if node in self._kernels:
            yield from self._operators(node, read)
        elif node not in self._taken:
            yield _Row(
                name=old.name[node],
                primitive=old.primitive[node],
                inputs=read,
                item=int(old.item[node]),
                unique=old.unique[node],
                forward_unique=old.forward_unique[node],
                fused=old.fused[node],
                cluster=NO_NODE,
                given=(),
            )

    def _operators(self, node: int, read: Sequence[int]) -> Iterator[_Row]:
        """``read``: what the kernel reads."""

        def shown(argument: Argument) -> int:
            if argument.kind is Kind.NODE:
                return self._first[node] + argument.number
            return read[argument.number] if argument.kind is Kind.PARAMETER else NO_NODE

        for name, operator in zip(self._names[self._old.name[node]], self._kernels[node].operators, strict=True):
            arguments = operator.arguments
            yield _Row(
                name=name,
                primitive=operator.primitive,
                inputs=tuple(map(shown, arguments)),
                item=NO_NODE,
                unique=operator.unique,
                forward_unique=operator.forward_unique,
                fused=None,
                cluster=node if FUSED in self._old.name[node] else NO_NODE,
                given=tuple(one.number if one.kind is Kind.PARAMETER else NO_NODE for one in arguments),
            )
