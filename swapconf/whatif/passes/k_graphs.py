"""K graphs in an early graph: who calls them, takes their values and closures, and edits; for `recompute_cell`.

Source: MindSpore, ``frontend/optimizer/irpass/recompute.cc``, whose functions are named below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, ITEM, TUPLE
from swapconf.whatif.lift.func_graphs import (
    CALL,
    GRADIENTS,
    CNode,
    EarlyFuncGraph,
    EarlyGraph,
    Value,
    seen_through,
    sorted_from,
)

PASSED_ON = (ITEM, TUPLE, DEPEND)


@dataclass
class KGraphs:
    """``inserted``: Depends of the pass."""

    module: EarlyGraph
    users: dict[CNode, list[tuple[CNode, int]]] = field(default_factory=dict)
    inserted: set[CNode] = field(default_factory=set)

    def sorted(self) -> list[CNode]:
        """All nodes, each behind its inputs; who reads what is known then."""
        ordered = sorted_from(self.module.graphs[self.module.entry].end, first_first=False, module=self.module)
        for node in ordered:
            self.known(node)
        return ordered

    # --- edits

    def new(self, primitive: str, inputs: Iterable[Value], graph: EarlyFuncGraph) -> CNode:
        return self.known(CNode(primitive, list(inputs), graph))

    def known(self, node: CNode) -> CNode:
        for place, given in enumerate(node.inputs):
            if isinstance(given, CNode):
                self.users.setdefault(given, []).append((node, place))
        return node

    def set_input(self, node: CNode, place: int, value: Value) -> None:
        before = node.inputs[place]
        if isinstance(before, CNode) and (node, place) in self.users.get(before, ()):
            self.users[before].remove((node, place))
        node.inputs[place] = value
        if isinstance(value, CNode):
            self.users.setdefault(value, []).append((node, place))

    def replace(self, node: CNode, value: CNode) -> None:
        for user, place in self.users_of(node):
            self.set_input(user, place, value)

    def users_of(self, node: CNode) -> list[tuple[CNode, int]]:
        return list(self.users.get(node, ()))

    def waits(self, value: Value, awaited: CNode, graph: EarlyFuncGraph) -> CNode:
        node = self.new(DEPEND, (value, awaited), graph)
        self.inserted.add(node)
        return node

    # --- questions

    def is_gradient(self, node: CNode) -> bool:
        """`IsGradNode`."""
        if node.scope.startswith("Gradients"):
            return True
        maker = seen_through(node, (ITEM,))
        if node.primitive != ITEM or not isinstance(maker, CNode):
            return False
        if maker.scope.startswith("Gradients"):
            return True
        called = self.module.called(maker)
        names = maker.closures if called is None else (called.name,)
        graphs = (self.module.graphs[name] for name in names if name in self.module.graphs)
        return maker.primitive == CALL and any(GRADIENTS in graph.flags for graph in graphs)

    def output(self, call: CNode, index: int) -> CNode | None:
        """The value (0) or the closure (1) of a K graph as it is taken out of what the call returns."""
        return next((user for user, _ in self.users_of(call) if user.index == index), None)

    def gradients_called(self, call: CNode) -> CNode | None:
        """`GetBpropCaller`: the call of its gradients."""
        closure = self.output(call, 1)
        users = self.users_of(closure) if closure is not None else []
        return users[0][0] if users else None

    def reads_again(self, call: CNode) -> bool:
        """`HasRecomputedInput`: reads what the K graph of a primitive makes."""
        for given in call.inputs:
            if not isinstance(given, CNode):
                continue
            if given.primitive == TUPLE:
                return self.reads_again(given)
            if given.primitive == DEPEND and self.reads_again(given):
                return True
            maker = given.inputs[0] if given.primitive == ITEM else None
            if isinstance(maker, CNode) and maker.primitive == ITEM:
                maker = maker.inputs[0]
            k_graph = self.module.k_graph(maker) if isinstance(maker, CNode) else None
            if k_graph is not None and not k_graph.is_of_cell:
                return True
        return False

    def is_read_again(self, node: CNode) -> bool:
        """`HasRecomputedOutput`."""
        if node.primitive in PASSED_ON:
            return any(self.is_read_again(user) for user, _ in self.users_of(node))
        return self.module.k_graph(node) is not None
