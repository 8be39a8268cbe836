"""Pass ``cell_reuse_recompute_pass``: K graphs of what is recomputed move into the backward pass.

Source: MindSpore, ``frontend/optimizer/irpass/recompute.cc`` (`AddRecomputeNodes`), which runs on the func graphs of an
`EarlyGraph` once gradients are made. It reads flags of func graphs, calls of K graphs and whose gradient a node is, and
changes, from the end of the step back:

- Who reads what a K graph makes reads what its primal makes, called in its place (`_read_primal`), but for gradients.
- The call of the K graph moves to where its gradients are called, and everything that it is given waits there for the
  gradients that arrive (dout) (`_wait`, `_moved`). What reads several K graphs one behind another moves with the last.
- What runs again is marked, so that cse may merge it (`AddCseAttr`).

The primal of a K graph is not in the early graph: it is what the K graph does before it returns (`primal`). Compared
with MindSpore's own graph behind the pass in 10 strategies of 2 families (MindSpore 2.9.0): all edges of the forward
and the backward pass are equal. Two things of 2.9.0 are not in the public source: cells wait for dout only; and of
several cells that run again each is given the memory state of the one nearest to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, ITEM, STATE, TUPLE
from swapconf.whatif.lift.func_graphs import (
    CALL,
    GRADIENTS,
    K_GRAPH,
    Callee,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    Monad,
    Parameter,
    Value,
    sorted_from,
)

MAY_MERGE = "need_cse_after_recompute"
AGAIN = "recompute_"  # how the scope of what runs again begins
_ZEROS = "ZerosLike"
_NOT_AGAIN = "not_recompute_k_graph"
_PASSED_ON = (ITEM, TUPLE, DEPEND)


def recompute(module: EarlyGraph) -> None:
    """Edits the module."""
    _Recompute(module).run()
    for node in module.nodes():
        if node.scope.startswith(AGAIN):
            node.marks |= {MAY_MERGE}


def primal(k_graph: EarlyFuncGraph, called: Callable[[Value], EarlyFuncGraph | None]) -> EarlyFuncGraph:
    """The func graph that a K graph was made of. K graphs of primitives in it are these primitives, also of those that
    are left out of recompute. ``called``: see `EarlyGraph`."""
    found = EarlyFuncGraph(f"primal of {k_graph.name}", k_graph.parameters, k_graph.flags - {K_GRAPH})
    copies: dict[CNode, CNode] = {}

    def copied(value: Value) -> Value:
        if isinstance(value, Parameter) and value.graph == k_graph.name:
            return Parameter(found.name, value.name)
        return copies.get(value, value) if isinstance(value, CNode) else value

    returned = k_graph.result.inputs[0] if isinstance(k_graph.result, CNode) else k_graph.result
    for node in sorted_from(returned) if isinstance(returned, CNode) else ():
        if node.graph is not k_graph:
            continue
        inner = called(node.inputs[0]) if node.index == 0 else None
        if inner is not None and not inner.is_of_cell and inner.flags & {K_GRAPH, _NOT_AGAIN}:
            call = node.inputs[0]
            assert isinstance(call, CNode)
            copy = _operator(inner, list(map(copied, call.inputs[1:])), found)
        else:
            copy = node.like(map(copied, node.inputs), found)
        copy.marks |= {MAY_MERGE}
        copies[node] = copy
    found.end.inputs.append(copied(returned))
    return found


def _operator(k_graph: EarlyFuncGraph, given: Sequence[Value], home: EarlyFuncGraph) -> CNode:
    """The one node of the K graph of a primitive, as a node of ``home``."""
    node = next(node for node in sorted_from(k_graph.end) if node.graph is k_graph and node.primitive != TUPLE)
    known = {Parameter(k_graph.name, name): value for name, value in zip(k_graph.parameters, given, strict=True)}
    return node.like((known.get(one, one) if isinstance(one, Parameter) else one for one in node.inputs), home)


@dataclass
class _Recompute:
    """Attributes:
    replaced: Calls of K graphs whose value is the primal's; ``waiting``: those that wait for gradients.
    inserted: Depends of this pass; ``own_tuples``: tuples of primal values.
    states: By func graph the memory state that cells are given that run again.
    """

    module: EarlyGraph
    users: dict[CNode, list[tuple[CNode, int]]] = field(default_factory=dict)
    replaced: set[CNode] = field(default_factory=set)
    waiting: set[CNode] = field(default_factory=set)
    inserted: set[CNode] = field(default_factory=set)
    own_tuples: set[CNode] = field(default_factory=set)
    states: dict[EarlyFuncGraph, Value] = field(default_factory=dict)
    primals: dict[str, EarlyFuncGraph] = field(default_factory=dict)

    def run(self) -> None:
        ordered = sorted_from(self.module.graphs[self.module.entry].end, first_first=False, module=self.module)
        for node in ordered:
            for place, given in enumerate(node.inputs):
                if isinstance(given, CNode):
                    self.users.setdefault(given, []).append((node, place))
        for node in reversed(ordered):
            call = node.inputs[0] if node.index == 0 else None
            k_graph = self.module.k_graph(call) if isinstance(call, CNode) else None
            if not isinstance(call, CNode) or k_graph is None or call in self.waiting or node.graph.is_k_graph:
                continue
            if k_graph.is_of_cell:
                called = self._new(CALL, [Callee(self._primal(k_graph).name), *call.inputs[1:]], node.graph)
            else:
                called = self._known(_operator(k_graph, call.inputs[1:], node.graph))
            self._read_primal(node, called, k_graph.is_of_cell, {})
            self.replaced.add(call)
            if not self._reads_again(call):
                self._wait(node.graph, call)

    def _primal(self, k_graph: EarlyFuncGraph) -> EarlyFuncGraph:
        if k_graph.name not in self.primals:
            found = self.primals[k_graph.name] = primal(k_graph, self.module.called)
            self.module.graphs[found.name] = found
        return self.primals[k_graph.name]

    # --- edits

    def _new(self, primitive: str, inputs: Iterable[Value], graph: EarlyFuncGraph) -> CNode:
        return self._known(CNode(primitive, list(inputs), graph))

    def _known(self, node: CNode) -> CNode:
        for place, given in enumerate(node.inputs):
            if isinstance(given, CNode):
                self.users.setdefault(given, []).append((node, place))
        return node

    def _set(self, node: CNode, place: int, value: Value) -> None:
        before = node.inputs[place]
        if isinstance(before, CNode) and (node, place) in self.users.get(before, ()):
            self.users[before].remove((node, place))
        node.inputs[place] = value
        if isinstance(value, CNode):
            self.users.setdefault(value, []).append((node, place))

    def _replace(self, node: CNode, value: CNode) -> None:
        for user, place in self._users(node):
            self._set(user, place, value)

    def _users(self, node: CNode) -> list[tuple[CNode, int]]:
        return list(self.users.get(node, ()))

    def _waits(self, value: Value, awaited: CNode, graph: EarlyFuncGraph) -> CNode:
        node = self._new(DEPEND, (value, awaited), graph)
        self.inserted.add(node)
        return node

    # --- questions

    def _is_gradient(self, node: CNode) -> bool:
        """`IsGradNode`."""
        if node.scope.startswith("Gradients"):
            return True
        maker: Value = node
        while isinstance(maker, CNode) and maker.primitive == ITEM:
            maker = maker.inputs[0]
        if node.primitive != ITEM or not isinstance(maker, CNode):
            return False
        if maker.scope.startswith("Gradients"):
            return True
        called = self.module.called(maker)
        names = maker.closures if called is None else (called.name,)
        graphs = (self.module.graphs[name] for name in names if name in self.module.graphs)
        return maker.primitive == CALL and any(GRADIENTS in graph.flags for graph in graphs)

    def _output(self, call: CNode, index: int) -> CNode | None:
        """The value (0) or the closure (1) of a K graph as it is taken out of what the call returns."""
        return next((user for user, _ in self._users(call) if user.index == index), None)

    def _gradients_called(self, call: CNode) -> CNode | None:
        """`GetBpropCaller`: the call of its gradients."""
        closure = self._output(call, 1)
        users = self._users(closure) if closure is not None else []
        return users[0][0] if users else None

    def _reads_again(self, call: CNode) -> bool:
        """`HasRecomputedInput`: reads what the K graph of a primitive makes."""
        for given in call.inputs:
            if not isinstance(given, CNode):
                continue
            if given.primitive == TUPLE:
                return self._reads_again(given)
            if given.primitive == DEPEND and self._reads_again(given):
                return True
            maker = given.inputs[0] if given.primitive == ITEM else None
            if isinstance(maker, CNode) and maker.primitive == ITEM:
                maker = maker.inputs[0]
            k_graph = self.module.k_graph(maker) if isinstance(maker, CNode) else None
            if k_graph is not None and not k_graph.is_of_cell:
                return True
        return False

    def _is_read_again(self, node: CNode) -> bool:
        """`HasRecomputedOutput`."""
        if node.primitive in _PASSED_ON:
            return any(self._is_read_again(user) for user, _ in self._users(node))
        return self.module.k_graph(node) is not None

    # --- the primal

    def _read_primal(self, origin: CNode, value: CNode, is_cell: bool, tuples: dict[CNode, CNode]) -> None:
        """`AddNewPrimalNode`: who reads ``origin`` reads ``value``, but for gradients of a primitive."""
        for user, place in self._users(origin):
            is_followed = is_cell or not self._is_gradient(user)
            if user.primitive == ITEM and is_followed:
                self._read_primal(user, self._new(ITEM, (value, user.inputs[1]), user.graph), is_cell, tuples)
            elif user.primitive == DEPEND and user not in self.inserted and is_followed:
                copy = self._new(DEPEND, user.inputs, user.graph)
                self._set(copy, place, value)
                self._read_primal(user, copy, is_cell, tuples)
            elif user.primitive == TUPLE and is_followed and not (len(user.inputs) == 2 and user.graph.closure):
                if user in self.own_tuples or user in tuples:
                    self._set(tuples.get(user, user), place, value)
                    continue
                copy = tuples[user] = self._new(TUPLE, user.inputs, user.graph)
                self.own_tuples.add(copy)
                self._set(copy, place, value)
                self._read_primal(user, copy, is_cell, tuples)
            elif is_cell or (self.module.k_graph(user) is None and not self._is_gradient(user)):
                self._set(user, place, value)

    # --- dout

    def _wait(self, graph: EarlyFuncGraph, call: CNode) -> None:
        """`AddDependNodes`."""
        last, awaited = dict[CNode, None](), dict[Value, None]()
        self._ends(call, last, awaited)
        if not awaited:
            return
        gradients = self._gradients_called(call)
        first = next(iter(awaited))
        home = gradients.graph if gradients is not None else first.graph if isinstance(first, CNode) else graph
        waiting = set(last)
        for node in last:
            self._callers(node, waiting)
        known: dict[CNode, bool] = {}
        found = [one for one in awaited if not isinstance(one, CNode) or not self._comes_of(one, home, waiting, known)]
        tied = self._new(TUPLE, found, home)
        k_graph = self.module.k_graph(call)
        assert k_graph is not None
        if home is not graph:
            self._move(home, last, tied)
        elif k_graph.is_of_cell:
            given = (self._waits(value, tied, graph) for value in call.inputs[1:])
            copy = self._new(CALL, (call.inputs[0], *given), graph)
            self.waiting.add(copy)
            self.replaced.add(copy)
            self._replace(call, copy)
        else:
            self._set(call, 1, self._waits(call.inputs[1], tied, graph))
            self.waiting.add(call)

    def _ends(self, node: CNode, last: dict[CNode, None], awaited: dict[Value, None]) -> None:
        """`GetDependencies`: the last calls that run again behind one, and what these wait for."""
        k_graph = self.module.k_graph(node)
        if node in last or (k_graph is None and node.primitive not in _PASSED_ON):
            return
        if k_graph is not None:
            value = self._output(node, 0)
            if value is None or not self._is_read_again(value):
                beside = list[Value]()
                if value is not None and not k_graph.is_of_cell:
                    self._beside(value, node, beside)
                gradients = self._gradients_called(node)
                if beside:
                    last[node] = None
                    awaited |= dict.fromkeys(beside)
                elif gradients is not None:
                    last[node] = None
                    dout = gradients.inputs[1]
                    if value is None or not self._is_of(value, dout):
                        awaited[dout] = None
                return
        for user, _ in self._users(node):
            if k_graph is None or user.index != 1:
                self._ends(user, last, awaited)

    def _beside(self, node: CNode, before: CNode, found: list[Value]) -> None:
        """`GetGradUsers`: the other gradients that the gradients read."""
        if node.primitive in (ITEM, DEPEND):
            for user, _ in self._users(node):
                self._beside(user, node, found)
        elif self._is_gradient(node):
            others = (given for given in node.inputs if isinstance(given, CNode) and given is not before)
            found += [given for given in others if self._is_gradient(given)]

    def _is_of(self, value: CNode, dout: Value) -> bool:
        if dout is value:
            return True
        if not isinstance(dout, CNode) or dout.primitive not in (ITEM, TUPLE, _ZEROS):
            return False
        return any(self._is_of(value, given) for given in dout.inputs if isinstance(given, CNode))

    def _callers(self, node: CNode, found: set[CNode]) -> None:
        for given in node.inputs:
            if isinstance(given, CNode) and given.primitive == ITEM:
                self._callers(given, found)
            elif isinstance(given, CNode) and given in self.replaced - found and self.module.k_graph(given) is not None:
                found.add(given)
                self._callers(given, found)

    def _comes_of(self, node: CNode, home: EarlyFuncGraph, calls: set[CNode], known: dict[CNode, bool]) -> bool:
        """`FilterDependency`: is a gradient of what would wait for it."""
        if node not in known:
            known[node] = node in calls or any(
                self._comes_of(given, home, calls, known) if given.graph is home else _maker(given) in calls
                for given in node.inputs
                if isinstance(given, CNode)
            )
        return known[node]

    def _move(self, home: EarlyFuncGraph, last: Iterable[CNode], tied: CNode) -> None:
        moved: dict[CNode, CNode] = {}
        for node in last:
            self.waiting.add(self._moved(home, node, tied, moved))
        for origin, copy in list(moved.items()):
            value = self._output(origin, 0) if self.module.k_graph(origin) is not None else None
            if value is not None:
                self._read_moved(home, value, self._new(ITEM, (copy, Constant("I64(0)")), home))
            elif self.module.k_graph(origin) is not None:
                self._replace(origin, copy)

    def _moved(self, home: EarlyFuncGraph, node: CNode, tied: CNode, moved: dict[CNode, CNode]) -> CNode:
        """`MoveKCallerToBprop`."""
        if node in moved:
            return moved[node]
        k_graph = self.module.k_graph(node)
        if k_graph is not None:
            return self._moved_call(home, node, k_graph, tied, moved) if node in self.replaced else node
        if node.primitive not in (*_PASSED_ON, STATE):
            return node
        maker = node.inputs[0] if node.index == 0 else None
        if isinstance(maker, CNode) and self.module.k_graph(maker) is not None and maker not in self.replaced:
            return node
        given = [self._moved(home, one, tied, moved) if isinstance(one, CNode) else one for one in node.inputs]
        moved[node] = copy = self._new(node.primitive, given, home)
        return copy

    def _moved_call(
        self, home: EarlyFuncGraph, call: CNode, k_graph: EarlyFuncGraph, tied: CNode, moved: dict[CNode, CNode]
    ) -> CNode:
        given = list(call.inputs)
        if self._reads_again(call):
            given = [self._moved(home, one, tied, moved) if isinstance(one, CNode) else one for one in given]
        elif not k_graph.is_of_cell:
            given[1] = self._waits(given[1], tied, home)
        if k_graph.is_of_cell:
            gradients = self._gradients_called(call)
            if gradients is not None:
                tied = self._new(TUPLE, (*tied.inputs, gradients.inputs[1]), home)
            given[1:] = [self._waits(self._state(one, call), tied, home) for one in given[1:]]
        copy = self._new(CALL, given, home)
        self.waiting.add(copy)
        self.replaced.add(copy)
        closure = self._output(call, 1)
        if closure is not None:
            self._replace(closure, self._new(ITEM, (copy, Constant("I64(1)")), home))
        moved[call] = copy
        return copy

    def _state(self, given: Value, call: CNode) -> Value:
        """Seen in 2.9.0, not in the public source: all cells see the memory state of the last one."""
        is_state = isinstance(given, CNode | Parameter) and given.monad is Monad.MEMORY
        return self.states.setdefault(call.graph, given) if is_state else given

    def _read_moved(self, home: EarlyFuncGraph, origin: CNode, value: CNode) -> None:
        """`ReplaceFinalForwardGetter`."""
        for user, place in self._users(origin):
            if user.primitive == ITEM:
                self._read_moved(home, user, self._new(ITEM, (value, user.inputs[1]), home))
            elif user.primitive == DEPEND:
                copy = self._new(DEPEND, user.inputs, home)
                self._set(copy, place, value)
                self._read_moved(home, user, copy)
            else:
                self._set(user, place, value)


def _maker(node: CNode) -> Value:
    value: Value = node
    while isinstance(value, CNode) and value.primitive == ITEM:
        value = value.inputs[0]
    return value
