"""EARLY GRAPH + STRATEGY -> MARKS: what a strategy sets on primitives and cells before MindSpore compiles.

Source: MindSpore, ``Cell.offload``, ``Primitive._offload`` and ``Cell.recompute`` (``nn/cell.py``), and `StepReplaceOp`
(``frontend/parallel/step_parallel.cc``), which hands marks on to what parallelism puts in the place of an operator. Of
a node the scope tells the cell, and the instance name the operator; read are these, and changed the attributes
``offload`` and ``backward_prefetch`` of forward passes. Which cell runs again no node tells, but each is a func graph
of its own.

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
from swapconf.trace.launch_graph import ITEM, LOAD
from swapconf.upstream.scopes import EXTRA_BLOCK, GRADIENTS, Place, descends, place_of
from swapconf.whatif.lift.func_graphs import (
    MIRROR,
    OFFLOAD,
    PREFETCH,
    VIRTUAL,
    YES,
    CNode,
    EarlyFuncGraph,
    EarlyGraph,
    Parameter,
    Users,
)

_BEHIND = re.compile(r"forward_op_\d+")  # communication that parallelism puts behind an operator
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
            node.attributes = {**node.attributes, OFFLOAD: YES, PREFETCH: f"I64({moved[path]})"}


def cells_again(module: EarlyGraph, strategy: Strategy) -> frozenset[EarlyFuncGraph]:
    """The K graphs of the cells that a strategy runs again, the outermost ones. Raises NoBorder."""
    inside: dict[EarlyFuncGraph, list[CNode]] = {}
    places = Operators.of(module, strategy).places
    for node in places:
        inside.setdefault(node.graph, []).append(node)
    layers = {place.layer for place in places.values()}
    entries = [entry for entry in strategy.layers if entry.layer.name in layers]
    wanted = {Place(entry.layer.name, root) for entry in entries for root in _roots(entry)}
    cells = ((_cell(graph, nodes, strategy), graph) for graph, nodes in inside.items() if graph.is_k_graph)
    graphs = {place: graph for place, graph in cells if place in wanted}
    lacking = {f"{place.layer}.{place.cell}" for place in wanted - graphs.keys()}
    lacking |= {f"{entry.layer.name}.{path}" for entry in entries for path in _flags(entry)}
    lacking |= strategy.recompute_options.keys() if wanted else set()
    if lacking:
        raise NoBorder(", ".join(sorted(lacking)))
    return frozenset(graphs.values())


def _roots(entry: LayerStrategy) -> set[str]:
    """What runs again in a layer but for what the model itself marks, which is a K graph in every run."""
    operators = entry.layer.template.by_path
    roots = {
        action.root
        for path, action in entry.plan.actions().items()
        if isinstance(action, Recompute) and not (action.root == path and operators[path].preset_recompute)
    }
    return {root for root in roots if not root or not descends(root.rpartition(".")[0] or root, roots - {root})}


def _flags(entry: LayerStrategy) -> set[str]:
    """Operators that a flag makes another func graph of."""
    return {*entry.plan.excluded, *entry.plan.comm_recompute}


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
        while isinstance(given, CNode) and given.primitive in _HAND_ON:
            given = given.inputs[0]
        match = _WEIGHT.search(given.plain) if isinstance(given, Parameter) else None
        if match is not None:
            return Place(f"{EXTRA_BLOCK}{match[2]}" if match[1] else match[2], match[3])
    return None


def _cell_name(node: CNode) -> str:
    return node.scope.rpartition("/")[2].partition("-")[0]
