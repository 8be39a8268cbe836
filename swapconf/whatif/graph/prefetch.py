"""NODES + PREFETCHES -> ties: between which kernels each copy back is launched.

MindSpore takes them from the order in which nothing waits for a copy but its reader: the copy waits for the kernel that
stands so far ahead of the reader, copies not counted, but for none in front of what it copies or of its call; and the
next kernel waits for the copy (plugin/ascend/graph_optimizer/pass/heterogeneous/insert_pre_fetch_depend.cc). Where that
reaches back before the step, copies counted, neither is tied. Two of these ties MindSpore does not survive:

- Where it is in front of the first kernel only without the copies, MindSpore reads memory in front of the list of
  kernels, and mostly dies of that (SIGSEGV). What lies there differs from run to run; where it is nothing, the copy
  waits for what it copies alone.
- Branches of conditions are put inline later, see `branches`, but for one that a copy waits for: nothing can launch it,
  and MindSpore stops ("The pointer[ker_ptr] is null", ``RtOpBuild``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swapconf.trace.columns import Ints
from swapconf.trace.contracted import contracted
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, TUPLE, LaunchGraph
from swapconf.trace.launch_order import GraphCycle, launched, turns
from swapconf.whatif.graph.branches import Place, branched
from swapconf.whatif.graph.nodes import MOVE, Nodes


class CopyCycle(GraphCycle):
    """A copy back would wait for a kernel that waits for it: MindSpore stops ("Graph cycle exists")."""


class _Tie(NamedTuple):
    copy: int
    behind: int
    ahead: int


class Stops(NamedTuple):
    """Windows of copies back: ``underflows``: for which MindSpore looks in front of the first kernel of the step,
    ``stranded``: which wait for a branch of a condition."""

    underflows: frozenset[int] = frozenset()
    stranded: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Launches:
    """``order``: of the kernels, those of a fused one together. ``stops``: what MindSpore does not survive."""

    order: Sequence[int]
    stops: Stops


def launched_with_copies(nodes: Nodes, prefetch: Ints, back: Mapping[int, int]) -> Launches:
    """What is launched when prefetches are tied. ``back``: by node of a copy to the device its window. Raises
    ValueError where nodes go in a circle, CopyCycle where they do not without the ties of prefetches."""
    if not nodes.is_fused:
        stops = prefetched(nodes, prefetch, back)
        return Launches(order=_launched(nodes, back), stops=stops)
    contraction = contracted(nodes.frozen())
    launches = Nodes(contraction.graph)
    copies = {contraction.node_of[node]: window for node, window in back.items()}
    stops = prefetched(launches, prefetch, copies)
    return Launches(order=contraction.opened(_launched(launches, copies)), stops=stops)


def _launched(tied: Nodes, back: Mapping[int, int]) -> list[int]:
    """Where there are copies, the nodes were in order before these were tied."""
    try:
        return launched(tied.frozen())
    except GraphCycle as error:
        if not back:
            raise
        raise CopyCycle(str(error)) from error


def prefetched(nodes: Nodes, prefetch: Ints, back: Mapping[int, int]) -> Stops:
    """Ties what is copied back. ``back``: by node of a copy to the device its window. Raises ValueError where nodes go
    in a circle."""
    if not back:
        return Stops()
    seen = branched(nodes.frozen())
    ordered = _Ordered.of(seen.graph, turns(seen.graph))
    ahead = {node: ordered.ahead(node, int(prefetch[back[node]])) for node in ordered.order if node in back}
    ties = [tie for node, behind in ahead.items() if (tie := ordered.tie(node, behind)) is not None]
    for tie in ties:
        if tie.behind not in seen.branches:
            nodes.inputs[tie.copy][0] = nodes.tied(nodes.inputs[tie.copy][0], tie.behind)
        node, turn = seen.first.get(tie.ahead, Place(tie.ahead, 0))
        if turn < len(nodes.inputs[node]):
            nodes.inputs[node][turn] = nodes.tied(nodes.inputs[node][turn], tie.copy)
    return Stops(
        underflows=frozenset(back[node] for node, behind in ahead.items() if behind is not None and behind < 0),
        stranded=frozenset(back[tie.copy] for tie in ties if tie.behind in seen.branches),
    )


@dataclass(frozen=True, kw_only=True)
class _Ordered:
    """``order``: all kernels, ``computed``: those that are no copies; and where each of them stands."""

    graph: LaunchGraph
    order: Sequence[int]
    place: Mapping[int, int]
    computed: Sequence[int]
    place_computed: Mapping[int, int]
    readers: Mapping[int, Sequence[tuple[int, int]]]

    @classmethod
    def of(cls, graph: LaunchGraph, order: Sequence[int]) -> _Ordered:
        computed = [node for node in order if graph.primitive[node] != MOVE]
        readers: dict[int, list[tuple[int, int]]] = {}
        for node, inputs in enumerate(graph.inputs):
            for turn, given in enumerate(inputs):
                if given != NO_NODE:
                    readers.setdefault(given, []).append((node, turn))
        return cls(
            graph=graph,
            order=order,
            place={node: turn for turn, node in enumerate(order)},
            computed=computed,
            place_computed={node: turn for turn, node in enumerate(computed)},
            readers=readers,
        )

    def ahead(self, copy: int, far: int) -> int | None:
        """So far ahead of the first reader of a copy, as a place among ``computed``; None where it is not tied."""
        reader = self._first_reader(copy)
        if reader is None or far + 1 > reader or self.order[reader] not in self.place_computed:
            return None
        return self.place_computed[self.order[reader]] - 1 - far

    def tie(self, copy: int, behind: int | None) -> _Tie | None:
        """``behind``: a place among ``computed``, negative in front of all."""
        if behind is None:
            return None
        least = self._least(copy)
        if behind < 0 or self.place[self.computed[behind]] < least:
            while self.graph.primitive[self.order[least]] == MOVE:
                least += 1
            behind = self.place_computed[self.order[least]]
        near = self.computed[behind : behind + 2]
        return _Tie(copy, *near) if len(near) > 1 else None

    def _first_reader(self, copy: int) -> int | None:
        first: int | None = None
        stack, seen = list(self.readers.get(copy, ())), set[tuple[int, int]]()
        while stack:
            user, turn = stack.pop()
            if (user, turn) in seen:
                continue
            seen.add((user, turn))
            if user in self.place:
                first = self.place[user] if first is None else min(first, self.place[user])
            elif self.graph.primitive[user] != DEPEND or turn == 0:
                stack += self.readers.get(user, ())
        return first

    def _least(self, copy: int) -> int:
        """Where the last kernel stands that what it copies waits for."""
        least, stack, seen = 0, [self.graph.inputs[copy][0]], set[int]()
        while stack:
            node = stack.pop()
            if node == NO_NODE or node in seen:
                continue
            seen.add(node)
            if node in self.place:
                least = max(least, self.place[node])
            elif self.graph.primitive[node] in (DEPEND, LOAD):
                stack += self.graph.inputs[node][:2]
            elif self.graph.primitive[node] == ITEM:
                stack.append(self._taken(node))
        return least

    def _taken(self, node: int) -> int:
        given = self.graph.inputs[node][0]
        if given != NO_NODE and self.graph.primitive[given] == TUPLE:
            values, item = self.graph.inputs[given], self.graph.item[node]
            return values[item] if 0 <= item < len(values) else NO_NODE
        return given
