"""LAUNCH GRAPH + FUSED KERNELS -> LAUNCH GRAPH of operators, as `opened` makes kernels of them.

Each operator is a node that knows the fused kernel it is of (``cluster``); what takes one of several outputs out of
such a kernel is none any more, as the operator that makes it is read itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from swapconf.trace.columns import FUSED
from swapconf.trace.func_graph_text import Kind
from swapconf.trace.fused_kernels import FusedKernel
from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph


def opened_graph(
    graph: LaunchGraph, inside: Mapping[str, FusedKernel], names: Mapping[str, Sequence[str]]
) -> LaunchGraph | None:
    """``inside``: by name of a fused kernel what is in it, ``names``: those of its operators. None where something else
    than what takes out one of its outputs reads a kernel of several."""
    return _Building(graph, inside, names).graph()


class _Building:
    def __init__(
        self, graph: LaunchGraph, inside: Mapping[str, FusedKernel], names: Mapping[str, Sequence[str]]
    ) -> None:
        self._old, self._names = graph, names
        self._kernels = {node: inside[name] for node, name in enumerate(graph.name) if name in inside}
        self._value: list[int] = []  # by old node what shows its output
        self._first: dict[int, int] = {}  # by old node of a fused kernel its first operator
        self._taken: set[int] = set()
        count = 0
        for node, primitive in enumerate(graph.primitive):
            source = graph.inputs[node][0] if primitive == ITEM else NO_NODE
            if node in self._kernels:
                self._first[node] = count
                self._value.append(count + self._kernels[node].outputs[-1])
                count += len(self._kernels[node].operators)
            elif source in self._kernels and len(self._kernels[source].outputs) > 1:
                self._taken.add(node)
                self._value.append(self._first[source] + self._kernels[source].outputs[int(graph.item[node])])
            else:
                self._value.append(count)
                count += 1

    def graph(self) -> LaunchGraph | None:
        old = self._old
        if any(self._reads_whole(node) for node in range(len(old)) if node not in self._taken):
            return None
        rows = [row for node in range(len(old)) for row in self._rows(node)]
        name, primitive, inputs, item, unique, forward_unique, fused, cluster, numbers = zip(*rows, strict=True)
        return replace(
            old,
            name=name,
            primitive=primitive,
            inputs=inputs,
            item=np.array(item, dtype=np.int64),
            unique=unique,
            forward_unique=forward_unique,
            fused=fused,
            cluster=cluster,
            given=numbers,
            end=self._value[old.end],
        )

    def _reads_whole(self, node: int) -> bool:
        read = (self._kernels[given] for given in self._old.inputs[node] if given in self._kernels)
        return any(len(kernel.outputs) > 1 for kernel in read)

    def _rows(self, node: int):
        old = self._old
        if node in self._taken:
            return
        if node not in self._kernels:
            yield (
                old.name[node],
                old.primitive[node],
                tuple(NO_NODE if given == NO_NODE else self._value[given] for given in old.inputs[node]),
                int(old.item[node]),
                old.unique[node],
                old.forward_unique[node],
                old.fused[node],
                NO_NODE,
                (),
            )
            return
        given = [NO_NODE if one == NO_NODE else self._value[one] for one in old.inputs[node]]
        cluster = node if FUSED in old.name[node] else NO_NODE
        for name, operator in zip(self._names[old.name[node]], self._kernels[node].operators, strict=True):
            read = []
            for argument in operator.arguments:
                if argument.kind is Kind.NODE:
                    read.append(self._first[node] + argument.number)
                else:
                    is_given = argument.kind is Kind.PARAMETER
                    read.append(given[argument.number] if is_given else NO_NODE)
            yield (
                name, operator.primitive, tuple(read), NO_NODE, operator.unique, operator.forward_unique, None, cluster,
                tuple(a.number if a.kind is Kind.PARAMETER else NO_NODE for a in operator.arguments),
            )
