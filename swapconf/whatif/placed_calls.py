"""LAST GRAPH + CALLS of a run without a strategy -> where each call stands in the graph, and what it is given there.

Each call of a micro-batch (`backend.LoweredCalls`) is found from what it returns on, node by node: its parameters are
then what stands in their places in the graph, in front of the call's *barrier*, a copy of a constant that waits for the
call before. First stages of pipelines call several forward passes before the first backward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE, TUPLE, LaunchGraph
from swapconf.whatif.passes.backend import COPY, Given, Lowered, LoweredCalls, Ref


class NotTheSameGraph(ValueError):
    """The calls of the early graph are not those of the last graph."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedCall:
    """A micro-batch in the last graph.

    Attributes:
        saved: The tuple that the forward pass hands on; ``gradients``: what the backward pass returns.
        barrier, backward_barrier: What the two wait for; NO_NODE for the first call of a step.
        given, backward_given: By parameter the value in front of the barrier.
        nodes: By node of the calls that of the graph. ``is_taken``: the last saved value is taken out of the tuple.
    """

    saved: int
    gradients: int
    barrier: int
    backward_barrier: int
    given: Mapping[Given, int]
    backward_given: Mapping[Given, int]
    nodes: Mapping[Lowered, int]
    is_taken: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class BaselineCalls:
    """``is_pipelined``: results of micro-batches are taken out of the tuple, too, as the loss of each counts."""

    graph: LaunchGraph
    calls: LoweredCalls
    placed: Sequence[PlacedCall]
    is_pipelined: bool

    @classmethod
    def of(cls, graph: LaunchGraph, calls: LoweredCalls, *, is_pipelined: bool) -> BaselineCalls:
        """Raises NotTheSameGraph."""
        barriers = _barriers(graph)
        awaited = {barrier: graph.inputs[graph.inputs[barrier][0]][1] for barrier in barriers}
        placed = [
            _placed(graph, calls, node, tuple(barriers))
            for node in awaited.values()
            if graph.primitive[node] == TUPLE and len(graph.inputs[node]) == len(handed_on(calls))
        ]
        if not placed:
            raise NotTheSameGraph("no call of the graph hands on as many values")
        return cls(graph=graph, calls=calls, placed=placed, is_pipelined=is_pipelined)


def saved_outputs(graph: LaunchGraph) -> frozenset[tuple[str, int]]:
    """Of kernels with several outputs the primitives and outputs that forward passes hand on."""
    found = set[tuple[str, int]]()
    for barrier in _barriers(graph):
        for value in graph.inputs[graph.inputs[graph.inputs[barrier][0]][1]]:
            if value != NO_NODE and graph.primitive[value] == ITEM and graph.inputs[value][0] != NO_NODE:
                found.add((graph.primitive[graph.inputs[value][0]], int(graph.item[value])))
    return frozenset(found)


def _barriers(graph: LaunchGraph) -> list[int]:
    def is_barrier(node: int) -> bool:
        tie = graph.inputs[node][0] if graph.primitive[node] == COPY and graph.inputs[node] else NO_NODE
        if tie == NO_NODE or graph.primitive[tie] != DEPEND or len(graph.inputs[tie]) < 2:
            return False
        return graph.inputs[tie][0] == NO_NODE and graph.inputs[tie][1] != NO_NODE

    return [node for node in range(len(graph)) if is_barrier(node)]


def results(calls: LoweredCalls) -> list[Ref]:
    """What a forward pass returns: the elements of a tuple, as it is handed on with what is saved."""
    result = calls.result
    return list(result.inputs) if isinstance(result, Lowered) and result.primitive == TUPLE else [result]


def handed_on(calls: LoweredCalls) -> list[Ref]:
    return [*results(calls), *(value for value, _ in calls.saved)]


def _backward_barrier(graph: LaunchGraph, saved: int, barriers: Sequence[int]) -> int:
    """That to which most values are tied that are taken out of a tuple: first stages of pipelines call several forward
    passes before the first backward pass."""
    tied = Counter(
        inputs[1]
        for node, inputs in enumerate(graph.inputs)
        if graph.primitive[node] == DEPEND
        and len(inputs) > 1
        and inputs[1] in barriers
        and inputs[0] != NO_NODE
        and graph.primitive[inputs[0]] == ITEM
        and graph.inputs[inputs[0]][0] == saved
    )
    if not tied:
        raise NotTheSameGraph("no backward pass takes values of a forward pass")
    return tied.most_common(1)[0][0]


def _placed(graph: LaunchGraph, calls: LoweredCalls, saved: int, barriers: Sequence[int]) -> PlacedCall:
    barrier, values = _backward_barrier(graph, saved, barriers), handed_on(calls)
    forward = min(
        (
            _Match(graph, before, barriers).of(zip(values, graph.inputs[saved], strict=True))
            for before in (NO_NODE, *barriers)
        ),
        key=lambda match: match.unlike,
    )
    ends = (
        node
        for node in range(len(graph))
        if isinstance(calls.gradients, Lowered)
        and graph.primitive[node] == calls.gradients.primitive
        and len(graph.inputs[node]) == len(calls.gradients.inputs)
        and node != saved
    )
    matches = {end: _Match(graph, barrier, barriers).of([(calls.gradients, end)]) for end in ends}
    if not matches:
        raise NotTheSameGraph("no node of the graph is what a backward pass returns")
    end = max(matches, key=lambda node: (len(matches[node].nodes) - 3 * matches[node].unlike, -node))
    backward = matches[end]
    if forward.unlike or backward.unlike:
        raise NotTheSameGraph(f"{forward.unlike} and {backward.unlike} nodes of a call are others")
    ties = (backward.ties[key] for _, key in reversed(calls.saved) if key in backward.ties)
    last = graph.inputs[next(ties)][0]
    return PlacedCall(
        saved=saved,
        gradients=end,
        barrier=forward.barrier,
        backward_barrier=barrier,
        given=forward.given,
        backward_given=backward.given,
        nodes=forward.nodes | backward.nodes,
        is_taken=last != NO_NODE and graph.primitive[last] == ITEM and graph.inputs[last][0] == saved,
    )


@dataclass(eq=False)
class _Match:
    """A call and its nodes in the graph. ``ties``: by what it is given the Depend on the barrier."""

    graph: LaunchGraph
    barrier: int
    barriers: Sequence[int]
    given: dict[Given, int] = field(default_factory=dict)
    ties: dict[Given, int] = field(default_factory=dict)
    nodes: dict[Lowered, int] = field(default_factory=dict)
    unlike: int = 0

    def of(self, pairs: Iterable[tuple[Ref, int]]) -> _Match:
        stack = list(pairs)
        while stack:
            ref, node = stack.pop()
            if isinstance(ref, Given):
                self._bind(ref, node)
            elif ref is None or node == NO_NODE:
                self.unlike += (ref is None) != (node == NO_NODE)
            elif ref in self.nodes:
                self.unlike += self.nodes[ref] != node
            elif ref.primitive != self.graph.primitive[node]:
                self.unlike += 1
            else:
                self.nodes[ref] = node
                others = self.graph.inputs[node]
                if len(ref.inputs) == len(others):
                    stack += [pair for pair in zip(ref.inputs, others, strict=True) if pair != (None, NO_NODE)]
                else:
                    self.unlike += 1
        return self

    def _bind(self, given: Given, node: int) -> None:
        graph = self.graph
        is_tie = node != NO_NODE and graph.primitive[node] == DEPEND and len(graph.inputs[node]) > 1
        if is_tie and graph.inputs[node][1] in self.barriers:
            if graph.inputs[node][1] != self.barrier:
                self.unlike += 1
                return
            self.ties[given] = node
            node = graph.inputs[node][0]
        self.unlike += self.given.setdefault(given, node) != node
