"""Pass ``cell_reuse_recompute_pass``: K graphs of what is recomputed move into the backward pass.

Source: MindSpore, ``frontend/optimizer/irpass/recompute.cc`` (`AddRecomputeNodes`), which runs on the func graphs of an
`EarlyGraph` once gradients are made. It reads flags of func graphs, calls of K graphs and whose gradient a node is, and
changes, from the end of the step back:

- Who reads what a K graph makes reads what its primal makes, called in its place (`_read_primal`), but for gradients.
- The call of the K graph moves to where its gradients are called, and everything that it is given waits there for the
  gradients that arrive (dout) (`_wait`, `_moved`). What reads several K graphs one behind another moves with the last.
- What runs again is marked, so that cse may merge it (`AddCseAttr`).

Compared with MindSpore's own graph behind the pass (MindSpore 2.9.0): of 23 strategies of Llama, Qwen3 and DeepSeek-V3
all nodes are equal, each with all that is upstream; 3 with norms or operators that run again by themselves have a tie
in another order, or a state that goes later. Two things of 2.9.0 are not in the public source: cells wait for dout
only; and of several cells that run again each is given the states that the one nearest to the end is given, but for
constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, ITEM, STATE, TUPLE
from swapconf.trace.postorder import postorder
from swapconf.whatif.lift.func_graphs import (
    CALL,
    Callee,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    Monad,
    Parameter,
    Value,
    seen_through,
)
from swapconf.whatif.passes.k_graphs import PASSED_ON, KGraphs
from swapconf.whatif.passes.primal import MAY_MERGE, Primal, operator, primal

AGAIN = "recompute_"  # how the scope of what runs again begins
_ZEROS = "ZerosLike"


def recompute(module: EarlyGraph) -> list[Primal]:
    """Edits the module; the primals of cells that run again."""
    done = _Recompute(module, KGraphs(module))
    done.run()
    for node in module.nodes():
        if node.scope.startswith(AGAIN):
            node.marks |= {MAY_MERGE}
    return list(done.primals.values())


@dataclass
class _Recompute:
    """Attributes:
    replaced: Calls of K graphs whose value is the primal's; ``waiting``: those that wait for gradients.
    own_tuples: Tuples of primal values.
    states: By func graph and kind the state that cells are given that run again.
    """

    module: EarlyGraph
    graphs: KGraphs
    replaced: set[CNode] = field(default_factory=set)
    waiting: set[CNode] = field(default_factory=set)
    own_tuples: set[CNode] = field(default_factory=set)
    states: dict[tuple[EarlyFuncGraph, Monad], Value] = field(default_factory=dict)
    primals: dict[str, Primal] = field(default_factory=dict)

    def run(self) -> None:
        for node in reversed(self.graphs.sorted()):
            call = node.inputs[0] if node.index == 0 else None
            k_graph = self.module.k_graph(call) if isinstance(call, CNode) else None
            if not isinstance(call, CNode) or k_graph is None or call in self.waiting or node.graph.is_k_graph:
                continue
            if k_graph.is_of_cell:
                called = self.graphs.new(CALL, [Callee(self._primal(k_graph).name), *call.inputs[1:]], node.graph)
            else:
                called = self.graphs.known(operator(k_graph, call.inputs[1:], node.graph))
            self._read_primal(node, called, k_graph.is_of_cell, {})
            self.replaced.add(call)
            if not self.graphs.reads_again(call):
                self._wait(node.graph, call)

    def _primal(self, k_graph: EarlyFuncGraph) -> EarlyFuncGraph:
        if k_graph.name not in self.primals:
            found = self.primals[k_graph.name] = primal(k_graph, self.module.called)
            self.module.graphs[found.graph.name] = found.graph
        return self.primals[k_graph.name].graph

    # --- the primal

    def _read_primal(self, origin: CNode, value: CNode, is_cell: bool, tuples: dict[CNode, CNode]) -> None:
        """`AddNewPrimalNode`: who reads ``origin`` reads ``value``, but for gradients of a primitive."""
        for user, place in self.graphs.users_of(origin):
            is_followed = is_cell or not self.graphs.is_gradient(user)
            if user.primitive == ITEM and is_followed:
                self._read_primal(user, self.graphs.new(ITEM, (value, user.inputs[1]), user.graph), is_cell, tuples)
            elif user.primitive == DEPEND and user not in self.graphs.inserted and is_followed:
                copy = self.graphs.new(DEPEND, user.inputs, user.graph)
                self.graphs.set_input(copy, place, value)
                self._read_primal(user, copy, is_cell, tuples)
            elif user.primitive == TUPLE and is_followed and not (len(user.inputs) == 2 and user.graph.closure):
                if user in self.own_tuples or user in tuples:
                    self.graphs.set_input(tuples.get(user, user), place, value)
                    continue
                copy = tuples[user] = self.graphs.new(TUPLE, user.inputs, user.graph)
                self.own_tuples.add(copy)
                self.graphs.set_input(copy, place, value)
                self._read_primal(user, copy, is_cell, tuples)
            elif is_cell or (self.module.k_graph(user) is None and not self.graphs.is_gradient(user)):
                self.graphs.set_input(user, place, value)

    # --- dout

    def _wait(self, graph: EarlyFuncGraph, call: CNode) -> None:
        """`AddDependNodes`."""
        last, awaited = dict[CNode, None](), dict[Value, None]()
        self._ends(call, last, awaited)
        if not awaited:
            return
        gradients = self.graphs.gradients_called(call)
        first = next(iter(awaited))
        home = gradients.graph if gradients is not None else first.graph if isinstance(first, CNode) else graph
        waiting = set(last)
        for node in last:
            self._callers(node, waiting)
        known: dict[CNode, bool] = {}
        found = [one for one in awaited if not isinstance(one, CNode) or not self._comes_of(one, home, waiting, known)]
        tied = self.graphs.new(TUPLE, found, home)
        k_graph = self.module.k_graph(call)
        assert k_graph is not None
        if home is not graph:
            self._move(home, last, tied)
        elif k_graph.is_of_cell:
            given = (self.graphs.waits(value, tied, graph) for value in call.inputs[1:])
            copy = self.graphs.new(CALL, (call.inputs[0], *given), graph)
            self.waiting.add(copy)
            self.replaced.add(copy)
            self.graphs.replace(call, copy)
        else:
            self.graphs.set_input(call, 1, self.graphs.waits(call.inputs[1], tied, graph))
            self.waiting.add(call)

    def _ends(self, node: CNode, last: dict[CNode, None], awaited: dict[Value, None]) -> None:
        """`GetDependencies`: the last calls that run again behind one, and what these wait for."""
        k_graph = self.module.k_graph(node)
        if node in last or (k_graph is None and node.primitive not in PASSED_ON):
            return
        if k_graph is not None:
            value = self.graphs.output(node, 0)
            if value is None or not self.graphs.is_read_again(value):
                beside = list[Value]()
                if value is not None and not k_graph.is_of_cell:
                    self._beside(value, node, beside)
                gradients = self.graphs.gradients_called(node)
                if beside:
                    last[node] = None
                    awaited |= dict.fromkeys(beside)
                elif gradients is not None:
                    last[node] = None
                    awaited |= dict.fromkeys(self._arriving(value, gradients.inputs[1]))
                return
        for user, _ in self.graphs.users_of(node):
            if k_graph is None or user.index != 1:
                self._ends(user, last, awaited)

    def _beside(self, node: CNode, before: CNode, found: list[Value]) -> None:
        """`GetGradUsers`: the other gradients that the gradients read."""
        if node.primitive in (ITEM, DEPEND):
            for user, _ in self.graphs.users_of(node):
                self._beside(user, node, found)
        elif self.graphs.is_gradient(node):
            others = (given for given in node.inputs if isinstance(given, CNode) and given is not before)
            found += [given for given in others if self.graphs.is_gradient(given)]

    def _arriving(self, value: CNode | None, dout: Value) -> list[Value]:
        """Of several outputs those that a gradient arrives for (seen in 2.9.0: the public source has none wait)."""
        if value is None or not self._is_of(value, dout):
            return [dout]
        elements = dout.inputs if isinstance(dout, CNode) and dout.primitive == TUPLE else ()
        return [given for given in elements if isinstance(given, CNode) and not self._is_of(value, given)]

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

        def inside(value: CNode) -> list[CNode]:
            given = (item for item in value.inputs if isinstance(item, CNode))
            return [item for item in given if item.graph is home and item not in known]

        for value in postorder([node] if node not in known else [], inside):
            known[value] = value in calls or any(
                known.get(given, False) if given.graph is home else seen_through(given, (ITEM,)) in calls
                for given in value.inputs
                if isinstance(given, CNode)
            )
        return known[node]

    def _move(self, home: EarlyFuncGraph, last: Iterable[CNode], tied: CNode) -> None:
        moved: dict[CNode, CNode] = {}
        for node in last:
            self.waiting.add(self._moved(home, node, tied, moved))
        for origin, copy in list(moved.items()):
            value = self.graphs.output(origin, 0) if self.module.k_graph(origin) is not None else None
            if value is not None:
                self._read_moved(home, value, self.graphs.new(ITEM, (copy, Constant.of(0)), home))
            elif self.module.k_graph(origin) is not None:
                self.graphs.replace(origin, copy)

    def _moved(self, home: EarlyFuncGraph, node: CNode, tied: CNode, moved: dict[CNode, CNode]) -> CNode:
        """`MoveKCallerToBprop`."""
        if node in moved:
            return moved[node]
        k_graph = self.module.k_graph(node)
        if k_graph is not None:
            return self._moved_call(home, node, k_graph, tied, moved) if node in self.replaced else node
        if node.primitive not in (*PASSED_ON, STATE):
            return node
        maker = node.inputs[0] if node.index == 0 else None
        if isinstance(maker, CNode) and self.module.k_graph(maker) is not None and maker not in self.replaced:
            return node
        given = [self._moved(home, one, tied, moved) if isinstance(one, CNode) else one for one in node.inputs]
        moved[node] = copy = self.graphs.new(node.primitive, given, home)
        return copy

    def _moved_call(
        self, home: EarlyFuncGraph, call: CNode, k_graph: EarlyFuncGraph, tied: CNode, moved: dict[CNode, CNode]
    ) -> CNode:
        given = list(call.inputs)
        if self.graphs.reads_again(call):
            given = [self._moved(home, one, tied, moved) if isinstance(one, CNode) else one for one in given]
        elif not k_graph.is_of_cell:
            given[1] = self.graphs.waits(given[1], tied, home)
        if k_graph.is_of_cell:
            gradients = self.graphs.gradients_called(call)
            if gradients is not None:
                tied = self.graphs.new(TUPLE, (*tied.inputs, gradients.inputs[1]), home)
            given[1:] = [self.graphs.waits(self._state(one, call), tied, home) for one in given[1:]]
        copy = self.graphs.new(CALL, given, home)
        self.waiting.add(copy)
        self.replaced.add(copy)
        closure = self.graphs.output(call, 1)
        if closure is not None:
            self.graphs.replace(closure, self.graphs.new(ITEM, (copy, Constant.of(1)), home))
        moved[call] = copy
        return copy

    def _state(self, given: Value, call: CNode) -> Value:
        """Seen in 2.9.0, not in the public source: all cells see the states that the last one sees."""
        kind = given.monad if isinstance(given, CNode | Parameter) else None
        return given if kind is None else self.states.setdefault((call.graph, kind), given)

    def _read_moved(self, home: EarlyFuncGraph, origin: CNode, value: CNode) -> None:
        """`ReplaceFinalForwardGetter`."""
        for user, place in self.graphs.users_of(origin):
            if user.primitive == ITEM:
                self._read_moved(home, user, self.graphs.new(ITEM, (value, user.inputs[1]), home))
            elif user.primitive == DEPEND:
                copy = self.graphs.new(DEPEND, user.inputs, home)
                self.graphs.set_input(copy, place, value)
                self._read_moved(home, user, copy)
            else:
                self.graphs.set_input(user, place, value)
