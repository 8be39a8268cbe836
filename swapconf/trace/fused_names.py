"""NODES of fused kernels -> their names: what MindSpore made anew, or cut, is called as it was when it was chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from swapconf.trace.columns import FUSED
from swapconf.trace.func_graph_text import FuncGraph, FuncGraphs, FuncNode, Kind
from swapconf.trace.launch_graph import DEPEND, ITEM, RETURN, TUPLE
from swapconf.trace.trace import without_number
from swapconf.upstream.primitives import CAST

EXPANDED = "expand_from"
UNIQUE, FORWARD_UNIQUE = "unique_id", "forward_unique_id"
ENDS, INNER = "ends the expansion", "is inside of the expansion"  # of an operator, as attributes of its nodes
_TOLD = UNIQUE, FORWARD_UNIQUE, ENDS, INNER
_HANDS_ON = frozenset({DEPEND, ITEM})


@dataclass(frozen=True, slots=True)
class Called:
    """A graph that was fused. ``near``: names of nodes beside its call that keep them; ``beside``: of other calls."""

    graph: FuncGraph
    near: frozenset[str]
    beside: frozenset[str]


def called_by_name(graphs: FuncGraphs) -> dict[str, Called]:
    """By name of a call of the graph that was fused what it calls."""
    nodes = graphs.graphs[graphs.entry].nodes
    near: dict[int, set[str]] = {}
    source: dict[int, int] = {}
    for place, node in enumerate(nodes):
        for item in node.arguments:
            if item.kind is Kind.PARAMETER:
                near.setdefault(place, set()).add(f"parameter {item.number}")
            elif item.kind is Kind.NODE:
                given = source.get(item.number, item.number)
                near.setdefault(place, set()).add(nodes[given].name)
                near.setdefault(given, set()).add(node.name)
        if node.primitive in _HANDS_ON and node.arguments and node.arguments[0].kind is Kind.NODE:
            source[place] = source.get(node.arguments[0].number, node.arguments[0].number)
    return {
        node.name: Called(
            graphs.graphs[node.callee],
            frozenset(name for name in near.get(place, ()) if FUSED not in name and not _is_put_in(name)),
            frozenset(name for name in near.get(place, ()) if FUSED in name),
        )
        for place, node in enumerate(nodes)
        if node.callee in graphs.graphs
    }


def _is_put_in(name: str) -> bool:
    """By MindSpore, which may number it anew."""
    return name.count("/") <= 1 and not name.startswith("parameter ")


def with_ends(graph: FuncGraph) -> FuncGraph:
    """What makes the output of an expanded operator is told from the rest, in case that it is cut from that."""
    inside = {
        item.number
        for node in graph.nodes
        if expansion(node)
        for item in node.arguments
        if item.kind is Kind.NODE and expansion(graph.nodes[item.number]) == expansion(node)
    }
    marked = (
        node
        if expansion(node) is None
        else replace(node, attributes={**node.attributes, INNER if place in inside else ENDS: ""})
        for place, node in enumerate(graph.nodes)
    )
    return replace(graph, nodes=tuple(marked))


def with_scopes(called: Mapping[str, Called], chosen: Mapping[str, Called]) -> dict[str, FuncGraph]:
    """By name of a graph that was fused. MindSpore makes kernels anew where it simplifies or cuts them, and their nodes
    lose their scopes: each has that of one of its kind among those that were chosen for its kernel. Kernels are told by
    their names, else by what is beside them, be it another one that was cut from the same, else by their order among
    those of the same operators, and what was cut by its order among the rest."""
    return _Scopes(called, chosen).given()


class _Scopes:
    """``left``: by name of a chosen kernel what its nodes are called; ``rest``: those that were made anew, ``others``:
    as what; ``near``: by name of either what is beside it, kernels that were left as they were chosen among them;
    ``cluster``: by name of one made anew the chosen one that it was in; ``found``: by graph."""

    def __init__(self, called: Mapping[str, Called], chosen: Mapping[str, Called]) -> None:
        self._left = {name: _Names(one.graph.nodes) for name, one in chosen.items()}
        self._rest = {name: one for name, one in chosen.items() if name not in called}
        self._others = {name: one for name, one in called.items() if name not in chosen}
        names = called.keys() & chosen.keys()
        self._near = {
            name: one.near | (one.beside & names) for name, one in (*self._rest.items(), *self._others.items())
        }
        self._cluster: dict[str, str] = {}
        kept = {name: called[name].graph for name in called if name in names}
        self._found = {graph.name: self._left[name].given_to(graph) for name, graph in kept.items()}

    def given(self) -> dict[str, FuncGraph]:
        for name, one in self._others.items():
            if near := self._beside(name, one):
                self._give(name, near)
        while following := next(self._cut_from_known(), None):
            self._give(*following)
        self._in_order()
        return self._found

    def _give(self, name: str, near: str) -> None:
        self._cluster[name] = near
        graph = self._others[name].graph
        self._found[graph.name] = self._left[near].given_to(graph)

    def _beside(self, name: str, one: Called) -> str:
        """The one of those beside the same nodes that has names for most operators; then beside most; then of the same
        operators."""

        shared = {other: len(self._near[name] & self._near[other]) for other in self._rest}

        def likeness(other: str) -> tuple[int, int, bool]:
            is_alike = without_number(name) == without_number(other)
            return self._left[other].count(one.graph), shared[other], is_alike

        return max((other for other, count in shared.items() if count), key=likeness, default="")

    def _cut_from_known(self) -> Iterator[tuple[str, str]]:
        """Kernels beside those that are known, of whose operators some are still left there, with what was chosen."""
        for name, one in self._others.items():
            if name not in self._cluster:
                beside = sorted({self._cluster[other] for other in one.beside if other in self._cluster})
                known = max(beside, key=lambda near: self._left[near].count(one.graph), default="")
                if known and self._left[known].count(one.graph):
                    yield name, known

    def _in_order(self) -> None:
        cut = _Names(node for name in self._rest for node in self._left[name].rest())
        for name, one in self._others.items():
            if one.graph.name not in self._found:
                anew = next((other for other in self._rest if without_number(other) == without_number(name)), None)
                if anew is not None:
                    del self._rest[anew]
                self._found[one.graph.name] = (cut if anew is None else self._left[anew]).given_to(one.graph)


class _Names:
    """What nodes are named and numbered, each to be given once."""

    def __init__(self, chosen: Iterable[FuncNode]) -> None:
        self._left: dict[tuple[str, str], list[FuncNode]] = {}
        for node in chosen:
            self._left.setdefault(_kind(node), []).append(node)

    def rest(self) -> Iterator[FuncNode]:
        for nodes in self._left.values():
            yield from nodes

    def count(self, graph: FuncGraph) -> int:
        """How many nodes of a graph have lost their scopes, and may have one of these."""
        lost = (node for node in graph.nodes if _is_lost(node) and not is_conversion(node))
        return sum(bool(self._left.get(_kind(node))) for node in lost)

    def given_to(self, graph: FuncGraph) -> FuncGraph:
        kept: dict[int, FuncNode] = {}
        for place, node in enumerate(graph.nodes):
            left = self._left.get(_kind(node), [])
            same = next((other for other in left if other.name == node.name), None)
            if same is not None:
                left.remove(same)
                kept[place] = _told(node, same)
        return replace(
            graph, nodes=tuple(kept.get(place) or self._named(node) for place, node in enumerate(graph.nodes))
        )

    def _named(self, node: FuncNode) -> FuncNode:
        left = self._left.get(_kind(node))
        if not left or not _is_lost(node) or is_conversion(node):
            return node
        return _told(node, left.pop(0))


def _told(node: FuncNode, chosen: FuncNode) -> FuncNode:
    told = {key: chosen.attributes[key] for key in _TOLD if key in chosen.attributes}
    return replace(node, name=chosen.name, attributes={**node.attributes, **told})


def _kind(node: FuncNode) -> tuple[str, str]:
    return node.primitive, node.attributes.get(EXPANDED, "")


def _is_lost(node: FuncNode) -> bool:
    return node.name.count("/") <= 1


def is_read_beside(nodes: Sequence[FuncNode], place: int) -> bool:
    """Whether it makes what an operator was expanded to, but for a Cast, and what computes something else reads it."""
    mine = expansion(nodes[place])
    if mine is None:
        return False
    readers = [node for node in nodes if any(item == (Kind.NODE, place, "") for item in node.arguments)]
    inner = [node for node in readers if expansion(node) == mine]
    others = [node for node in readers if expansion(node) != mine and node.primitive not in (RETURN, TUPLE)]
    return bool(others) and all(node.primitive == CAST for node in inner)


def ends_expansion(nodes: Sequence[FuncNode], place: int) -> bool:
    """Whether it is the Cast at the end of what an operator was expanded to, beside which others read the same."""
    node = nodes[place]
    source = node.arguments[0] if node.primitive == CAST and node.arguments else None
    return (
        source is not None
        and source.kind is Kind.NODE
        and expansion(node) == expansion(nodes[source.number])
        and is_read_beside(nodes, source.number)
    )


def is_conversion(node: FuncNode) -> bool:
    """Whether MindSpore put it in as a cast: one that was asked for tells what it makes in the model."""
    return node.primitive == CAST and _is_lost(node) and "IsFeatureMapOutput" not in node.attributes


def expansion(node: FuncNode) -> tuple[str, str] | None:
    """What a node was expanded from, and where."""
    expanded = node.attributes.get(EXPANDED)
    return (expanded, node.name.rpartition("/")[0]) if expanded else None
