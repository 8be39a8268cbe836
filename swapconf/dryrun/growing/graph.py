"""LAUNCH GRAPH of a run + RULES -> LAUNCH GRAPH of the whole model: its nodes, copies of layers among them.

A node of a copied layer reads what is at its own turn, any other one what comes first or last, or one of each layer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import numpy as np

from swapconf.dryrun.growing.graph_rules import Cut, Rule, Rules, Seen
from swapconf.dryrun.growing.layers import Numbering, Operators, layer_in, with_layer
from swapconf.dryrun.growing.numbers import Labels
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.unrolled import NONE, Unrolled
from swapconf.trace.launch_graph import NO_NODE, LaunchGraph
from swapconf.trace.postorder import printed
from swapconf.words.phrases import phrase


def grown_graph(
    graph: LaunchGraph,
    rules: Rules,
    nodes: Unrolled,
    numbering: Numbering,
    labels: Sequence[Labels],
    kernels: Mapping[int, str],
    ran: Iterable[str],
) -> LaunchGraph:
    """``nodes``: of the graph with more copies. ``labels``: by new node. ``kernels``: by new node the name of the
    kernel that it is in the grown trace; ``ran``: names of all kernels of that. Raises CannotGrow."""
    source, turn, sees = nodes.source.tolist(), nodes.beside.tolist(), _Sees(nodes, rules)
    chosen = [rules.by_node[row] for row in source]
    inputs = tuple(
        tuple(sees.all_of(graph.inputs[row], rule, at)) for row, rule, at in zip(source, chosen, turn, strict=True)
    )
    item = [
        int(graph.item[row]) + rule.step * nodes.more + rule.own_step * max(copy, 0)
        if rule.taken is None
        else sees.item(graph.inputs[graph.inputs[row][0]][graph.item[row]], rule.taken, at, inputs[inputs[node][0]])
        for node, (row, rule, copy, at) in enumerate(zip(source, chosen, nodes.copy.tolist(), turn, strict=True))
    ]
    end = int(nodes.natural[graph.end])
    if printed(inputs, end) != [*range(len(source))]:
        raise CannotGrow(phrase("MindSpore would print the nodes of the repeated graph in another order"))
    _check_layers(inputs, nodes, {int(nodes.natural[node]) for node in rules.ends})
    return LaunchGraph(
        name=_names(graph, nodes, numbering, kernels, ran),
        primitive=tuple(graph.primitive[row] for row in source),
        inputs=inputs,
        item=np.array(item, dtype=np.int64),
        unique=tuple(own for own, *_ in labels),
        forward_unique=tuple(forward for _, forward, *_ in labels),
        fused=tuple(graph.fused[row] for row in source),
        end=end,
        of_function=frozenset(node for node, row in enumerate(source) if row in graph.of_function),
    )


def _check_layers(inputs: Sequence[Sequence[int]], nodes: Unrolled, ends: Container[int]) -> None:
    """Raises CannotGrow where a layer does not read what the next one reads, a period before: copies of something odd
    would not be like the layers around them. ``ends``: what only the first or the last ones read."""
    period = nodes.period[nodes.source].tolist()
    length = [item.length for item in nodes.periods]
    for node, number in enumerate(period):
        twin = node + length[number] if number >= 0 else len(period)
        if twin >= len(period) or period[twin] != number:
            continue
        for given, other in zip(inputs[node], inputs[twin], strict=False):
            if given == other:
                is_alike = given not in ends
            elif min(given, other) == NO_NODE or NONE in (period[given], period[other]):
                is_alike = True  # also of what is the first or the last of its kind
            elif other - given == twin - node:
                is_alike = True  # also across the border of two rows
            else:
                is_alike = period[given] == period[other] and abs(other - given) == length[period[given]]
            if not is_alike:
                raise CannotGrow(phrase("layers of the repeated graph are not alike (node {node})", node=node))


def _names(
    graph: LaunchGraph, nodes: Unrolled, numbering: Numbering, kernels: Mapping[int, str], ran: Iterable[str]
) -> tuple[str, ...]:
    """Kernels have theirs; of the others, what was there keeps its number among its operators."""
    turn, twin = nodes.turn(nodes.source, nodes.copy).tolist(), nodes.twin.tolist()
    source, operators = nodes.source.tolist(), Operators(set(ran))
    found = [""] * len(source)
    for node in np.argsort(nodes.copy > 0, kind="stable").tolist():
        row, at = source[node], turn[node]
        name = graph.name[row]
        layer = layer_in(name)
        if layer >= 0:
            moves = at >= 0 and numbering.holds(layer) and layer_in(graph.name[twin[row]]) != layer
            name = with_layer(name, numbering.at(layer, at) if moves else numbering.natural(layer))
        found[node] = kernels[node] if node in kernels else operators.own(name)
    return tuple(found)


class _Sees:
    """Where in the new graph each node stands at each turn."""

    def __init__(self, nodes: Unrolled, rules: Rules) -> None:
        self._last = nodes.more
        self._natural: list[int] = nodes.natural.tolist()
        self._at: list[list[int]] = [nodes.shown(turn).tolist() for turn in range(nodes.more + 1)]
        for node, end in rules.ends.items():
            for turn in range(nodes.more):
                if end.is_first:
                    self._at[turn + 1][node] = self._at[turn][end.next]
                else:
                    self._at[turn][node] = self._at[turn + 1][end.next]

    def all_of(self, inputs: Sequence[int], rule: Rule, turn: int) -> Iterator[int]:
        """What a node at a turn reads instead of ``inputs``."""
        turns = self._turns(turn)
        pairs = [*zip(inputs[: rule.alike], rule.seen, strict=True)]
        here = 0
        for cut in (*rule.cuts, Cut(len(pairs), 0, is_upwards=True)):
            yield from (self._shown(given, seen, turns) for given, seen in pairs[here : cut.stop])
            for copy in range(1, self._last + 1):
                at = dict.fromkeys(turns, copy if cut.is_upwards else self._last - copy)
                yield from (self._shown(given, seen, at) for given, seen in pairs[cut.stop - cut.length : cut.stop])
            here = cut.stop
        if rule.alike is not None:
            yield from dict.fromkeys(shown[given] for given in inputs[rule.alike :] for shown in self._at)

    def item(self, given: int, seen: Seen, turn: int, values: Sequence[int]) -> int:
        """Where among ``values`` that is which a node at a turn takes instead of ``given``."""
        return values.index(self._shown(given, seen, self._turns(turn)))

    def _turns(self, own: int) -> dict[Seen, int]:
        return {Seen.FIRST: 0, Seen.LAST: self._last, Seen.OWN: own}

    def _shown(self, given: int, seen: Seen, turns: Mapping[Seen, int]) -> int:
        if given == NO_NODE:
            return NO_NODE
        return self._natural[given] if seen is Seen.SAME else self._at[turns[seen]][given]
