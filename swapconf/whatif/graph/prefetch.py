"""NODES + PREFETCHES -> ties: between which kernels each copy back is launched.

MindSpore takes them from the order in which nothing waits for a copy but its reader: the copy waits for the kernel that
stands so far ahead of the reader, copies not counted, but for none in front of what it copies or of its call; and the
next kernel waits for the copy (plugin/ascend/graph_optimizer/pass/heterogeneous/insert_pre_fetch_depend.cc). Where that
reaches back before the step, copies counted, neither is tied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swapconf.trace.columns import Ints
from swapconf.trace.contracted import contracted
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, TUPLE
from swapconf.trace.launch_order import GraphCycle, launched, turns
from swapconf.whatif.graph.nodes import MOVE, Nodes
from swapconf.whatif.graph.run_graph import RunGraph

_SCALE = "Reciprocal"  # of the gradients


class CopyCycle(GraphCycle):
    """A copy back would wait for a kernel that waits for it: MindSpore stops ("Graph cycle exists")."""


class _Tie(NamedTuple):
    copy: int
    behind: int
    ahead: int


def launched_with_copies(nodes: Nodes, run: RunGraph, prefetch: Ints, back: Mapping[int, int]) -> list[int]:
    """The order of the kernels when prefetches are tied. ``back``: by node of a copy to the device its window. Raises
    ValueError where nodes go in a circle, CopyCycle where they do not without the ties of prefetches."""
    if not nodes.is_fused:
        prefetched(nodes, run, prefetch, back)
        return _launched(nodes, back)
    found = contracted(nodes.frozen())
    launches = Nodes(found.graph)
    copies = {found.node_of[node]: window for node, window in back.items()}
    prefetched(launches, run, prefetch, copies)
    return found.opened(_launched(launches, copies))


def _launched(tied: Nodes, back: Mapping[int, int]) -> list[int]:
    """Where there are copies, the nodes were in order before these were tied."""
    try:
        return launched(tied.frozen())
    except GraphCycle as error:
        if not back:
            raise
        raise CopyCycle(str(error)) from error


def prefetched(nodes: Nodes, run: RunGraph, prefetch: Ints, back: Mapping[int, int]) -> None:
    """``back``: by node of a copy to the device its window. Raises ValueError where nodes go in a circle."""
    if not back:
        return
    ties = _Ordered.of(nodes, run, turns(nodes.frozen())).ties(prefetch, back)
    for tie in ties:
        nodes.inputs[tie.copy][0] = nodes.tied(nodes.inputs[tie.copy][0], tie.behind)
        inputs = nodes.inputs[tie.ahead]
        first = nodes.tied(inputs[0] if inputs else NO_NODE, tie.copy)
        nodes.inputs[tie.ahead] = [first, *inputs[1:]]


@dataclass(frozen=True, kw_only=True)
class _Ordered:
    """``order``: all kernels, ``computed``: those that are no copies; and where each of them stands. In a step of one
    micro-batch MindSpore counts one more in front of the scale of the gradients, that it removes later (measured)."""

    nodes: Nodes
    run: RunGraph
    order: Sequence[int]
    place: Mapping[int, int]
    computed: Sequence[int]
    place_computed: Mapping[int, int]
    readers: Mapping[int, Sequence[tuple[int, int]]]

    @classmethod
    def of(cls, nodes: Nodes, run: RunGraph, order: Sequence[int]) -> _Ordered:
        computed = list[int]()
        for node in order:
            if nodes.primitive[node] == _SCALE and len(run.barriers) == 1:
                computed.append(NO_NODE)
            if nodes.primitive[node] != MOVE:
                computed.append(node)
        readers: dict[int, list[tuple[int, int]]] = {}
        for node, inputs in enumerate(nodes.inputs):
            for turn, given in enumerate(inputs):
                if given != NO_NODE:
                    readers.setdefault(given, []).append((node, turn))
        return cls(
            nodes=nodes,
            run=run,
            order=order,
            place={node: turn for turn, node in enumerate(order)},
            computed=computed,
            place_computed={node: turn for turn, node in enumerate(computed)},
            readers=readers,
        )

    def ties(self, prefetch: Ints, back: Mapping[int, int]) -> list[_Tie]:
        found = (self._tie(node, int(prefetch[back[node]])) for node in self.order if node in back)
        return [tie for tie in found if tie is not None]

    def _tie(self, copy: int, far: int) -> _Tie | None:
        reader = self._first_reader(copy)
        if reader is None or far + 1 > reader or self.order[reader] not in self.place_computed:
            return None
        behind = self.place_computed[self.order[reader]] - 1 - far
        if behind < 0:  # MindSpore reads in front of a vector here, see `underflow`
            return None
        behind += self.computed[behind] == NO_NODE
        least = self._least(copy)
        if self.place[self.computed[behind]] < least:
            while self.nodes.primitive[self.order[least]] == MOVE:
                least += 1
            behind = self.place_computed[self.order[least]]
        near = [node for node in self.computed[behind : behind + 3] if node != NO_NODE]
        return _Tie(copy, *near[:2]) if len(near) > 1 else None

    def _first_reader(self, copy: int) -> int | None:
        found: int | None = None
        stack, seen = list(self.readers.get(copy, ())), set[tuple[int, int]]()
        while stack:
            user, turn = stack.pop()
            if (user, turn) in seen:
                continue
            seen.add((user, turn))
            if user in self.place:
                found = self.place[user] if found is None else min(found, self.place[user])
            elif self.nodes.primitive[user] != DEPEND or turn == 0:
                stack += self.readers.get(user, ())
        return found

    def _least(self, copy: int) -> int:
        """Where the last kernel stands that what it copies waits for."""
        least, stack, seen = 0, [self.nodes.inputs[copy][0]], set[int]()
        while stack:
            node = stack.pop()
            if node == NO_NODE or node in seen:
                continue
            seen.add(node)
            if node in self.place:
                least = max(least, self.place[node])
            elif self.nodes.primitive[node] in (DEPEND, LOAD):
                stack += self.nodes.inputs[node][:2]
            elif self.nodes.primitive[node] == ITEM:
                stack.append(self._taken(node))
        return least

    def _taken(self, node: int) -> int:
        given = self.nodes.inputs[node][0]
        if given != NO_NODE and self.nodes.primitive[given] == TUPLE:
            values, item = self.nodes.inputs[given], self.nodes.item[node]
            return values[item] if 0 <= item < len(values) else NO_NODE
        return given
