"""Pass ``J`` for primitives that run again by themselves: each is a K graph of its own again, as if never inlined.

Source: MindSpore, ``frontend/optimizer/ad/dfunctor.cc`` (`MapPrimitiveToK`) and ``kprim.cc``. J makes a K graph of every
primitive, which returns its value and the closure of its gradients, and ``a_1`` inlines those without the flag
``recompute_k_graph``, which that of a primitive with the attribute ``recompute`` has. Reads the early graph, where all
are inlined, and whose gradient a node is (``forward_unique_id``); changes, for each primitive of a forward pass that is
marked, it into a call of its K graph, and its gradients into a call of the closure.

The gradient of a sum is the one that arrives (dout), which nobody reads as that of the sum any more: it is what the
gradients of an addend read that nobody else reads. Where there is none, the strategy is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swapconf.trace.launch_graph import ITEM, TUPLE
from swapconf.whatif.lift.func_graphs import (
    CALL,
    GRADIENTS,
    K_GRAPH,
    RECOMPUTE,
    YES,
    Callee,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    Parameter,
    Value,
    own_nodes,
)

_DOUT, _NO_ENVIRONMENT = "dout", Constant("None")
_SUMS = frozenset({"Add", "AddExt"})


class NoDout(ValueError):
    """Which gradient arrives at a primitive is not to be seen."""


def outline(module: EarlyGraph) -> None:
    """Edits the module. Raises NoDout."""
    forward = module.forward
    marked = [node for node in own_nodes(forward) if node.attributes.get(RECOMPUTE) == YES]
    for number, node in enumerate(reversed(marked)):
        _Primitive(module, node, number).outline()


class _Primitive:
    """Attributes:
    gradients: Nodes of its gradients; ``handed``: of a sum those of an addend, which read its dout.
    """

    def __init__(self, module: EarlyGraph, node: CNode, number: int) -> None:
        self._module, self._node, self._backward, self._users = module, node, module.backward, module.users()
        self._k_graph = EarlyFuncGraph(
            f"again_▸PrimFunc_{node.primitive}_{number}",
            tuple(f"para{place}_x" for place in range(len(node.inputs))),
            frozenset({K_GRAPH}),
        )
        self._closure = EarlyFuncGraph(
            f"again_◂PrimFunc_{node.primitive}_{number}", (_DOUT,), frozenset({GRADIENTS})
        )
        self.gradients = self._gradients_of(node)

    def users_of(self, node: CNode) -> Sequence[tuple[CNode, int]]:
        return self._users.get(node, ())

    def _gradients_of(self, node: CNode) -> dict[CNode, None]:
        nodes = own_nodes(self._backward) if node.unique else []
        return dict.fromkeys(one for one in nodes if one.forward_unique == node.unique)

    def outline(self) -> None:
        node, k_graph, closure = self._node, self._k_graph, self._closure
        made = node.like((Parameter(k_graph.name, name) for name in k_graph.parameters), k_graph)
        k_graph.end.inputs.append(CNode(TUPLE, [made, Callee(closure.name)], k_graph))
        call = CNode(CALL, [Callee(k_graph.name), *node.inputs], node.graph)
        value = CNode(ITEM, [call, Constant("I64(0)")], node.graph, types=node.types)
        self._module.graphs |= {k_graph.name: k_graph, closure.name: closure}
        self._call_closure(call, made)
        for user, place in self.users_of(node):
            if user not in self.gradients:
                user.inputs[place] = value

    def _call_closure(self, call: CNode, made: CNode) -> None:
        """In the backward pass, for what it returns: the gradients, of a sum dout."""
        handed = self._addend() if self._node.primitive in _SUMS else {}
        dout = self._dout(self.gradients or handed)
        if dout is None:
            self._closure.end.inputs.append(CNode(TUPLE, [_NO_ENVIRONMENT], self._closure))
            return
        copies = self._copied(made, dout)
        results = [one for one in self.gradients if any(use[0] not in self.gradients for use in self.users_of(one))]
        parameter = Parameter(self._closure.name, _DOUT)
        returned: list[Value] = [copies[one] for one in results] if results else [parameter]
        self._closure.end.inputs.append(CNode(TUPLE, [_NO_ENVIRONMENT, *returned], self._closure))
        taken = CNode(ITEM, [call, Constant("I64(1)")], call.graph)
        called = CNode(CALL, [taken, dout], self._backward, closures=(self._closure.name,))
        items = [CNode(ITEM, [called, Constant(f"I64({turn})")], self._backward) for turn in range(1, len(returned) + 1)]
        for result, item in zip(results, items, strict=False):
            item.types = result.types
            for user, place in self.users_of(result):
                if user not in self.gradients:
                    user.inputs[place] = item
        for node in handed:
            node.inputs[:] = [items[0] if given is dout else given for given in node.inputs]

    def _addend(self) -> dict[CNode, None]:
        """Gradients of an addend that nobody else reads. Raises NoDout."""
        for given in self._node.inputs:
            reader = self._node
            while isinstance(given, CNode) and {user for user, _ in self.users_of(given)} == {reader}:
                if gradients := self._gradients_of(given):
                    return gradients
                reader, given = given, given.inputs[0]
        raise NoDout(f"{self._node.scope}/{self._node.operator}")

    def _dout(self, gradients: Mapping[CNode, None]) -> Value | None:
        """Of several outputs a tuple; None where no gradient arrives."""
        arrived = dict[Value, None]()
        for given in (given for node in gradients for given in node.inputs):
            owner = given.graph if isinstance(given, CNode) else None
            is_parameter = isinstance(given, Parameter) and given.graph == self._backward.name
            if is_parameter or (owner is self._backward and given not in gradients):
                arrived[given] = None
        if len(arrived) > 1:
            return CNode(TUPLE, list(arrived), self._backward)
        return next(iter(arrived), None)

    def _copied(self, made: CNode, dout: Value) -> Mapping[CNode, CNode]:
        """The gradients as nodes of the closure."""
        closure, parameter = self._closure, Parameter(self._closure.name, _DOUT)
        known: dict[Value, Value] = {self._node: made, dout: parameter}
        for name, value in zip(self._k_graph.parameters, self._node.inputs, strict=True):
            if isinstance(value, CNode | Parameter):
                known.setdefault(value, Parameter(self._k_graph.name, name))
        if isinstance(dout, CNode) and dout not in self._users:
            for place, value in enumerate(dout.inputs):
                known[value] = CNode(ITEM, [parameter, Constant(f"I64({place})")], closure)
        copies: dict[CNode, CNode] = {}
        for node in self.gradients:
            for given in node.inputs:
                if isinstance(given, CNode) and given.index is not None and given.inputs[0] is self._node:
                    known.setdefault(given, given.like([made, given.inputs[1]], closure))
            known[node] = copies[node] = node.like((known.get(given, given) for given in node.inputs), closure)
        return copies
