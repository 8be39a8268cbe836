"""LAUNCH GRAPH of a step + BASELINE -> the same with what MindSpore launches behind it, from graphs of their own.

MindSpore puts conditions inline as long as none of them gives back a reference, each depends on the one before, and
there are fewer than ten, among others (``IsEnableControlFlowInline``, backend of 2.x). Where it does not, a step is
several graphs: the first one has all forward and backward passes, and a strategy changes that one alone. So it is with
`ConstantWarmUpLR` and warm-up steps (measured with 2.9.0 and layers of Llama, Qwen3, TeleChat3 and DeepSeek-V3; with
other schedules there is one graph): the optimizer is launched behind it, kernel for kernel as without a strategy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, TUPLE, LaunchGraph
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.graph.nodes import Nodes


def with_behind(graph: LaunchGraph, baseline: Baseline, first: Sequence[int]) -> LaunchGraph:
    """``first``: its kernels in the order of their launches. The graph itself where these are not the first ones of a
    step, or where they are all."""
    step = baseline.kernels.name[: int(baseline.step_starts[1])]
    if len(first) >= len(step) or [graph.name[node] for node in first] != [*step[: len(first)]]:
        return graph
    return _Behind(graph, baseline, first).graph()


def let_states_wait(nodes: Nodes) -> frozenset[int]:
    """The states behind the first graph wait for who loads a parameter, so that graph returns all outputs of these, as
    of the gradient of a norm that reads its weight. Where the weight waits for a gradient, as of what runs again, the
    Depend loads it: the kernels whose outputs are not returned any more. Measured with 2.9.0 and TeleChat3."""
    unreturned = set[int]()
    for returned in nodes.inputs[nodes.end]:
        if returned == NO_NODE or nodes.primitive[returned] != TUPLE:
            continue
        for place, given in enumerate(nodes.inputs[returned]):
            if given != NO_NODE and nodes.primitive[given] == TUPLE and (loads := _tied_loads(nodes, given)):
                nodes.inputs[returned][place] = loads[0]
                unreturned.add(nodes.maker(nodes.inputs[given][0]))
    return frozenset(unreturned)


def _tied_loads(nodes: Nodes, outputs: int) -> list[int]:
    """``outputs``: a tuple of all outputs of a kernel."""
    makers = {nodes.maker(given) for given in nodes.inputs[outputs]}
    return [
        given
        for maker in makers
        if len(makers) == 1 and maker != NO_NODE
        for given in nodes.inputs[maker]
        if given != NO_NODE and nodes.primitive[given] == DEPEND and nodes.primitive[nodes.inputs[given][0]] == LOAD
    ]


class _Behind:
    """``nodes``: by kernel of the step its node, as far as they are made."""

    def __init__(self, graph: LaunchGraph, baseline: Baseline, first: Sequence[int]) -> None:
        self._graph, self._baseline, self._nodes = graph, baseline, [*first]
        self._primitive, self._name, self._item = list[str](), list[str](), list[int]()
        self._inputs = list[tuple[int, ...]]()

    def graph(self) -> LaunchGraph:
        graph, kernels = self._graph, self._baseline.kernels
        first, count = len(self._nodes), int(self._baseline.step_starts[1])
        read_by = self._read_by(first, count)
        for kernel in range(first, count):
            read = tuple(self._shown(row) for row in sorted(read_by[kernel]))
            self._nodes.append(self._add(kernels.primitive[kernel], read, name=kernels.name[kernel]))
        nothing = ("",) * len(self._name)
        return replace(
            graph,
            name=(*graph.name, *self._name),
            primitive=(*graph.primitive, *self._primitive),
            inputs=(*graph.inputs, *self._inputs),
            item=np.array([*graph.item.tolist(), *self._item], dtype=np.int64),
            unique=(*graph.unique, *nothing),
            forward_unique=(*graph.forward_unique, *nothing),
            fused=(*graph.fused, *(None for _ in nothing)),
            cluster=(*graph.cluster, *(NO_NODE for _ in nothing)) if graph.cluster else (),
            given=(*graph.given, *(() for _ in nothing)) if graph.given else (),
            behind=tuple(self._nodes[first:]),
        )

    def _read_by(self, first: int, count: int) -> defaultdict[int, set[int]]:
        """By kernel the rows that it reads."""
        reads, rows = self._baseline.reads, defaultdict[int, set[int]](set)
        is_behind = (reads.kernel >= first) & (reads.kernel < count)
        for kernel, row in zip(reads.kernel[is_behind].tolist(), reads.block[is_behind].tolist(), strict=True):
            rows[kernel].add(row)
        return rows

    def _shown(self, row: int) -> int:
        """The node that shows a block: its kernel, or what takes it out of several."""
        maker = int(self._baseline.maker[row])
        made = self._baseline.made[maker]
        return self._nodes[maker] if len(made) == 1 else self._add(ITEM, (self._nodes[maker],), item=made.index(row))

    def _add(self, primitive: str, inputs: tuple[int, ...], name: str = "", item: int = NO_NODE) -> int:
        self._primitive.append(primitive)
        self._inputs.append(inputs)
        self._name.append(name)
        self._item.append(item)
        return len(self._graph) + len(self._name) - 1
