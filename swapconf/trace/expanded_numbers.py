"""LAUNCH GRAPH of operators -> the same with numbers for those that lost theirs.

What MindSpore expands before it fuses has no number any more, as SiLU, Tile, and their gradients. Which of these belong
together follows from what is beside them: a gradient stands between those of the nodes that its operator stands
between. The parts of one gradient, as the sums in that of a Tile, stand in one scope beside one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from swapconf.trace.launch_graph import ITEM, NO_NODE, SAME_VALUE, LaunchGraph

_GRADIENT = "Grad_"  # begins the last part of the scope in which the gradient of a primitive is computed
_THROUGH = SAME_VALUE | {ITEM}


def with_numbers(graph: LaunchGraph) -> LaunchGraph:
    return _Numbers(graph).graph()


class _Numbers:
    """``beside``: by node those that it reads and that read it, also through what hands a value on."""

    def __init__(self, graph: LaunchGraph) -> None:
        self._old = graph
        self._scope = [name.rpartition("/")[0] for name in graph.name]
        self._lost = [
            node
            for node, cluster in enumerate(graph.cluster)
            if cluster != NO_NODE and not (graph.unique[node] or graph.forward_unique[node])
        ]
        self._beside: list[list[int]] = [[] for _ in range(len(graph))]
        for node, inputs in enumerate(graph.inputs):
            for given in inputs:
                source = self._through(given)
                if source != NO_NODE and graph.primitive[node] not in _THROUGH:
                    self._beside[node].append(source)
                    self._beside[source].append(node)

    def _through(self, node: int) -> int:
        while node != NO_NODE and self._old.primitive[node] in _THROUGH:
            node = self._old.inputs[node][0]
        return node

    def _primitive(self, node: int) -> str:
        """That whose gradient a node is part of, "" for no gradient."""
        last = self._scope[node].rpartition("/")[2]
        return last.removeprefix(_GRADIENT) if last.startswith(_GRADIENT) else ""

    def graph(self) -> LaunchGraph:
        number, forward = list(self._old.unique), list(self._old.forward_unique)
        known = self._operators()
        for part in self._parts():
            own = next((forward[node] for node in part if forward[node]), "")
            near = {forward[one] for node in part for one in self._beside[node] if one not in part} - {"", own}
            of_kind = known.get(self._primitive(part[0]), {})
            between = _nearest(of_kind, near)
            if between & near:
                name = own or f"{self._primitive(part[0])} of {', '.join(sorted(between))}"
                for node in part:
                    forward[node] = forward[node] or name
                for node in of_kind[between]:
                    number[node] = name
        return replace(self._old, unique=tuple(number), forward_unique=tuple(forward))

    def _operators(self) -> dict[str, dict[frozenset[str], list[int]]]:
        """By primitive the nodes of the forward pass that lost their numbers, by those of the nodes beside them."""
        found: dict[str, dict[frozenset[str], list[int]]] = {}
        for node in self._lost:
            if not self._primitive(node):
                near = frozenset(self._old.unique[one] for one in self._beside[node]) - {""}
                found.setdefault(self._old.primitive[node], {}).setdefault(near, []).append(node)
        return found

    def _parts(self) -> Iterator[list[int]]:
        """The nodes of each gradient that lost a number."""
        met = set[int]()
        for start in self._lost:
            if start in met or not self._primitive(start):
                continue
            part = [start]
            met.add(start)
            for node in part:  # grows
                for other in self._beside[node]:
                    if other not in met and self._scope[other] == self._scope[start]:
                        met.add(other)
                        part.append(other)
            yield part


def _nearest(known: Iterable[frozenset[str]], near: Set[str]) -> frozenset[str]:
    """Those that have most in common."""
    return max(known, key=lambda one: len(one & near), default=frozenset())
