"""FUNC GRAPHS of cells that do not run again -> inlined, as if they had never been func graphs of their own.

An early graph of a run in which cells are kept (``Cell.add_flags(output_recompute=False)``) serves all strategies
that recompute some of them. Without the flag MindSpore inlines a cell before gradients are made, by ``a_1`` of its
first round (`inline`), and merges the states of its parameters with those around it (`update_state`): first cells with
one parameter, such as norms, then the inmost ones. Two loads then hang on one state where the border parted them
(`_attach`). Compared with true runs of Llama, Qwen3, DeepSeek-V3 and Qwen3-MoE: from graphs in which layers are kept,
or layers and the cells right in them, the order of launches of 67 strategies is equal. Linears inside of
these cells are not covered: where they are kept, too, Reshapes stay that MindSpore makes one.
"""

from __future__ import annotations

from collections.abc import Collection

from swapconf.trace.launch_graph import LOAD, STATE, TUPLE
from swapconf.whatif.lift.func_graphs import (
    VIRTUAL,
    CNode,
    EarlyFuncGraph,
    EarlyGraph,
    Monad,
    Parameter,
    Users,
    Value,
    own_nodes,
    sorted_from,
)
from swapconf.whatif.passes.inline import inlined
from swapconf.whatif.passes.update_state import merge_states

_MEMORY = "(<UMonad, NoShape>) -> (<UMonad, NoShape>)"


def without_borders(module: EarlyGraph, again: Collection[EarlyFuncGraph]) -> None:
    """Edits the module: K graphs of cells are inlined but for those that run ``again``."""
    gone = {graph.name for graph in module.reached() if graph.is_k_graph and graph.is_of_cell}
    gone -= {graph.name for graph in again}
    small = {graph for graph in module.reached() if graph.name in gone and _loads_once(graph)}
    _inline(module, small)
    gone -= {graph.name for graph in small}
    while gone:
        inmost = {module.graphs[name] for name in gone if not _called_inside(module, module.graphs[name]) & gone}
        _inline(module, inmost)
        gone -= {graph.name for graph in inmost}


def _called_inside(module: EarlyGraph, graph: EarlyFuncGraph) -> set[str]:
    return {called.name for node in own_nodes(graph) if (called := module.called(node)) is not None}


def _inline(module: EarlyGraph, gone: Collection[EarlyFuncGraph]) -> None:
    if not gone:
        return
    users, names = module.users(), {graph.name for graph in gone}
    cells = [graph for graph in module.reached() if graph.is_k_graph and graph.is_of_cell]
    for call in module.nodes():
        graph = module.k_graph(call)
        if graph is not None and graph in gone and not _loads_once(graph):
            _attach(call, graph, users)
    for forward in (*(graph for graph in cells if graph not in gone), module.forward):
        after = inlined(module, forward, lambda graph: graph.name not in names)
        merge_states([after.forward.end, after.backward.end], after.taken, is_early=True)
        for graph in (after.forward, after.backward):
            module.graphs[graph.name] = graph


def _loads_once(graph: EarlyFuncGraph) -> bool:
    return sum(node.primitive == LOAD for node in own_nodes(graph)) == 1


def _attach(call: CNode, graph: EarlyFuncGraph, users: Users) -> None:
    """The load in front of a call and the first in it. A state behind one load goes before gradients are made, as what
    adds to its gradient is pure; that behind two, which are in a tuple, stays (`UpdatestatePureNodeEliminater`)."""
    names = [name for name in graph.parameters if Parameter(graph.name, name).monad is Monad.MEMORY]
    if not names:
        return
    state, given = Parameter(graph.name, names[0]), call.inputs[1 + graph.parameters.index(names[0])]
    inside = own_nodes(graph)
    before = [node for node in sorted_from(call) if node.graph is call.graph and _is_load(node, given)]
    first = next((node for node in inside if _is_load(node, state)), None)
    if first is None or not before or _is_attached(before[-1], users) or _is_attached(first, users):
        return
    pair = CNode(TUPLE, [_handed_on(before[-1], users)[-1], _handed_on(first, users)[-1]], graph)
    behind = CNode(STATE, [state, pair], graph, types=_MEMORY)
    for node in inside:
        if node is not first:
            node.inputs[:] = [behind if value == state else value for value in node.inputs]


def _is_load(node: CNode, state: Value) -> bool:
    return node.primitive == LOAD and node.inputs[1] == state


def _handed_on(load: CNode, users: Users) -> list[CNode]:
    """The load, and what adds to its gradient."""
    return [load, *(user for user, _ in users.get(load, ()) if user.primitive in VIRTUAL)]


def _is_attached(load: CNode, users: Users) -> bool:
    readers = [user for handed in _handed_on(load, users) for user, _ in users.get(handed, ())]
    tuples = [user for reader in readers if reader.primitive == TUPLE for user, _ in users.get(reader, ())]
    return any(reader.primitive == STATE for reader in (*readers, *tuples))
