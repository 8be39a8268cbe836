"""Pass ``b_1`` of ``opt_b``: in which order it takes virtual operators away from what is loaded.

Source: MindSpore, ``frontend/optimizer/opt.cc`` (`ApplyIRToSubstitutions`, `UpdateTransformingListForSubstitutions`,
`UpdateTransformingListWithUserNodes`) and ``irpass/inline.h``. The pass goes through the graph breadth first, from the
end of the training step. Calls are inlined, elements of tuples are taken, also from behind a Depend of the same func
graph, and a virtual operator (``_VirtualAssignAdd``) becomes its first input. What has changed is queued again, and so
is who uses it and was visited before; of the others the inputs are queued. It reads the func graphs in front of the
pass and changes nothing: what it makes of them, `inline` tells. A backward pass captures what is loaded in the order in
which the operators behind it go (`captures`).

Compared with MindSpore's captures in 35 runs of Llama, Qwen3, Qwen3-MoE and DeepSeek-V3 (first and last stages; swap,
recompute, both): in 34 the order of all loads is equal, in the other one two norms change places with two others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from swapconf.trace.launch_graph import DEPEND, ITEM, TUPLE
from swapconf.whatif.lift.func_graphs import (
    CALL,
    VIRTUAL,
    Callee,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    Parameter,
    Value,
)


def virtual_in_order(module: EarlyGraph) -> list[CNode]:
    """The virtual operators of a forward pass, those of which the pass takes away first first."""
    walk = _Substitutions(module)
    walk.run()
    return walk.gone


@dataclass(eq=False, slots=True)
class _Instance:
    """A func graph as it is called once, inside of ``around``; its nodes become nodes of ``home``."""

    graph: EarlyFuncGraph
    around: _Instance | None
    home: EarlyFuncGraph
    given: dict[str, _Visitable] = field(default_factory=dict)
    copies: dict[CNode, _Copy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Function:
    graph: EarlyFuncGraph
    around: _Instance


@dataclass(eq=False, slots=True)
class _Copy:
    """A node of an instance. ``instead``: what it has become, in a list."""

    node: CNode
    primitive: str
    instance: _Instance
    inputs: list[_Visitable] | None = None
    users: list[_Copy] = field(default_factory=list)
    instead: list[_Visitable] = field(default_factory=list)
    is_seen: bool = False


_Visitable: TypeAlias = "_Copy | _Function | None"  # None: a constant, or what a func graph that stays is given


class _Substitutions:
    """``gone``: virtual operators of the forward pass itself."""

    def __init__(self, module: EarlyGraph) -> None:
        self._module, self._forward = module, module.forward
        entry = module.graphs[module.entry]
        self._step = _Instance(entry, None, entry)
        outer = _Instance(self._forward, self._step, self._forward)
        inner = _Instance(module.backward, outer, module.backward)
        self._stays = {instance.graph.name: instance for instance in (outer, inner)}
        self._queue = deque[_Visitable]()
        self.gone = list[CNode]()

    def run(self) -> None:
        self._queue.append(self._copy(self._step.graph.end, self._step))
        while self._queue:
            visited = _now(self._queue.popleft())
            if isinstance(visited, _Function):
                instance = self._stays.get(visited.graph.name)
                self._queue.extend([self._copy(visited.graph.end, instance)] if instance is not None else [])
            elif visited is not None and not visited.is_seen:
                visited.is_seen = True
                self._visit(visited)

    def _visit(self, copy: _Copy) -> None:
        changed = self._changed(copy)
        if not changed:
            self._queue.extend(self._inputs(copy))
            return
        new = changed[0]
        copy.instead = [new]
        for user in copy.users if new is not copy else ():
            user.inputs = [new if given is copy else given for given in user.inputs or ()]
            if isinstance(new, _Copy):
                new.users.append(user)
        self._queue.append(new)
        for user in new.users if isinstance(new, _Copy) else copy.users:
            if user.is_seen:
                user.is_seen = False
                self._queue.append(user)

    def _changed(self, copy: _Copy) -> list[_Visitable]:
        """What the pass makes of it, in a list; empty where it stays."""
        given = self._inputs(copy)
        first = given[0] if given else None
        if copy.primitive == CALL and isinstance(first, _Function) and first.graph.name not in self._stays:
            names = dict(zip(first.graph.parameters, given[1:], strict=True))
            instance = _Instance(first.graph, first.around, copy.instance.home, names)
            return [self._made(first.graph.result, instance)]
        if copy.primitive == ITEM and copy.node.index is not None and isinstance(first, _Copy):
            return self._element(copy, first, copy.node.index)
        if copy.primitive in VIRTUAL:
            if copy.instance is self._stays[self._forward.name]:
                self.gone.append(copy.node)
            return [first]
        return []

    def _element(self, copy: _Copy, taken_of: _Copy, index: int) -> list[_Visitable]:
        given = self._inputs(taken_of)
        if taken_of.primitive == TUPLE:
            return [_now(given[index])]
        if taken_of.primitive != DEPEND or taken_of.instance.home is not copy.instance.home:
            return []
        element = _with(_Copy(copy.node, ITEM, copy.instance), [given[0]])
        return [_with(_Copy(taken_of.node, DEPEND, copy.instance), [element, *given[1:]])]

    def _inputs(self, copy: _Copy) -> Sequence[_Visitable]:
        if copy.inputs is None:
            _with(copy, [self._made(value, copy.instance) for value in copy.node.inputs])
        return copy.inputs or ()

    def _made(self, value: Value, instance: _Instance) -> _Visitable:
        if isinstance(value, Constant):
            return None
        if isinstance(value, Callee):
            graph = self._module.graphs.get(value.name)
            return _Function(graph, instance) if graph is not None else None
        name = value.graph if isinstance(value, Parameter) else value.graph.name
        owner: _Instance | None = instance
        while owner is not None and owner.graph.name != name:
            owner = owner.around
        owner = owner or self._stays.get(name)
        if isinstance(value, Parameter):
            return _now(owner.given.get(value.name)) if owner is not None else None
        return _now(self._copy(value, owner or self._step))

    def _copy(self, node: CNode, instance: _Instance) -> _Copy:
        return instance.copies.setdefault(node, _Copy(node, node.primitive, instance))


def _with(copy: _Copy, inputs: list[_Visitable]) -> _Copy:
    copy.inputs = inputs
    for given in inputs:
        if isinstance(given, _Copy):
            given.users.append(copy)
    return copy


def _now(visitable: _Visitable) -> _Visitable:
    while isinstance(visitable, _Copy) and visitable.instead:
        visitable = visitable.instead[0]
    return visitable
