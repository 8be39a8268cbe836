"""GRAPH_BUILD_0_*.IR + FUNC GRAPHS -> FUSED KERNELS: which operators MindSpore made each fused kernel of.

A fused kernel of the last graph bears the name of the func graph that it was (``func_graph``). What MindSpore prints
behind the last pass that cuts fused kernels (``*_split_*_eliminate_redundant_output``) has these graphs, each operator
with its own scope; what it compiles later as a DVM kernel is the same, operator for operator (all of 2,400 fused
kernels of MindSpore 2.9.0), but has lost most scopes. An operator that MindSpore expanded, as SiLU to Neg, Exp, Add and
Div (``expand_from``), is one again here, unless it was cut in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from swapconf.files.table_lines import Damage, lines
from swapconf.trace import func_graph_text
from swapconf.trace.columns import FUSED
from swapconf.trace.func_graph_text import Argument, FuncGraph, FuncGraphs, FuncNode, Kind
from swapconf.trace.fused_kernels import FusedKernel, FusedOperator
from swapconf.trace.launch_graph import DEPEND, ITEM, RETURN, TUPLE
from swapconf.trace.lone_casts_text import lone_casts
from swapconf.trace.tensor import Tensor
from swapconf.trace.trace import without_number

_FUSED = re.compile(r" *%\d+\(.*?\) = (?:PrimFunc_)?GraphKernel_\w+\(")
_FUNC_GRAPH = re.compile(r"[{ ]func_graph: ([^\s},]+)")
_NAME = re.compile(r" +# Fullname with scope: \((.*)\)")
_CAST = "Cast"
_HANDS_ON = frozenset({DEPEND, ITEM})
_NARROW, _WIDE = "BFloat16", "Float32"
_EXPANDED = "expand_from"
_UNIQUE, _FORWARD_UNIQUE = "unique_id", "forward_unique_id"
_ENDS, _INNER = "ends the expansion", "is inside of the expansion"  # of an operator, as attributes of its nodes
_TOLD = _UNIQUE, _FORWARD_UNIQUE, _ENDS, _INNER
_IN_EXPANDED = re.compile(r"/expand_\w+(?=/|$)")


def read(last_graph: Path, printed: Iterable[Path], clustered: Iterable[Path]) -> dict[str, FusedKernel]:
    """By name of the kernel. ``printed``: of each graph that was fused, behind the last pass; ``clustered``: behind the
    one that chose what is fused. Raises SwapconfError where a file is damaged, and LookupError where a kernel is in
    none."""
    chosen: dict[str, dict[str, _Called]] = {}
    for path in clustered:
        graphs = func_graph_text.read(path)
        chosen[graphs.entry] = {
            name: replace(called, graph=_with_ends(called.graph)) for name, called in _called(graphs).items()
        }
    inside: dict[str, FuncGraph] = {}
    for path in printed:
        graphs = func_graph_text.read(path)
        inside.update(_with_scopes(_called(graphs), chosen.get(graphs.entry, {})))
    opened: dict[str, FusedKernel] = {}
    found = dict(lone_casts(last_graph))
    for name, graph_name in graphs_of_kernels(last_graph):
        if graph_name not in opened:
            opened[graph_name] = kernel_of(inside[graph_name])
        found[name] = opened[graph_name]
    return found


@dataclass(frozen=True, slots=True)
class _Called:
    """A graph that was fused. ``near``: names of the nodes beside its call that keep them."""

    graph: FuncGraph
    near: frozenset[str]


def _called(graphs: FuncGraphs) -> dict[str, _Called]:
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
        node.name: _Called(
            graphs.graphs[node.callee],
            frozenset(name for name in near.get(place, ()) if FUSED not in name and not _is_put_in(name)),
        )
        for place, node in enumerate(nodes)
        if node.callee in graphs.graphs
    }


def _is_put_in(name: str) -> bool:
    """By MindSpore, which may number it anew."""
    return name.count("/") <= 1 and not name.startswith("parameter ")


def _with_ends(graph: FuncGraph) -> FuncGraph:
    """What makes the output of an expanded operator is told from what does not, in case that it is cut from the rest."""
    inside = {
        item.number
        for node in graph.nodes
        if _expansion(node)
        for item in node.arguments
        if item.kind is Kind.NODE and _expansion(graph.nodes[item.number]) == _expansion(node)
    }
    marked = (
        node
        if _expansion(node) is None
        else replace(node, attributes={**node.attributes, _INNER if place in inside else _ENDS: ""})
        for place, node in enumerate(graph.nodes)
    )
    return replace(graph, nodes=tuple(marked))


def _with_scopes(called: Mapping[str, _Called], chosen: Mapping[str, _Called]) -> dict[str, FuncGraph]:
    """By name of a graph that was fused. MindSpore makes kernels anew where it simplifies or cuts them, and their nodes
    lose their scopes: each has that of one of its kind among those that were chosen for its kernel. Kernels are told by
    their names, else by what is beside them, else by their order among those of the same operators, and what was cut by
    its order among the rest."""
    left = {name: _Names(one.graph.nodes) for name, one in chosen.items()}
    found = {one.graph.name: left[name].given_to(one.graph) for name, one in called.items() if name in chosen}
    others = {name: one for name, one in called.items() if name not in chosen}
    rest = {name: one for name, one in chosen.items() if name not in called}
    for name, one in others.items():
        near = max(rest, key=partial(_likeness, rest, one, name), default="")
        if near and one.near & rest[near].near:
            found[one.graph.name] = left[near].given_to(one.graph)
    cut = _Names(node for name in rest for node in left[name].rest())
    for name, one in others.items():
        if one.graph.name not in found:
            anew = next((other for other in rest if without_number(other) == without_number(name)), None)
            if anew is not None:
                del rest[anew]
            found[one.graph.name] = (cut if anew is None else left[anew]).given_to(one.graph)
    return found


def _likeness(chosen: Mapping[str, _Called], one: _Called, name: str, other: str) -> tuple[int, bool]:
    """How much is beside both; then whether they have the same operators."""
    return len(one.near & chosen[other].near), without_number(name) == without_number(other)


class _Names:
    """What nodes are named and numbered, each to be given once."""

    def __init__(self, chosen: Iterable[FuncNode]) -> None:
        self._left: dict[tuple[str, str], list[FuncNode]] = {}
        for node in chosen:
            self._left.setdefault(_kind(node), []).append(node)

    def rest(self) -> Iterator[FuncNode]:
        for nodes in self._left.values():
            yield from nodes

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
        if not left or not _is_lost(node) or _is_conversion(node):
            return node
        return _told(node, left.pop(0))


def _told(node: FuncNode, chosen: FuncNode) -> FuncNode:
    told = {key: chosen.attributes[key] for key in _TOLD if key in chosen.attributes}
    return replace(node, name=chosen.name, attributes={**node.attributes, **told})


def _kind(node: FuncNode) -> tuple[str, str]:
    return node.primitive, node.attributes.get(_EXPANDED, "")


def _is_lost(node: FuncNode) -> bool:
    return node.name.count("/") <= 1


def _is_conversion(node: FuncNode) -> bool:
    """Whether MindSpore put it in as a cast: one that was asked for tells what it makes in the model."""
    return node.primitive == _CAST and _is_lost(node) and "IsFeatureMapOutput" not in node.attributes


def graphs_of_kernels(last_graph: Path) -> Iterator[tuple[str, str]]:
    """(name of a fused kernel, the func graph that it was). Raises SwapconfError."""
    graph, is_fused = "", False
    for _, text in lines(last_graph, Damage(last_graph)):
        is_fused |= bool(_FUSED.match(text))
        if is_fused and (match := _FUNC_GRAPH.search(text)):
            graph = match[1]
        elif is_fused and (match := _NAME.fullmatch(text)):
            if graph:
                yield match[1], graph
            graph, is_fused = "", False


def kernel_of(graph: FuncGraph) -> FusedKernel:
    """The operators of a func graph that became a fused kernel."""
    nodes = _without_conversions(graph.nodes)
    outputs = _outputs(nodes)
    read = {item.number for node in nodes for item in node.arguments if item.kind is Kind.NODE}
    body = [
        place
        for place, node in enumerate(nodes)
        if node.primitive not in (RETURN, TUPLE) and (place in read or node.primitive != _CAST)
    ]
    group = _expanded(nodes, body, outputs)
    order = {end: index for index, end in enumerate(sorted(set(group.values())))}
    members: dict[int, list[int]] = {}
    for place in body:
        members.setdefault(group[place], []).append(place)
    return FusedKernel(
        operators=tuple(_operator(nodes, members[end], group, order) for end in order),
        outputs=tuple(order[group[place]] for place in outputs),
    )


def _without_conversions(nodes: tuple[FuncNode, ...]) -> tuple[FuncNode, ...]:
    """Nobody reads the casts any more that MindSpore puts around what it computes in Float32, as the vector unit has no
    BFloat16 (its pass ConvertBFloat16): an operator has the type again in which it was asked for."""
    outputs = set(_outputs(nodes))
    shown: dict[int, Argument] = {}
    made: dict[int, Tensor] = {}
    for place, node in enumerate(nodes):
        if not _is_conversion(node) or len(node.made) != 1 or not node.given:
            continue
        (source, *_), (given, *_), (result,) = node.arguments, node.given, node.made
        if given is None or result is None:
            continue
        types = given.dtype, result.dtype
        if types == (_NARROW, _WIDE) and place not in outputs:
            shown[place] = shown.get(source.number, source) if source.kind is Kind.NODE else source
        elif types == (_WIDE, _NARROW) and source.kind is Kind.NODE and source.number not in outputs:
            shown[place] = source
            made[source.number] = result
    return tuple(
        replace(
            node,
            arguments=tuple(
                shown.get(item.number, item) if item.kind is Kind.NODE else item for item in node.arguments
            ),
            made=(made[place],) if place in made else node.made,
        )
        for place, node in enumerate(nodes)
    )


def _outputs(nodes: tuple[FuncNode, ...]) -> list[int]:
    """Places of the nodes that the graph returns."""
    found = [item.number for item in nodes[-1].arguments if item.kind is Kind.NODE]
    if len(found) == 1 and nodes[found[0]].primitive == TUPLE:
        return [item.number for item in nodes[found[0]].arguments if item.kind is Kind.NODE]
    return found


def _expanded(nodes: tuple[FuncNode, ...], body: Iterable[int], outputs: Iterable[int]) -> dict[int, int]:
    """By place the operator that a node belongs to, as a number: its own place, or that of the last node of what was
    expanded, where nobody but such nodes reads the others."""
    readers: dict[int, set[int]] = {}
    for place, node in enumerate(nodes):
        for item in node.arguments:
            if item.kind is Kind.NODE:
                readers.setdefault(item.number, set()).add(place)
    given_out = set(outputs)
    group: dict[int, int] = {}
    for place in sorted(body, reverse=True):
        mine = _expansion(nodes[place])
        ends = {group[reader] for reader in readers.get(place, ()) if reader in group}
        is_inside = mine and len(ends) == 1 and place not in given_out
        end = next(iter(ends)) if is_inside else place
        group[place] = end if _expansion(nodes[end]) == mine else place
    return group


def _expansion(node: FuncNode) -> tuple[str, str] | None:
    """What a node was expanded from, and where."""
    expanded = node.attributes.get(_EXPANDED)
    return (expanded, node.name.rpartition("/")[0]) if expanded else None


def _operator(
    nodes: tuple[FuncNode, ...], members: list[int], group: Mapping[int, int], order: Mapping[int, int]
) -> FusedOperator:
    """``members``: places of the nodes of one operator."""
    last = nodes[members[-1]]
    sources = [_as_operators(item, group, order) for place in members for item in _read(nodes, place, members)]
    made = [tensor for tensor in last.made if tensor is not None]
    scope, _, own = last.name.rpartition("/")
    is_asked_for = _ENDS in last.attributes or (_INNER not in last.attributes and _is_whole(nodes, members))
    primitive = last.attributes.get(_EXPANDED, last.primitive) if is_asked_for else last.primitive
    return FusedOperator(
        name=f"{_IN_EXPANDED.sub('', scope)}/{own.replace(last.primitive, primitive, 1)}",
        primitive=primitive,
        arguments=tuple(sources if len(members) == 1 else dict.fromkeys(sources)),
        made=made[0] if len(made) == 1 else None,
        is_copy=any(nodes[place].attributes.get("duplicated") == "Bool(1)" for place in members),
        unique=_number(nodes, members, _UNIQUE),
        forward_unique=_number(nodes, members, _FORWARD_UNIQUE),
    )


def _read(nodes: tuple[FuncNode, ...], place: int, members: list[int]) -> Iterator[Argument]:
    """What a node of an operator reads that is none of the same."""
    for item in nodes[place].arguments:
        if item.kind is not Kind.NODE or item.number not in members:
            yield item


def _as_operators(item: Argument, group: Mapping[int, int], order: Mapping[int, int]) -> Argument:
    return Argument(Kind.NODE, order[group[item.number]]) if item.kind is Kind.NODE else item


def _number(nodes: tuple[FuncNode, ...], members: list[int], key: str) -> str:
    return next((found for place in members if (found := nodes[place].attributes.get(key))), "")


def _is_whole(nodes: tuple[FuncNode, ...], members: list[int]) -> bool:
    """Whether these are all nodes of the graph that were expanded from one operator."""
    mine = _expansion(nodes[members[-1]])
    return mine is not None and len(members) == sum(_expansion(node) == mine for node in nodes)
