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
from dataclasses import replace
from pathlib import Path

from swapconf.files.table_lines import Damage, lines
from swapconf.trace import func_graph_text
from swapconf.trace.func_graph_text import Argument, FuncGraph, FuncNode, Kind
from swapconf.trace.fused_kernels import FusedKernel, FusedOperator
from swapconf.trace.fused_names import (
    ENDS,
    EXPANDED,
    FORWARD_UNIQUE,
    INNER,
    UNIQUE,
    Called,
    called_by_name,
    ends_expansion,
    expansion,
    is_conversion,
    is_read_beside,
    with_ends,
    with_scopes,
)
from swapconf.trace.launch_graph import RETURN, TUPLE
from swapconf.trace.lone_casts_text import lone_casts
from swapconf.trace.tensor import Tensor
from swapconf.upstream.primitives import CAST

_FUSED = re.compile(r" *%\d+\(.*?\) = (?:PrimFunc_)?GraphKernel_\w+\(")
_FUNC_GRAPH = re.compile(r"[{ ]func_graph: ([^\s},]+)")
_NAME = re.compile(r" +# Fullname with scope: \((.*)\)")
_NARROW, _WIDE = "BFloat16", "Float32"
_IN_EXPANDED = re.compile(r"/expand_\w+(?=/|$)")


def read(last_graph: Path, printed: Iterable[Path], clustered: Iterable[Path]) -> dict[str, FusedKernel]:
    """By name of the kernel. ``printed``: of each graph that was fused, behind the last pass; ``clustered``: behind the
    one that chose what is fused. Raises SwapconfError where a file is damaged, and LookupError where a kernel is in
    none."""
    chosen: dict[str, dict[str, Called]] = {}
    for path in clustered:
        graphs = func_graph_text.read(path)
        chosen[graphs.entry] = {
            name: replace(called, graph=with_ends(called.graph)) for name, called in called_by_name(graphs).items()
        }
    inside: dict[str, FuncGraph] = {}
    for path in printed:
        graphs = func_graph_text.read(path)
        inside.update(with_scopes(called_by_name(graphs), chosen.get(graphs.entry, {})))
    opened: dict[str, FusedKernel] = {}
    found = dict(lone_casts(last_graph))
    for name, graph_name in graphs_of_kernels(last_graph):
        if graph_name not in opened:
            opened[graph_name] = kernel_of(inside[graph_name])
        found[name] = opened[graph_name]
    return found


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
        if node.primitive not in (RETURN, TUPLE) and (place in read or node.primitive != CAST)
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
    BFloat16 (its pass ConvertBFloat16), or at the end of what it expands an operator to (of Sigmoid, its
    ``expander``): an operator has the type again in which it was asked for."""
    outputs = set(_outputs(nodes))
    shown: dict[int, Argument] = {}
    made: dict[int, Tensor] = {}
    for place, node in enumerate(nodes):
        if not (is_conversion(node) or ends_expansion(nodes, place)) or len(node.made) != 1 or not node.given:
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
        mine = expansion(nodes[place])
        ends = {group[reader] for reader in readers.get(place, ()) if reader in group}
        is_inside = mine and len(ends) == 1 and place not in given_out
        end = next(iter(ends)) if is_inside else place
        group[place] = end if expansion(nodes[end]) == mine else place
    return group


def _operator(
    nodes: tuple[FuncNode, ...], members: list[int], group: Mapping[int, int], order: Mapping[int, int]
) -> FusedOperator:
    """``members``: places of the nodes of one operator."""
    last = nodes[members[-1]]
    sources = [_as_operators(item, group, order) for place in members for item in _read(nodes, place, members)]
    made = [tensor for tensor in last.made if tensor is not None]
    scope, _, own = last.name.rpartition("/")
    is_asked_for = ENDS in last.attributes or is_read_beside(nodes, members[-1])
    is_asked_for |= INNER not in last.attributes and _is_whole(nodes, members)
    primitive = last.attributes.get(EXPANDED, last.primitive) if is_asked_for else last.primitive
    return FusedOperator(
        name=f"{_IN_EXPANDED.sub('', scope)}/{own.replace(last.primitive, primitive, 1)}",
        primitive=primitive,
        arguments=tuple(sources if len(members) == 1 else dict.fromkeys(sources)),
        made=made[0] if len(made) == 1 else None,
        is_copy=any(nodes[place].attributes.get("duplicated") == "Bool(1)" for place in members),
        unique=_number(nodes, members, UNIQUE),
        forward_unique=_number(nodes, members, FORWARD_UNIQUE),
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
    mine = expansion(nodes[members[-1]])
    return mine is not None and len(members) == sum(expansion(node) == mine for node in nodes)
