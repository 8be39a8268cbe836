"""EARLY GRAPH + STRATEGY -> MARKS of what runs again, as ``add_recomputation`` reads them.

Source: MindSpore, ``Cell.recompute``, ``Primitive.recompute`` (``nn/cell.py``, ``ops/primitive.py``), and
`SetCellOutputNoRecompute` (``frontend/optimizer/irpass/recompute_prepare.h``). Changed are, as the edits of a strategy
ask for (`decide.edits`): the scopes of what is in a recomputed cell, the attribute ``recompute`` of primitives, and the
mark of nodes that are an output of such a cell, which do not run again. What parallelism puts in the place of an
operator is another node, without that mark (`StepReplaceOp`, ``frontend/parallel/step_parallel.cc``), and so is the
function that takes the place of a ``Morph``, whose nodes have the scope of no cell.

Compared with the graphs in front of ``cse`` of true runs: all marks of all nodes are equal (`at_once`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from swapconf.decide.edits import RecomputeCell, RecomputeComm, RecomputePrimitive, edits
from swapconf.decide.strategy import LayerStrategy, Strategy
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, STATE, TUPLE
from swapconf.upstream.dropped import MP_COMM
from swapconf.upstream.primitives import CAST
from swapconf.upstream.scopes import GRADIENTS, descends, place_of
from swapconf.whatif.lift.func_graphs import MIRROR, NO, RECOMPUTE, VIRTUAL, CNode, EarlyGraph, Parameter, seen_through
from swapconf.whatif.passes.add_recomputation import CELL_OUTPUT, is_gradient, reads
from swapconf.whatif.passes.marks import BEHIND, REPLACED, Operators, set_recompute
from swapconf.whatif.passes.recompute_cell import AGAIN

_BETWEEN = re.compile(rf"{REPLACED}\d+[A-Z]")  # with the name of a step of a change of layout
_PASSED_ON = frozenset({ITEM, DEPEND})
_NO_VALUE = frozenset({*_PASSED_ON, TUPLE, LOAD, STATE})  # of their own


def mark_step(module: EarlyGraph, strategy: Strategy) -> None:
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
    """``cells``: of the nodes of the forward pass in it; ``done``: the recomputed cells; ``communicated``: by operator
    what ``recompute_comm_op`` is."""

    operators: Operators
    cells: dict[CNode, str]
    entry: LayerStrategy
    done: set[str] = field(default_factory=set)
    communicated: dict[str, bool] = field(default_factory=dict)

    def mark(self, strategy: Strategy) -> None:
        template = self.entry.layer.template
        for edit in edits(self.entry.plan, template, strategy.recompute_options):
            if isinstance(edit, RecomputeCell):
                self._mark_cell(edit.path)
                if MP_COMM in edit.options:
                    inside = (operator.path for operator in template.primitives if descends(operator.path, {edit.path}))
                    self.communicated |= dict.fromkeys(inside, edit.options[MP_COMM])
            elif isinstance(edit, RecomputePrimitive):
                for node in self._nodes_of(edit.path):
                    if not _casts_parameter(node):
                        set_recompute(node, on=edit.on)
            elif isinstance(edit, RecomputeComm):
                self.communicated[edit.path] = edit.on
        self._mark_communication({node: on for path, on in self.communicated.items() for node in self._nodes_of(path)})

    def _mark_communication(self, asked: Mapping[CNode, bool]) -> None:
        """What parallelism has put behind an operator (`SetAllReduceRecomputeFlag`), in its place (`StepReplaceOp`) and
        between two (`InsertRedistribution`), where the one that reads it counts first."""
        replaced = {node: on for node, on in asked.items() if "/" in node.scope}
        for node, on in replaced.items():
            if node.operator.startswith(REPLACED):
                set_recompute(node, on=on)
            for user, _ in self.operators.readers.get(node, ()) if not on else ():
                if user.operator.startswith(BEHIND):
                    set_recompute(user, on=on)
        between = {
            step: on for node, on in replaced.items() for step in self._steps(node, lambda step: self._users(step))
        }
        between |= {step: on for node, on in replaced.items() for step in self._steps(node, reads)}
        for step, on in between.items():
            set_recompute(step, on=on)

    def _steps(self, node: CNode, near: Callable[[CNode], Iterable[CNode]]) -> Iterator[CNode]:
        """Of the changes of layout on one side of an operator."""
        seen, stack = set[CNode](), [node]
        while stack:
            for step in near(stack.pop()):
                is_step = step.operator.startswith(REPLACED) and not self._is_operator(step)
                if step not in seen and (is_step or step.primitive in (TUPLE, ITEM)):
                    seen.add(step)
                    stack.append(step)
                    if is_step:
                        yield step

    def _is_operator(self, node: CNode) -> bool:
        return node in self.operators.places and bool(self.operators.paths(node))

    def _users(self, node: CNode) -> list[CNode]:
        return [user for user, _ in self.operators.readers.get(node, ()) if not is_gradient(user)]

    def _nodes_of(self, path: str) -> list[CNode]:
        return [node for node in self.cells if node in self.operators.places and path in self.operators.paths(node)]

    def _mark_cell(self, path: str) -> None:
        """``Cell.recompute`` counts once."""
        if descends(path, self.done):
            return
        inside = {node for node, cell in self.cells.items() if descends(cell, {path})}
        for node in [node for node in inside if self._is_handed_out(node, inside)]:
            node.marks |= {CELL_OUTPUT}
        for node in inside - self.operators.functions:
            if not node.scope.startswith(AGAIN):
                node.scope = AGAIN + node.scope
        self.done.add(path)

    def _is_handed_out(self, node: CNode, inside: set[CNode]) -> bool:
        is_of_morph = "/" not in node.scope
        if is_of_morph or node.primitive in _NO_VALUE or node.operator.startswith((REPLACED, BEHIND)):
            return False
        return any(user not in inside for user in self._readers(node))

    def _readers(self, node: CNode) -> Iterator[CNode]:
        """Of the forward pass."""
        for user, place in self.operators.readers.get(node, ()):
            if is_gradient(user) or user.primitive == STATE or (user.primitive == DEPEND and place == 1):
                continue
            is_put_in = user.operator.startswith(BEHIND) or _BETWEEN.match(user.operator)
            if is_put_in or user.primitive in (*_PASSED_ON, TUPLE):
                yield from self._readers(user)
            else:
                yield user


def _casts_parameter(node: CNode) -> bool:
    """`SetCastForParamNotRecompute`: parallelism has such a cast not run again, whatever is asked for."""
    is_kept = node.primitive == CAST and node.attributes.get(RECOMPUTE) == NO
    return is_kept and isinstance(seen_through(node.inputs[0], (LOAD, DEPEND, MIRROR, *VIRTUAL)), Parameter)
