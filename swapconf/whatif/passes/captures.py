"""Pass ``cconv``, and the manager before it: in which order a backward pass captures values of its forward pass.

Source: MindSpore, ``core/ir/manager.cc`` (`AcquireNodes`, `AddEdge`), ``func_graph_cloner.cc`` (`LiftingClone`).
The free variables of a func graph become its parameters in the order in which the manager met them: when it was made
anew for the last time, by `renormalize` in the third round of ``opt_a``; what later passes have the backward pass read
stands behind these. `free_variables` is the first part, `captures` both.

What comes later, in the order that was seen (35 runs, 4 families, MindSpore 2.9.0): loads whose virtual operator is
gone, in the order in which `b_1` takes these away; values of calls that were inlined: elements of what is returned
before elements of these, other calls before cells that run again, of those all first elements, then all second ones,
the last call first; what K graphs read that are inlined; what ``cse`` has put in place of something else. Monads come
last (`FVTotalComputer`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from swapconf.trace.launch_graph import ITEM
from swapconf.whatif.lift.func_graphs import (
    CALL,
    VIRTUAL,
    Callee,
    CNode,
    EarlyFuncGraph,
    EarlyGraph,
    Parameter,
    Value,
    own_nodes,
    seen_through,
)
from swapconf.whatif.passes.cse import stays
from swapconf.whatif.passes.inline import Inlined

_Returned: TypeAlias = "tuple[int, bool, tuple[int, ...], int, tuple[int, ...], Value]"


def free_variables(module: EarlyGraph, graph: EarlyFuncGraph) -> list[Value]:
    """In the order in which the manager meets them."""
    search = _Acquired(module)
    search.add(module.graphs[module.entry])
    return list(search.free.get(graph, ()))


class _Acquired:
    def __init__(self, module: EarlyGraph) -> None:
        self._module = module
        self._graphs, self._all = set[str](), set[Value]()
        self.free: dict[EarlyFuncGraph, dict[Value, None]] = {}

    def add(self, graph: EarlyFuncGraph) -> None:
        if graph.name in self._graphs:
            return
        self._graphs.add(graph.name)
        stack: list[Value] = [*(Parameter(graph.name, name) for name in graph.parameters), graph.end]
        seen = set[Value]()
        while stack:
            value = stack.pop()
            if value in seen or value in self._all or not isinstance(value, CNode | Parameter | Callee):
                continue
            seen.add(value)
            self._all.add(value)
            owner = value.graph if isinstance(value, CNode) else self._module.graphs.get(_name(value))
            if owner is not None and owner.end not in seen:
                stack.append(owner.end)
            if isinstance(value, CNode):
                for given in value.inputs:
                    self._edge(value, given)
                stack += value.inputs

    def _edge(self, node: CNode, given: Value) -> None:
        if isinstance(given, Callee):
            if given.name in self._module.graphs:
                self.add(self._module.graphs[given.name])
            return
        is_free = isinstance(given, CNode | Parameter) and _name(given) != node.graph.name
        if is_free:
            self.free.setdefault(node.graph, {})[given] = None


def _name(value: CNode | Parameter | Callee) -> str:
    if isinstance(value, Callee):
        return value.name
    return value.graph.name if isinstance(value, CNode) else value.graph


def captures(
    before: Sequence[Value],
    calls: Mapping[CNode, int],
    after: Inlined,
    merged: Mapping[CNode, CNode],
    virtual: Sequence[CNode],
    again: Collection[Callee],
) -> list[Value]:
    """``before``: free variables of the backward pass before calls are inlined; ``calls``: the topological place of
    each node of the forward pass then; ``after``, ``merged``: what inlining and cse have made of it; ``virtual``: see
    `b_1.virtual_in_order`; ``again``: what calls of cells that run again call in the forward pass."""
    left, turns = _read(after, merged), {node: turn for turn, node in enumerate(virtual)}
    early, loaded, returned, put = list[Value](), list[tuple[int, Value]](), list[_Returned](), list[Value]()
    for value in before:
        real = seen_through(value, VIRTUAL)
        made = after.made_of.get(real) if isinstance(real, CNode) else real
        if made is None:
            continue
        found = stays(made, merged)
        if left.pop(found, None) is None:
            continue
        call, path = _taken_out_of(real)
        if found is not made:
            put.append(found)
        elif real is not value and isinstance(found, CNode):
            loaded.append((turns.get(value, len(turns)) if isinstance(value, CNode) else len(turns), found))
        elif call is not None:
            is_again = call.inputs[0] in again
            returned.append((len(path), is_again, path if is_again else (), -calls[call], path, found))
        else:
            early.append(found)
    loaded.sort(key=lambda taken: taken[0])
    returned.sort(key=lambda taken: taken[:-1])
    order = {stays(node, merged): turn for turn, node in enumerate(merged)}
    put.sort(key=lambda value: order.get(value, 0))
    ordered = [*early, *(taken[-1] for taken in loaded), *(taken[-1] for taken in returned), *left.values(), *put]
    return sorted(ordered, key=lambda value: not isinstance(value, Callee) and value.monad is not None)


def _taken_out_of(value: Value) -> tuple[CNode | None, tuple[int, ...]]:
    """The call that returns a value, and which element of which element it is."""
    path: tuple[int, ...] = ()
    while isinstance(value, CNode) and value.primitive == ITEM and value.index is not None:
        path, value = (value.index, *path), value.inputs[0]
    return (value, path) if isinstance(value, CNode) and value.primitive == CALL else (None, ())


def _read(after: Inlined, merged: Mapping[CNode, CNode]) -> dict[Value, Value]:
    """What the backward pass reads of the forward pass, from its end on, the first input first."""
    found: dict[Value, Value] = {}
    seen, stack = set[CNode](), list[Value](after.backward.end.inputs)
    while stack:
        value = stack.pop()
        if isinstance(value, Parameter) and value.graph == after.forward.name:
            found[value] = value
        elif isinstance(value, CNode) and value.graph is after.forward:
            value = stays(value, merged)
            found[value] = value
        elif isinstance(value, CNode) and value not in seen:
            seen.add(value)
            stack += reversed(value.inputs)
    return found


def places(graph: EarlyFuncGraph) -> dict[CNode, int]:
    """The topological place of each node of a func graph."""
    return {node: turn for turn, node in enumerate(own_nodes(graph))}
