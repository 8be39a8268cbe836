"""Pass ``cell_reuse_handle_not_recompute_node_pass``: what is left out of a recomputed cell is handed on to it.

Source: MindSpore, ``frontend/optimizer/irpass/recompute.h`` (`RemoveNotRecomputeNode`), behind `recompute_cell` and
`offload`. It reads which primitives in a cell must not run again (func graphs with the flag ``not_recompute_k_graph``,
such as those of routers, which the model leaves out; and nodes with ``recompute: False``, for which MindSpore has such
func graphs, too: see `marks`) and changes: the primal of the cell also returns what these make, and its K graph is
given that, as more parameters (`hand_on`). The func graphs of the primitives, which only return a parameter then, are
inlined by ``a_1`` of the next round (`inline_left_out`). Compared with MindSpore's graph behind the pass of
two runs of Qwen3-MoE, which leaves 7 primitives out of each layer: all 3213 nodes are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from swapconf.trace.launch_graph import ITEM, TUPLE
from swapconf.whatif.lift.func_graphs import CNode, Constant, EarlyFuncGraph, EarlyGraph, Parameter, Value, sorted_from
from swapconf.whatif.passes.primal import Primal
from swapconf.whatif.passes.renormalize import ZERO


def hand_on(module: EarlyGraph, primals: Iterable[Primal]) -> None:
    """Edits the module."""
    for primal in primals:
        left_out = [node for node in sorted_from(primal.k_graph.end, module=module) if node in primal.left_out]
        again = [node for node in module.nodes() if module.called(node) is primal.k_graph]
        if left_out and again:
            _hand_on(module, primal, left_out, again)


def _hand_on(module: EarlyGraph, primal: Primal, left_out: Sequence[CNode], again: Sequence[CNode]) -> None:
    k_graph, graph, users = primal.k_graph, primal.graph, module.users()
    names = [f"Parameter_{turn}" for turn in range(len(left_out))]
    k_graph.parameters += tuple(names)
    for name, node in zip(names, left_out, strict=True):
        called = module.called(node)
        for user, place in users[node if called is None else _made(called)]:
            user.inputs[place] = Parameter(k_graph.name, name)
    graph.end.inputs[0] = CNode(TUPLE, [graph.result, *(primal.left_out[call] for call in left_out)], graph)
    forward = [node for node in module.nodes() if module.called(node) is graph]
    for call in forward:
        value = _element(call, 0)
        for user, place in users.get(call, ()):
            user.inputs[place] = value
    for call in again:
        call.inputs += [_element(forward[0], turn) for turn in range(1, len(left_out) + 1)]


def inline_left_out(module: EarlyGraph, primals: Iterable[Primal]) -> None:
    """Edits the module."""
    users, read = module.users(), {given for node in module.nodes() for given in node.inputs}
    for call in (node for primal in primals for node in primal.left_out):
        graph = module.called(call)
        value = _returned(graph) if graph is not None else None
        if graph is None or not isinstance(value, Parameter) or value.graph == graph.name:
            continue
        taken = [user for item, _ in users.get(call, ()) if item.index == 0 for user in users.get(item, ())]
        for user, place in taken:
            user.inputs[place] = value
        call.inputs[1:] = [
            given if Parameter(graph.name, name) in read else ZERO
            for name, given in zip(graph.parameters, call.inputs[1:], strict=True)
        ]


def _returned(k_graph: EarlyFuncGraph) -> Value:
    """The value, beside the closure."""
    assert isinstance(k_graph.result, CNode)
    return k_graph.result.inputs[0]


def _made(k_graph: EarlyFuncGraph) -> CNode:
    value = _returned(k_graph)
    assert isinstance(value, CNode)
    return value


def _element(call: CNode, index: int) -> CNode:
    return CNode(ITEM, [call, Constant.of(index)], call.graph)
