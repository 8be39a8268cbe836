"""LAST GRAPH of a run without a strategy + EARLY GRAPHS + STRATEGY -> the last graph under it, without lazy inline.

Then forward and backward pass are one func graph, in which ``add_recomputation`` copies nodes, and nothing is called.
Behind that pass MindSpore changes nothing that a strategy has a part in, but for the form of single nodes. So the last
graph under a strategy is that of the run without, in which the copies are added and read by those that read them in
the early graph. Played are, on the graphs that the run without a strategy has in front of ``cse`` and of
``add_recomputation``, in MindSpore's order: `recompute_marks`, `kept_apart`, `add_recomputation`, `cse`, and on the
last graph `order_enforce`. Which node of the last graph is which of an early one, the numbers tell that MindSpore gives
nodes, and of nodes without their places among the inputs of such nodes (`tied`).

Compared with true runs: see `docs/explanation/the-order-of-launches.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from swapconf.decide.strategy import Strategy
from swapconf.trace.launch_graph import DEPEND, NO_NODE, STATE, TUPLE, LaunchGraph
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.lift.copied import copied
from swapconf.whatif.lift.func_graphs import MIRROR, VIRTUAL, CNode, EarlyGraph, Value, seen_through, sorted_from
from swapconf.whatif.passes.add_recomputation import add_recomputation
from swapconf.whatif.passes.cse import equal, merged
from swapconf.whatif.passes.kept_apart import keep_apart
from swapconf.whatif.passes.order_enforce import enforce_order
from swapconf.whatif.passes.recompute_marks import mark_step

_LEFT_OUT = frozenset({*VIRTUAL, MIRROR})  # not in the last graph, where its first input is read instead
_KEEP_TUPLES = frozenset({DEPEND, STATE, TUPLE})


class NotTied(ValueError):
    """A node of the early graph has no partner in the last graph."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BaselineStep:
    """A run without a strategy.

    Attributes:
        graph: The last graph.
        before, behind: The graphs in front of ``cse`` and of ``add_recomputation``, as they were printed.
        without: By node of ``before`` that ``cse`` merges the one that stays.
        node_of: By node of ``behind`` that of the last graph.
        own: Nodes of ``behind`` that read copies in the last graph: the model itself has some run again.
    """

    graph: LaunchGraph
    before: EarlyGraph
    behind: EarlyGraph
    without: Mapping[CNode, CNode]
    node_of: Mapping[CNode, int]
    own: frozenset[CNode]

    @classmethod
    def of(cls, graph: LaunchGraph, before: EarlyGraph, behind: EarlyGraph) -> BaselineStep:
        module, copy_of = copied(behind)
        add_recomputation(module)
        merged([module.graphs[module.entry]])
        node_of = tied(module, graph)
        own = (
            node
            for node, copy in copy_of.items()
            if copy.inputs != [copy_of[value] if isinstance(value, CNode) else value for value in node.inputs]
        )
        return cls(
            graph=graph,
            before=before,
            behind=behind,
            without=equal([before.graphs[before.entry]]),
            node_of={node: node_of[copy] for node, copy in copy_of.items() if copy in node_of},
            own=frozenset(own),
        )


class PlayedStep(NamedTuple):
    """The graph behind ``cse_after_recomputation`` under a strategy. ``printed``: by node of it that of
    `BaselineStep.behind`; ``origins``: by each other node what it is a copy of."""

    module: EarlyGraph
    printed: Mapping[CNode, CNode]
    origins: Mapping[CNode, CNode]


def played(baseline: BaselineStep, strategy: Strategy) -> PlayedStep:
    before, of_before = copied(baseline.before)
    behind, of_behind = copied(baseline.behind)
    mark_step(before, strategy)
    without = {of_before[node]: of_before[stays] for node, stays in baseline.without.items()}
    origins = keep_apart(before, behind, without, equal([before.graphs[before.entry]]))
    origins |= add_recomputation(behind)
    merged([behind.graphs[behind.entry]])
    return PlayedStep(behind, {copy: node for node, copy in of_behind.items()}, origins)


def last_graph(baseline: BaselineStep, strategy: Strategy) -> Nodes:
    """The last graph under a strategy. Raises NotTied, and ValueError where the strategy moves anything."""
    if strategy.lazy_inline or strategy.longest_prefetch:
        raise ValueError("what moves is not mirrored without lazy inline")
    return _Copies(baseline, played(baseline, strategy)).nodes()


def tied(early: EarlyGraph, last: LaunchGraph) -> dict[CNode, int]:
    """By node of the training step, behind ``add_recomputation``, that of the last graph."""
    nodes = [node for node in early.nodes() if node.graph.name == early.entry]
    in_early = Counter(_number(node) for node in nodes)
    numbers = list(zip(last.unique, last.forward_unique, strict=True))
    in_last = Counter(numbers)
    node_of = {number: node for node, number in enumerate(numbers) if any(number) and in_last[number] == 1}
    pairs = {
        node: node_of[_number(node)] for node in nodes if _number(node) in node_of and in_early[_number(node)] == 1
    }
    stack = list(pairs)
    while stack:
        node = stack.pop()
        for value, given in zip(_given(node), last.inputs[pairs[node]], strict=False):
            if isinstance(value, CNode) and given != NO_NODE and value not in pairs:
                pairs[value] = given
                stack.append(value)
    return pairs


def _number(node: CNode) -> tuple[str, str]:
    return node.unique, node.forward_unique


def _given(node: CNode) -> list[Value]:
    """What a node is given in the last graph: kernels are given tuples element by element."""
    values = [seen_through(value, _LEFT_OUT) for value in node.inputs]
    if node.primitive in _KEEP_TUPLES:
        return values
    return [element for value in values for element in _elements(value)]


def _elements(value: Value) -> list[Value]:
    if isinstance(value, CNode) and value.primitive == TUPLE:
        return [seen_through(element, _LEFT_OUT) for element in value.inputs]
    return [value]


class _Copies:
    def __init__(self, baseline: BaselineStep, step: PlayedStep) -> None:
        self._baseline, self._step = baseline, step
        self._nodes = Nodes(baseline.graph)
        self._made: dict[CNode, int] = {}

    def nodes(self) -> Nodes:
        module = self._step.module
        for node in sorted_from(module.graphs[module.entry].end):
            if node.graph.name != module.entry or node.primitive in _LEFT_OUT:
                continue
            first = self._first(node)
            if node not in self._step.printed:
                self._made[node] = self._new(node, first)
            elif first in self._baseline.own or self._reads_others(node, first):
                self._nodes.inputs[self._node(node)] = self._read(node, first)
        enforce_order(self._nodes, self._baseline.graph)
        return self._nodes

    def _first(self, node: CNode) -> CNode:
        while node in self._step.origins:
            node = self._step.origins[node]
        return self._step.printed.get(node, node)

    def _reads_others(self, node: CNode, first: CNode) -> bool:
        pairs = zip(_given(node), _given(first), strict=True)
        return not all(self._is_as_printed(value, before) for value, before in pairs)

    def _read(self, node: CNode, first: CNode) -> list[int]:
        """What a node, or a copy of it, is given."""
        given = self._baseline.graph.inputs[self._node(first)]
        is_own = first in self._baseline.own
        pairs = zip(_given(node), _given(first), given, strict=True)
        return [
            number if not is_own and self._is_as_printed(value, before) else self._value(value)
            for value, before, number in pairs
        ]

    def _is_as_printed(self, value: Value, before: Value) -> bool:
        return before is (self._step.printed.get(value) if isinstance(value, CNode) else value)

    def _value(self, value: Value) -> int:
        return self._node(value) if isinstance(value, CNode) else NO_NODE

    def _new(self, node: CNode, first: CNode) -> int:
        if first is node or node.primitive == TUPLE:
            return self._tuple(node)
        graph, origin = self._baseline.graph, self._node(first)
        given, item = self._read(node, first), int(graph.item[origin])
        return self._nodes.add(graph.primitive[origin], given, graph.name[origin], item, graph.fused[origin])

    def _tuple(self, node: CNode) -> int:
        """Also what waits for one."""
        return self._nodes.add(node.primitive, [self._value(value) for value in _given(node)])

    def _node(self, value: CNode) -> int:
        """Raises NotTied."""
        if value not in self._made:
            first = self._first(value)
            if first in self._baseline.node_of:
                return self._baseline.node_of[first]
            if value.primitive != TUPLE:
                raise NotTied(f"{value.primitive} {value.name} {value.scope}")
            self._made[value] = self._tuple(value)  # which kernels are given element by element
        return self._made[value]
