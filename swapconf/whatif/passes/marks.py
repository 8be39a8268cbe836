"""EARLY GRAPH + STRATEGY -> MARKS: what a strategy sets on primitives and cells before MindSpore compiles.

Source: MindSpore, ``Cell.offload``, ``Primitive._offload``, ``Primitive.recompute`` and ``Cell.recompute``
(``nn/cell.py``), and `StepReplaceOp` (``frontend/parallel/step_parallel.cc``), which hands marks on to what
parallelism puts in the place of an operator. Of a node the scope tells the cell, and the instance name the operator;
read are these, and changed the attributes ``offload``, ``backward_prefetch`` and ``recompute`` of forward passes: the
last one is True of what runs again by itself, and False of what does not run again with its cell. Which cell runs
again no node tells, but each is a func graph of its own.

Three kinds of nodes have lost one of the two:

- What stands for an operator has the instance name ``redistribution_op_`` and a hash, but its scope and primitive. So
  has what changes a layout between two operators, which has no marks: the catalog has nobody of its readers behind it.
- Of two views one behind the other MindSpore makes one, with the primitive of the first and the scope of the second
  (`TwoReshapeEliminater`, ``irpass/reshape_eliminate.h``).
- The function of a ``Morph`` has no scope: it is that of the Linear or the experts whose weight it multiplies with. Nor
  have some operators of attentions: what takes an element of their output has it.

Compared with the early graphs of 22 strategies of 5 families, 16 of them drawn at random: all marks of all nodes are
equal, 2 to 378 of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from swapconf.decide.strategy import LayerStrategy, Recompute, Strategy
from swapconf.models.cells import KEY_NORM, QUERY_NORM
from swapconf.models.network import Operator
from swapconf.trace.launch_graph import COMMUNICATION, ITEM, LOAD
from swapconf.upstream.dropped import MP_COMM, SLICE
from swapconf.upstream.scopes import EXTRA_BLOCK, GRADIENTS, Place, descends, place_of
from swapconf.whatif.lift.func_graphs import (
    K_GRAPH,
    MIRROR,
    NO,
    NOT_AGAIN,
    OFFLOAD,
    PREFETCH,
    RECOMPUTE,
    VIRTUAL,
    YES,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    Parameter,
    Users,
    seen_through,
)

REPLACED, BEHIND = "redistribution_op_", "forward_op_"  # what parallelism puts in place of operators, and behind them
_BEHIND, _PUT_IN = re.compile(rf"{BEHIND}\d+"), re.compile(rf"{REPLACED}.*|{BEHIND}\d+")
_SHARDED = "parallel_optimizer_allgather"
_WEIGHT = re.compile(rf"({EXTRA_BLOCK}\.)?layers\.(\d+)\.(.+)\.\w+$")
_CLASS = re.compile(r"_([^_\W]+)_construct_\d+$")
_PRODUCTS, _HAND_ON = frozenset({"MatMul", "GroupedMatmul"}), frozenset({LOAD, "Cast", MIRROR, *VIRTUAL})
_VIEWED_BY_METHOD = frozenset({QUERY_NORM, KEY_NORM})  # `query.reshape(...)` in front of them is no operator


class NoBorder(ValueError):
    """A strategy runs something again that is no func graph of its own in the early graph."""


def mark_offload(module: EarlyGraph, strategy: Strategy) -> None:
    """Edits attributes of the module."""
    prefetches = {entry.layer.name: entry.plan.prefetches for entry in strategy.layers}
    operators = Operators.of(module, strategy)
    for node, place in operators.places.items():
        moved = prefetches.get(place.layer)
        path = next((path for path in operators.paths(node) if path in moved), None) if moved else None
        if moved and path is not None:
            node.attributes = {**node.attributes, OFFLOAD: YES, PREFETCH: Constant.of(moved[path]).text}


def mark_recompute(module: EarlyGraph, strategy: Strategy) -> None:
    """Edits the module, of which K graphs of cells run again: what runs again by itself, and what does not with its
    cell."""
    excluded = {entry.layer.name: entry.plan.excluded for entry in strategy.layers}
    alone = {entry.layer.name: _roots(entry) & _primitives(entry) for entry in strategy.layers}
    communicated = {entry.layer.name: entry.plan.comm_recompute for entry in strategy.layers}
    stays = not strategy.recompute_options.get(MP_COMM, True)
    if not stays and not any((*excluded.values(), *alone.values(), *communicated.values())):
        return
    operators = Operators.of(module, strategy)
    left_out = _put_in(module, operators) if stays else []
    for node, place in operators.places.items():
        paths = operators.paths(node) if place.layer in excluded else []
        runs_again = _communicated(node, operators, communicated.get(place.layer, {}))
        if runs_again or (paths and not alone[place.layer].isdisjoint(paths)):
            set_recompute(node, on=True)
        if runs_again is False or (paths and not excluded[place.layer].isdisjoint(paths)):
            left_out.append(node)
    for node in left_out:
        set_recompute(node, on=False)
        if not node.graph.is_of_cell:
            node.graph.flags = node.graph.flags - {K_GRAPH} | {NOT_AGAIN}


def set_recompute(node: CNode, *, on: bool) -> None:
    """The attribute of a primitive."""
    node.attributes = {**node.attributes, RECOMPUTE: YES if on else NO}


def _communicated(node: CNode, operators: Operators, asked: Mapping[str, bool]) -> bool | None:
    """What ``recompute_comm_op`` of a primitive says to what parallelism put in its place, or behind it."""
    behind = node.inputs[0] if _BEHIND.fullmatch(node.operator) else node
    if (
        not asked
        or not _PUT_IN.fullmatch(node.operator)
        or not isinstance(behind, CNode)
        or behind not in operators.places
    ):
        return None
    return next((asked[path] for path in operators.paths(behind) if path in asked), None)


def _put_in(module: EarlyGraph, operators: Operators) -> list[CNode]:
    """What parallelism put in place of primitives of cells that run again, or behind them (`StepReplaceOp`, which hands
    ``recompute_comm_op`` on), but not for functions that a cell calls."""
    homes = {called: node.graph for node in module.nodes() if (called := module.called(node)) is not None}
    found = list[CNode]()
    for node in module.nodes():
        home = node.graph if node.graph.is_of_cell else homes.get(node.graph, node.graph)
        if not _PUT_IN.fullmatch(node.operator) or not home.is_k_graph:
            continue
        is_of_cell = RECOMPUTE in node.attributes or _BEHIND.fullmatch(node.operator)
        if is_of_cell or (node in operators.places and operators.paths(node)):
            found.append(node)
    return found


def cells_again(module: EarlyGraph, strategy: Strategy) -> frozenset[EarlyFuncGraph]:
    """The K graphs of the cells that a strategy runs again, the outermost ones. Raises NoBorder."""
    inside: dict[EarlyFuncGraph, list[CNode]] = {}
    places = Operators.of(module, strategy).places
    for node in places:
        inside.setdefault(node.graph, []).append(node)
    layers = {place.layer for place in places.values()}
    entries = [entry for entry in strategy.layers if entry.layer.name in layers]
    wanted = {Place(entry.layer.name, root) for entry in entries for root in _roots(entry) - _primitives(entry)}
    cells = ((_cell(graph, nodes, strategy), graph) for graph, nodes in inside.items() if graph.is_k_graph)
    graphs = {place: graph for place, graph in cells if place in wanted}
    lacking = {f"{place.layer}.{place.cell}" for place in wanted - graphs.keys()}
    lacking |= _communicated_elsewhere(places, entries)
    if wanted and _has_groups_of_one(module):
        lacking |= {SLICE} & strategy.recompute_options.keys()
    if lacking:
        raise NoBorder(", ".join(sorted(lacking)))
    return frozenset(graphs.values())


def _communicated_elsewhere(places: Mapping[CNode, Place], entries: Iterable[LayerStrategy]) -> set[str]:
    """Operators whose communication is asked for in layers with communication that parallelism put between two
    primitives: which of the two is asked then, is not mirrored."""
    between = (node for node in places if node.operator.startswith(REPLACED) and node.primitive in COMMUNICATION)
    layers = {places[node].layer for node in between}
    asked = ((entry.layer.name, path) for entry in entries for path in entry.plan.comm_recompute)
    return {f"{layer}.{path}" for layer, path in asked if layer in layers}


def _has_groups_of_one(module: EarlyGraph) -> bool:
    """MindSpore slices what is kept where it has made such groups, for the parallel optimizer
    (`OperatorInfo::CreateGroupByTensorMap`); elsewhere it finds none, and keeps the whole."""
    return any(node.primitive == "AllGather" and _SHARDED in node.operator for node in module.nodes())


def _roots(entry: LayerStrategy) -> set[str]:
    """What runs again in a layer but for what the model itself marks, which is a K graph in every run."""
    operators = entry.layer.template.by_path
    roots = {
        action.root
        for path, action in entry.plan.actions().items()
        if isinstance(action, Recompute) and not (action.root == path and operators[path].preset_recompute)
    }
    return {root for root in roots if not root or not descends(root.rpartition(".")[0] or root, roots - {root})}


def _primitives(entry: LayerStrategy) -> set[str]:
    return {operator.path for operator in entry.layer.template.primitives}


def _cell(graph: EarlyFuncGraph, nodes: Iterable[CNode], strategy: Strategy) -> Place | None:
    """Of the scopes of its nodes the deepest common one whose class has the method that the func graph is."""
    kind = _CLASS.search(graph.name)
    scopes = [node.scope.split("/") for node in nodes if "/" in node.scope]
    if kind is None or not scopes:
        return None
    first, last = min(scopes), max(scopes)
    depth = next((depth for depth, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    common = first[:depth]
    while common and common[-1].partition("-")[2] != kind[1]:
        common.pop()
    return place_of("/".join(common), strategy.network.num_layers) if common else None


@dataclass(frozen=True, kw_only=True)
class Operators:
    """Which operators of layers nodes of forward passes are. ``functions``: those that the model calls as functions, so
    that only their elements have a scope."""

    strategy: Strategy
    readers: Users
    places: dict[CNode, Place]
    functions: set[CNode] = field(default_factory=set)

    @classmethod
    def of(cls, module: EarlyGraph, strategy: Strategy) -> Operators:
        forward = [node for node in module.nodes() if node.operator and not node.scope.startswith(GRADIENTS)]
        number = strategy.network.num_layers
        places = {node: place for node in forward if (place := place_of(node.scope, number)).layer}
        operators = cls(strategy=strategy, readers=module.users(), places=places)
        operators._place({node: None for node in forward if "/" not in node.scope})
        return operators

    def _place(self, lost: Mapping[CNode, None]) -> None:
        """Of what has no scope."""
        for node in lost:
            place = _of_weight(node) if node not in self.places else None
            if place is not None:
                self.places.update(dict.fromkeys(self._connected(node, lost), place))
        for node in lost:
            elements = (user.scope for user in self._users(node) if user.primitive == ITEM)
            places = (place_of(scope, self.strategy.network.num_layers) for scope in elements)
            place = next((place for place in places if place.layer), None)
            if place is not None and node not in self.places:
                self.places[node] = place
                self.functions.add(node)

    def _connected(self, start: CNode, lost: Mapping[CNode, None]) -> Iterator[CNode]:
        """What belongs to one function: elements and calls have no instance name."""
        seen, stack = set[CNode](), [start]
        while stack:
            node = stack.pop()
            is_inside = node in lost or not node.operator
            if node in seen or not is_inside or "/" in node.scope:
                continue
            seen.add(node)
            stack += [*self._users(node), *(given for given in node.inputs if isinstance(given, CNode))]
            if node in lost:
                yield node

    def paths(self, node: CNode) -> list[str]:
        """Of the operators that a node may be."""
        place, users = self.places[node], self._users(node)
        operators = self.strategy.operators[place.layer]
        if (path := self._path(node)) in operators:
            return [path]
        if _BEHIND.fullmatch(node.operator) or any(_cell_name(user) in _VIEWED_BY_METHOD for user in users):
            return []
        alike = [path for path, operator in operators.items() if operator.type == node.primitive]
        here = [path for path in alike if path.rpartition(".")[0] == place.cell]
        before = self._shown(node, operators)
        behind = [path for path in alike if before is not None and path in before.consumers]
        paths = here if not behind or set(behind) & set(here) else behind
        readers = {self._path(user) for user in users if user in self.places}
        return [path for path in paths if not operators[path].consumers or readers & set(operators[path].consumers)]

    def _shown(self, view: CNode, operators: Mapping[str, Operator]) -> Operator | None:
        """The operator whose output a node reads first."""
        read = view.inputs[0]
        while isinstance(read, CNode) and _BEHIND.fullmatch(read.operator):
            read = read.inputs[0]
        return operators.get(self._path(read)) if isinstance(read, CNode) and read in self.places else None

    def _path(self, node: CNode) -> str:
        cell = self.places[node].cell
        return f"{cell}.{node.operator}" if cell else node.operator

    def _users(self, node: CNode) -> list[CNode]:
        return [user for user, _ in self.readers.get(node, ())]


def _of_weight(node: CNode) -> Place | None:
    """The cell whose parameter a product reads."""
    for given in node.inputs if node.primitive in _PRODUCTS else ():
        weight = seen_through(given, _HAND_ON)
        match = _WEIGHT.search(weight.plain) if isinstance(weight, Parameter) else None
        if match is not None:
            return Place(f"{EXTRA_BLOCK}{match[2]}" if match[1] else match[2], match[3])
    return None


def _cell_name(node: CNode) -> str:
    return node.scope.rpartition("/")[2].partition("-")[0]
