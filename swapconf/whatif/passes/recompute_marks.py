"""EARLY GRAPH + STRATEGY -> MARKS of what runs again, as ``add_recomputation`` reads them.

Source: MindSpore, ``Cell.recompute``, ``Primitive.recompute`` (``nn/cell.py``, ``ops/primitive.py``), and
`SetCellOutputNoRecompute` (``frontend/optimizer/irpass/recompute_prepare.h``). Changed are, as the edits of a strategy
ask for (`decide.edits`): the scopes of what is in a recomputed cell, the attribute ``recompute`` of primitives, and the
mark of nodes that are an output of such a cell, which do not run again. What parallelism puts in the place of an
operator is another node, without that mark (`StepReplaceOp`, ``frontend/parallel/step_parallel.cc``), and so is the
function that takes the place of a ``Morph``, whose nodes have the scope of no cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swapconf.decide.edits import RecomputeCell, RecomputeComm, RecomputePrimitive, edits
from swapconf.decide.strategy import LayerStrategy, Strategy
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, STATE, TUPLE
from swapconf.upstream.scopes import GRADIENTS, descends, place_of
from swapconf.whatif.lift.func_graphs import CNode, EarlyGraph
from swapconf.whatif.passes.add_recomputation import NO, NOT_AGAIN, RECOMPUTE, YES, is_gradient
from swapconf.whatif.passes.marks import Operators
from swapconf.whatif.passes.recompute_cell import AGAIN

_REPLACED, _BEHIND = "redistribution_op_", "forward_op_"
_PASSED_ON = frozenset({ITEM, DEPEND})
_NO_VALUE = frozenset({*_PASSED_ON, TUPLE, LOAD, STATE})  # of their own


def mark_recompute(module: EarlyGraph, strategy: Strategy) -> None:
    """Edits scopes, attributes and marks of the module."""
    operators = Operators.of(module, strategy)
    inside: dict[str, dict[CNode, str]] = {}
    for node in module.nodes():
        place = operators.places.get(node) or place_of(node.scope, strategy.network.num_layers)
        if place.layer and not node.scope.startswith(GRADIENTS):
            inside.setdefault(place.layer, {})[node] = place.cell
    for entry in strategy.layers:
        _Layer(operators, inside.get(entry.layer.name, {}), entry).mark(strategy)


@dataclass
class _Layer:
    """``cells``: of the nodes of the forward pass in it; ``done``: the recomputed cells."""

    operators: Operators
    cells: dict[CNode, str]
    entry: LayerStrategy
    done: set[str] = field(default_factory=set)

    def mark(self, strategy: Strategy) -> None:
        for edit in edits(self.entry.plan, self.entry.layer.template, strategy.recompute_options):
            if isinstance(edit, RecomputeCell) and not descends(edit.path, self.done):
                self._mark_cell(edit.path)
            elif isinstance(edit, RecomputePrimitive):
                for node in self._nodes_of(edit.path):
                    node.attributes = {**node.attributes, RECOMPUTE: YES if edit.on else NO}

    def _nodes_of(self, path: str) -> list[CNode]:
        return [node for node in self.cells if node in self.operators.places and path in self.operators.paths(node)]

    def _mark_cell(self, path: str) -> None:
        """A cell inside that is recomputed itself keeps what it has: ``Cell.recompute`` counts once."""
        inside = {node for node, cell in self.cells.items() if descends(cell, {path})}
        for node in [node for node in inside if self._is_handed_out(node, inside)]:
            node.marks |= {NOT_AGAIN}
        for node in inside:
            if not node.scope.startswith(AGAIN):
                node.scope = AGAIN + node.scope
        self.done.add(path)

    def _is_handed_out(self, node: CNode, inside: set[CNode]) -> bool:
        is_of_morph = "/" not in node.scope
        if is_of_morph or node.primitive in _NO_VALUE or node.operator.startswith((_REPLACED, _BEHIND)):
            return False
        return any(user not in inside for user in self._readers(node))

    def _readers(self, node: CNode) -> Iterator[CNode]:
        """Of the forward pass."""
        for user, place in self.operators.readers.get(node, ()):
            if is_gradient(user) or user.primitive == STATE or (user.primitive == DEPEND and place == 1):
                continue
            if user.primitive in (*_PASSED_ON, TUPLE) or user.operator.startswith(_BEHIND):
                yield from self._readers(user)
            else:
                yield user
