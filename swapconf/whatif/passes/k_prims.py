"""Pass ``J`` for primitives that run again by themselves: each is a K graph of its own again, as if never inlined.

Source: MindSpore, ``frontend/optimizer/ad/dfunctor.cc`` (`MapPrimitiveToK`) and ``kprim.cc``. J makes a K graph of each
primitive, which returns its value and the closure of its gradients, and ``a_1`` inlines those without the flag
``recompute_k_graph``, which that of a primitive with the attribute ``recompute`` has. It reads that attribute in a
forward pass in which all are inlined, and whose gradient a node is (``forward_unique_id``), and changes each primitive
that is marked into a call of its K graph, and its gradients into a call of the closure.

The gradient of a sum is the one that arrives (dout), which nobody reads as that of the sum any more: it is what the
gradients of an addend read that nobody else reads. Where there is none, the strategy is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from swapconf.whatif.passes.k_graphs import KGraphs
from swapconf.whatif.passes.marks import NoBorder

_DOUT, _NO_ENVIRONMENT = "dout", Constant("None")
_SUMS = frozenset({"Add", "AddExt"})


def outline(module: EarlyGraph) -> None:
    """Edits the module. Raises NoBorder."""
    marked = [node for node in own_nodes(module.forward) if node.attributes.get(RECOMPUTE) == YES]
    if not marked:
        return
    graphs, gradients = KGraphs(module), dict[str, dict[CNode, None]]()
    graphs.sorted()
    for node in own_nodes(module.backward):
        gradients.setdefault(node.forward_unique, {})[node] = None
    for number, node in enumerate(reversed(marked)):
        _Primitive(graphs, node, gradients, number).outline()


class _Primitive:
    def __init__(
        self, graphs: KGraphs, node: CNode, gradients: Mapping[str, Mapping[CNode, None]], number: int
    ) -> None:
        self._graphs, self._node, self._all_gradients = graphs, node, gradients
        self._backward, self._gradients = graphs.module.backward, self._gradients_of(node)
        self._k_graph = EarlyFuncGraph(
            f"again_▸PrimFunc_{node.primitive}_{number}",
            tuple(f"para{place}_x" for place in range(len(node.inputs))),
            frozenset({K_GRAPH}),
        )
        self._closure = EarlyFuncGraph(f"again_◂PrimFunc_{node.primitive}_{number}", (_DOUT,), frozenset({GRADIENTS}))

    def _gradients_of(self, node: CNode) -> Mapping[CNode, None]:
        return self._all_gradients.get(node.unique, {}) if node.unique else {}

    def outline(self) -> None:
        node, k_graph, closure, graphs = self._node, self._k_graph, self._closure, self._graphs
        made = node.like((Parameter(k_graph.name, name) for name in k_graph.parameters), k_graph)
        k_graph.end.inputs.append(CNode(TUPLE, [made, Callee(closure.name)], k_graph))
        graphs.module.graphs |= {k_graph.name: k_graph, closure.name: closure}
        handed = self._addend() if node.primitive in _SUMS else {}
        call = graphs.new(CALL, [Callee(k_graph.name), *node.inputs], node.graph)
        self._call_closure(call, made, handed)
        value = graphs.new(ITEM, [call, Constant.of(0)], node.graph)
        value.types = node.types
        self._read_instead(node, value)

    def _read_instead(self, node: CNode, value: CNode) -> None:
        for user, place in self._graphs.users_of(node):
            if user not in self._gradients:
                self._graphs.set_input(user, place, value)

    def _call_closure(self, call: CNode, made: CNode, handed: Mapping[CNode, None]) -> None:
        """In the backward pass, for what it returns: the gradients, of a sum dout. ``handed``: see `_addend`."""
        graphs, closure = self._graphs, self._closure
        dout = self._dout(self._gradients or handed)
        returned: list[Value] = [_NO_ENVIRONMENT]
        closure.end.inputs.append(CNode(TUPLE, returned, closure))
        if dout is None:
            return
        copies = self._copied(made, dout)
        results = [node for node in self._gradients if self._is_read(node)]
        returned += [copies[node] for node in results] or [Parameter(closure.name, _DOUT)]
        closure.end.inputs[:] = [CNode(TUPLE, returned, closure)]
        taken = graphs.new(ITEM, [call, Constant.of(1)], call.graph)
        called = graphs.new(CALL, [taken, dout], self._backward)
        called.closures = (closure.name,)
        items = [graphs.new(ITEM, [called, Constant.of(turn)], self._backward) for turn in range(1, len(returned))]
        for result, item in zip(results, items, strict=False):
            item.types = result.types
            self._read_instead(result, item)
        for node in handed:
            for place, given in enumerate(node.inputs):
                if given is dout:
                    graphs.set_input(node, place, items[0])

    def _is_read(self, gradient: CNode) -> bool:
        """By others."""
        return any(user not in self._gradients for user, _ in self._graphs.users_of(gradient))

    def _addend(self) -> Mapping[CNode, None]:
        """Gradients of an addend that nobody else reads. Raises NoBorder."""
        for given in self._node.inputs:
            reader = self._node
            while isinstance(given, CNode) and {user for user, _ in self._graphs.users_of(given)} == {reader}:
                if gradients := self._gradients_of(given):
                    return gradients
                reader, given = given, given.inputs[0]
        raise NoBorder(f"{self._node.scope}/{self._node.operator}")

    def _dout(self, gradients: Mapping[CNode, None]) -> Value | None:
        """Of several outputs a tuple; None where no gradient arrives."""
        arrived = dict[Value, None]()
        for given in (given for node in gradients for given in node.inputs):
            owner = given.graph if isinstance(given, CNode) else None
            is_parameter = isinstance(given, Parameter) and given.graph == self._backward.name
            if is_parameter or (owner is self._backward and given not in gradients):
                arrived[given] = None
        if len(arrived) > 1:
            return self._graphs.new(TUPLE, list(arrived), self._backward)
        return next(iter(arrived), None)

    def _copied(self, made: CNode, dout: Value) -> Mapping[CNode, CNode]:
        """The gradients as nodes of the closure."""
        closure, parameter = self._closure, Parameter(self._closure.name, _DOUT)
        known: dict[Value, Value] = {self._node: made, dout: parameter}
        for name, value in zip(self._k_graph.parameters, self._node.inputs, strict=True):
            if isinstance(value, CNode | Parameter):
                known.setdefault(value, Parameter(self._k_graph.name, name))
        if isinstance(dout, CNode) and dout.primitive == TUPLE:
            for place, value in enumerate(dout.inputs):
                known[value] = CNode(ITEM, [parameter, Constant.of(place)], closure)
        copies: dict[CNode, CNode] = {}
        for node in self._gradients:
            for given in node.inputs:
                if isinstance(given, CNode) and given.index is not None and given.inputs[0] is self._node:
                    known.setdefault(given, given.like([made, given.inputs[1]], closure))
            known[node] = copies[node] = node.like((known.get(given, given) for given in node.inputs), closure)
        return copies
