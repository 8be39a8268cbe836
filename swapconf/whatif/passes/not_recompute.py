"""Pass ``cell_reuse_handle_not_recompute_node_pass``: what is left out of a recomputed cell is handed on to it.

Source: MindSpore, ``frontend/optimizer/irpass/recompute.h`` (`RemoveNotRecomputeNode`), behind `recompute_cell` and
`offload`. It reads which primitives in a cell must not run again (func graphs with the flag ``not_recompute_k_graph``:
the model's own, or those that ``select_recompute_exclude`` names) and changes: the primal of the cell also returns what
these make, and its K graph is given that, as more parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from swapconf.trace.launch_graph import ITEM, TUPLE
from swapconf.whatif.lift.func_graphs import (
    CALL,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    Parameter,
    sorted_from,
)
from swapconf.whatif.passes.primal import Primal
from swapconf.whatif.passes.renormalize import ZERO


def hand_on(module: EarlyGraph, primals: Iterable[Primal]) -> None:
    """Edits the module."""
    for primal in primals:
        ordered = sorted_from(primal.k_graph.end, module=module)
        left_out = [node for node in ordered if node in primal.left_out]
        again = [node for node in module.nodes() if module.called(node) is primal.k_graph]
        if left_out and again:
            _hand_on(module, primal, left_out, again)


def _hand_on(module: EarlyGraph, primal: Primal, left_out: Sequence[CNode], again: Sequence[CNode]) -> None:
    k_graph, graph = primal.k_graph, primal.graph
    names = [f"left_out_{turn}" for turn in range(len(left_out))]
    k_graph.parameters += tuple(names)
    users = module.users()
    for name, call in zip(names, left_out, strict=True):
        inner, given = module.called(call), Parameter(k_graph.name, name)
        returned = inner.result if inner is not None else None
        assert isinstance(returned, CNode)
        value = returned.inputs[0]
        assert isinstance(value, CNode)
        taken = [user for item, _ in users.get(call, ()) if item.index == 0 for user in users.get(item, ())]
        for user, place in [*users[value], *taken]:
            user.inputs[place] = given
    read = {given for node in module.nodes() for given in node.inputs}
    for call in left_out:
        inner = module.called(call)
        assert inner is not None
        for place, name in enumerate(inner.parameters, 1):
            if Parameter(inner.name, name) not in read:
                call.inputs[place] = ZERO
    graph.end.inputs[0] = CNode(TUPLE, [graph.result, *(primal.left_out[call] for call in left_out)], graph)
    users = module.users()
    forward = [node for node in module.nodes() if module.called(node) is graph]
    for call in forward:
        value = _element(call, 0)
        for user, place in users.get(call, ()):
            user.inputs[place] = value
    for call in again:
        call.inputs += [_element(forward[0], turn) for turn in range(1, len(left_out) + 1)]


def _element(call: CNode, index: int) -> CNode:
    return CNode(ITEM, [call, Constant(f"I64({index})")], call.graph)
