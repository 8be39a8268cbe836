"""EARLY GRAPH + STRATEGY -> MARKS: what a strategy has set on primitives and cells before MindSpore compiles.

Source: MindSpore, ``Cell.offload``, ``Primitive._offload`` and ``Cell.recompute`` (``nn/cell.py``), and `StepReplaceOp`
(``frontend/parallel/step_parallel.cc``), which hands marks on to what parallelism puts in the place of an operator. Of a
node the scope tells the cell, and the instance name the operator; read are these, and changed the attributes ``offload``
and ``backward_prefetch`` of forward passes. Which cell runs again no node tells, but each has a func graph of its own.

What parallelism puts in the place of an operator has the name ``redistribution_op_`` and a hash, and the scope and
mostly the primitive of that operator. What it puts between two operators, or behind one (``forward_op_``), has no marks
before `offload` hands them on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from swapconf.decide.strategy import LayerStrategy, Recompute, Strategy, Swap
from swapconf.models.cells import KEY_NORM, QUERY_NORM
from swapconf.models.network import Operator
from swapconf.trace.launch_graph import ITEM, LOAD
from swapconf.upstream.scopes import EXTRA_BLOCK, GRADIENTS, Place, descends, place_of
from swapconf.upstream.primitives import RESHAPE
from swapconf.whatif.lift.func_graphs import OFFLOAD, PREFETCH, VIRTUAL, CNode, EarlyFuncGraph, EarlyGraph, Parameter

_PUT_IN, _BEHIND = re.compile(r"redistribution_op_\d+\w*"), re.compile(r"forward_op_\d+")
_PARAMETER = re.compile(rf"({EXTRA_BLOCK}\.)?layers\.(\d+)\.(.+)\.\w+$")
_PRODUCTS, _HANDED_ON = frozenset({"MatMul"}), frozenset({LOAD, "Cast", *VIRTUAL})
_CLASS = re.compile(r"_([^_\W]+)_construct_\d+$")
_METHODS_READ_BY = frozenset({QUERY_NORM, KEY_NORM})  # `query.reshape(...)` in front of them, which is no operator


_Readers: TypeAlias = "Mapping[CNode, Sequence[tuple[CNode, int]]]"


class NoBorder(ValueError):
    """A strategy runs something again that has no func graph of its own in the early graph."""


def mark_offload(module: EarlyGraph, strategy: Strategy) -> None:
    """Edits attributes of the module."""
    prefetches = {entry.layer.name: entry.plan.prefetches for entry in strategy.layers}
    readers = module.users()
    standing = places(module, strategy, readers)
    for node, place in standing.items():
        moved = prefetches.get(place.layer)
        names = _names(node, standing, strategy.operators[place.layer], readers) if moved else ()
        prefetch = next((moved[name] for name in names if name in moved), None) if moved else None
        if prefetch is not None:
            node.attributes = {**node.attributes, OFFLOAD: "Bool(1)", PREFETCH: f"I64({prefetch})"}


def places(module: EarlyGraph, strategy: Strategy, readers: _Readers) -> dict[CNode, Place]:
    """Of what stands in cells of layers, in forward passes."""
    found: dict[CNode, Place] = {}
    number = strategy.network.num_layers
    lost = dict[CNode, None]()
    for node in module.nodes():
        if node.operator and not node.scope.startswith(GRADIENTS):
            place = place_of(node.scope, number)
            if place.layer:
                found[node] = place
            elif "/" not in node.scope:
                lost[node] = None
    for node in lost:
        place = _of_weight(node, number) if node not in found else None
        if place is not None:
            found |= dict.fromkeys(_connected(node, lost, readers), place)
    for node in lost.keys() - found.keys():
        taken = (place_of(user.scope, number) for user, _ in readers.get(node, ()) if user.primitive == ITEM)
        place = next((place for place in taken if place.layer), None)
        if place is not None:
            found[node] = place
    return found


def _of_weight(node: CNode, num_layers: int) -> Place | None:
    """The cell whose parameter a product reads."""
    for given in node.inputs if node.primitive in _PRODUCTS else ():
        while isinstance(given, CNode) and given.primitive in _HANDED_ON:
            given = given.inputs[0]
        match = _PARAMETER.search(given.plain) if isinstance(given, Parameter) else None
        if match is not None:
            layer = f"{EXTRA_BLOCK if match[1] else str()}{match[2]}"
            return Place(layer, match[3])
    return None


def _connected(node: CNode, lost: Mapping[CNode, None], readers: _Readers) -> Iterable[CNode]:
    found, stack = dict[CNode, None](), [node]
    while stack:
        one = stack.pop()
        if one in found or (one.operator and one not in lost) or "/" in one.scope or one.scope.startswith("Grad"):
            continue
        found[one] = None
        stack += [given for given in one.inputs if isinstance(given, CNode)]
        stack += [user for user, _ in readers.get(one, ())]
    return [one for one in found if one in lost]


def _names(
    node: CNode, standing: Mapping[CNode, Place], operators: Mapping[str, Operator], readers: _Readers
) -> list[str]:
    """The paths of the operators that a node may be. Of two views one behind the other MindSpore has made one, with the
    primitive of the first and the scope of the second (`TwoReshapeEliminater`), so that the first is what the catalog
    has behind that which the node reads."""
    cell = standing[node].cell
    if (path := _path(cell, node.operator)) in operators:
        return [path]
    users = [user for user, _ in readers.get(node, ())]
    beside = [node, *users, *(given for given in node.inputs if isinstance(given, CNode))]
    is_between = any(one.primitive != RESHAPE and _PUT_IN.fullmatch(one.operator) for one in beside)
    if is_between or any(_name(user) in _METHODS_READ_BY for user in users):
        return []
    if _BEHIND.fullmatch(node.operator):
        return []
    here = [
        path
        for path, operator in operators.items()
        if operator.type == node.primitive and path.rpartition(".")[0] == cell
    ]
    read = node.inputs[0]
    while isinstance(read, CNode) and _BEHIND.fullmatch(read.operator):
        read = read.inputs[0]
    shown = operators.get(_path(standing[read].cell, read.operator)) if isinstance(read, CNode) and read in standing else None
    behind = [path for path in shown.consumers if operators[path].type == node.primitive] if shown else []
    return behind if behind and not set(behind) & set(here) else here


def _path(cell: str, operator: str) -> str:
    return f"{cell}.{operator}" if cell else operator


def _name(node: CNode) -> str:
    return node.scope.rpartition("/")[2].partition("-")[0]


def cells_again(module: EarlyGraph, strategy: Strategy) -> frozenset[EarlyFuncGraph]:
    """The K graphs of the cells that a strategy runs again, the outermost ones. Raises NoBorder."""
    inside: dict[EarlyFuncGraph, list[CNode]] = {}
    standing = places(module, strategy, module.users())
    for node in standing:
        inside.setdefault(node.graph, []).append(node)
    layers = {place.layer for place in standing.values()}
    wanted = {
        Place(entry.layer.name, root)
        for entry in strategy.layers
        if entry.layer.name in layers
        for root in _roots(entry)
    }
    cells = ((graph, _cell(graph, nodes, strategy)) for graph, nodes in inside.items() if graph.is_k_graph)
    found = {place: graph for graph, place in cells if place in wanted}
    if lacking := wanted - found.keys():
        raise NoBorder(", ".join(sorted(f"{place.layer}.{place.cell}" for place in lacking)))
    return frozenset(found.values())


def _roots(entry: LayerStrategy) -> set[str]:
    """What runs again in a layer but for what the model itself marks, which is a K graph in every run."""
    operators = entry.layer.template.by_path
    roots = {
        action.root
        for path, action in entry.plan.actions().items()
        if isinstance(action, Recompute) and not (action.root == path and operators[path].preset_recompute)
    }
    return {root for root in roots if not root or not descends(root.rpartition(".")[0] or root, roots - {root})}


def _cell(graph: EarlyFuncGraph, nodes: Iterable[CNode], strategy: Strategy) -> Place | None:
    """Of the scopes of its nodes the deepest common one whose class has the method that the func graph is."""
    kind = _CLASS.search(graph.name)
    scopes = [node.scope.split("/") for node in nodes if "/" in node.scope]
    if kind is None or not scopes:
        return None
    common = [ends[0] for ends in zip(min(scopes), max(scopes), strict=False) if ends[0] == ends[1]]
    while common and common[-1].partition("-")[2] != kind[1]:
        common.pop()
    return place_of("/".join(common), strategy.network.num_layers) if common else None
