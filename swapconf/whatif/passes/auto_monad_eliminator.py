"""Pass ``auto_monad_eliminator`` of ``opt_a``: what is loaded first of a parameter that nothing has changed yet.

Source: MindSpore, ``frontend/optimizer/auto_monad_eliminate.cc`` (`GenerateLoadGroups`, `ReplaceUpdateStateForLoad`).
It reads the types of loads (a parameter that is trained is handed on as a tensor, only others as a reference), calls in
front of them, and who reads a state, and changes the state of the first load of a reference: that with which its func
graph begins, as of the biases of a router. Loads of one parameter in several states are not merged here: none was seen.
"""

from __future__ import annotations

from swapconf.trace.launch_graph import LOAD, STATE
from swapconf.whatif.lift.func_graphs import (
    CALL,
    PARTIAL,
    Callee,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    Monad,
    Parameter,
    Value,
    own_nodes,
)

_REFERENCE = "(<Ref["
_ONLY_LOADED = 2  # readers of a state: the load, and the next state


def load_first(module: EarlyGraph) -> None:
    """Edits the module."""
    users = module.users()
    for graph in module.reached():
        first = _first_monad(graph)
        for load in _first_loads(graph):
            state = load.inputs[1]
            if isinstance(state, CNode) and len(users[state]) != _ONLY_LOADED and not _is_behind_a_call(state):
                load.inputs[1] = first


def _first_loads(graph: EarlyFuncGraph) -> list[CNode]:
    """In front of all calls."""
    found: dict[Value, CNode] = {}
    for node in own_nodes(graph):
        if _is_special(node):
            break
        if node.primitive == LOAD and node.types.startswith(_REFERENCE):
            found.setdefault(node.inputs[0], node)
    return list(found.values())


def _first_monad(graph: EarlyFuncGraph) -> Parameter | Constant:
    parameters = (Parameter(graph.name, name) for name in reversed(graph.parameters[-2:]))
    return next((one for one in parameters if one.monad is Monad.MEMORY), Constant("UMonad[U]"))


def _is_special(node: CNode) -> bool:
    return node.primitive == PARTIAL or (node.primitive == CALL and isinstance(node.inputs[0], Callee))


def _is_behind_a_call(state: Value) -> bool:
    while isinstance(state, CNode) and state.primitive == STATE:
        attached = state.inputs[1]
        if isinstance(attached, CNode) and _is_special(attached):
            return True
        state = state.inputs[0]
    return False
