"""Pass ``renormalize``, and what ``a_1`` of the next round does to sums: what nobody takes out of a tuple is not made.

Source: MindSpore, abstract analysis (``elements_use_flags`` of sequences) and, for sums, the arithmetic rules of
``a_1``; neither was read, both are as graphs of MindSpore 2.9.0 in front of and behind them show. They read who takes
which element of a tuple, also of what func graphs return, and change elements that nobody takes into 0 (one level of
calls a round), sums, which leave out zeros (a sum of one is that one), and Depends on the same node behind one another.
"""

from __future__ import annotations

from swapconf.trace.launch_graph import DEPEND, ITEM, RETURN, TUPLE
from swapconf.whatif.lift.func_graphs import CALL, Callee, CNode, Constant, EarlyFuncGraph, EarlyGraph, Parameter, Value
from swapconf.whatif.passes.cse import read_merged

ZERO = Constant.of(0)
_SUM, _ZEROS = "AddN", "ZerosLike"


def drop_dead_elements(module: EarlyGraph) -> int:
    """Edits the module, once; how many elements became 0."""
    search = _Taken(module)
    dead = [
        (node, place)
        for node in search.nodes
        if node.primitive == TUPLE and (taken := search.of(node)) is not None
        for place, given in enumerate(node.inputs)
        if place not in taken and isinstance(given, CNode | Parameter)
    ]
    for node, place in dead:
        node.inputs[place] = ZERO
    return len(dead)


def drop_zeros(module: EarlyGraph) -> int:
    """Edits the module; how many sums left zeros out."""
    gone: dict[CNode, CNode] = {}
    nodes, found = module.nodes(), 0
    for node in nodes:
        given = node.inputs[0] if node.primitive == _SUM else None
        if not isinstance(given, CNode) or given.primitive != TUPLE or not any(map(_is_zero, given.inputs)):
            continue
        found += 1
        left = [value for value in given.inputs if not _is_zero(value)]
        only = given.inputs[0] if not left else left[0] if len(left) == 1 else None
        if isinstance(only, CNode):
            gone[node] = only
        elif left:
            node.inputs[0] = given.like(left, given.graph)
    read_merged(nodes, gone)
    return found


def wait_once(module: EarlyGraph) -> None:
    """Edits the module: what waits for the same several times, one Depend behind another, waits once."""
    for node in module.nodes():
        node.inputs[:] = [_waiting_once(value) for value in node.inputs]


def _waiting_once(value: Value) -> Value:
    inner = value.inputs[0] if isinstance(value, CNode) and value.primitive == DEPEND else None
    while isinstance(inner, CNode) and isinstance(value, CNode) and inner.primitive == DEPEND:
        if inner.inputs[1] == value.inputs[1]:
            return _waiting_once(value.inputs[0])
        inner = inner.inputs[0]
    return value


def _is_zero(value: Value) -> bool:
    return isinstance(value, CNode) and value.primitive == _ZEROS


class _Taken:
    """Which elements of a tuple are taken."""

    def __init__(self, module: EarlyGraph) -> None:
        self._module, self._users = module, module.users()
        self.nodes = module.nodes()
        self._calls: dict[str, list[CNode]] = {}
        for node in self.nodes:
            graph = self._run_by(node)
            if graph is not None:
                self._calls.setdefault(graph.name, []).append(node)
        self._whole = {
            given.name
            for node in self.nodes
            for place, given in enumerate(node.inputs)
            if isinstance(given, Callee) and not self._is_called(node, place)
        }

    def of(self, node: CNode) -> set[int] | None:
        """None where it is taken whole."""
        found = set[int]()
        for user, place in self._users.get(node, ()):
            part = self._by(user, place)
            if part is None:
                return None
            found |= part
        return found

    def _by(self, user: CNode, place: int) -> set[int] | None:
        if place == 0 and user.index is not None and user.primitive == ITEM:
            return {user.index}
        if user.primitive == DEPEND and place == 0:
            return self.of(user)
        calls = self._calls.get(user.graph.name, ()) if user.primitive == RETURN else ()
        if not calls or user.graph.name in self._whole:
            return None
        found = set[int]()
        for call in calls:
            part = self.of(call)
            if part is None:
                return None
            found |= part
        return found

    def _run_by(self, node: CNode) -> EarlyFuncGraph | None:
        """The func graph that a call runs: that which it names, or the closure that a K graph returns."""
        if node.primitive != CALL:
            return None
        value = node.inputs[0]
        if isinstance(value, CNode) and value.index == 1:
            k_graph = self._module.called(value.inputs[0])
            closure = k_graph.closure if k_graph is not None else None
            return self._module.graphs.get(closure.name) if closure is not None else None
        return self._module.called(node)

    @staticmethod
    def _is_called(node: CNode, place: int) -> bool:
        """Called there, or returned by a K graph, which is called through what takes it out."""
        return (node.primitive == CALL and place == 0) or (
            node.primitive == TUPLE and place == 1 and node.graph.end.inputs[:1] == [node]
        )
