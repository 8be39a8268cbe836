"""Inlining of calls (``a_1``, ``b_1``): what a forward and a backward pass are without calls of other func graphs.

Source: MindSpore, the inliner and the rules that run with it in ``b_1``, by what they do, not line by line: elements of
tuples are taken, also behind a Depend of the same func graph, which then stands in front of the element; constants that
a call returns leave it (``const_output_eliminate``); virtual operators are their first input. It reads all func graphs
that are called and makes two new ones; nodes of a K graph that is called in the backward pass become nodes of that.
Done by evaluation: a node is made when somebody reads it, so that what nobody reads goes.

Compared with MindSpore's graphs in front of ``cconv`` in 10 strategies of 2 families (MindSpore 2.9.0), with `cse`,
`renormalize` and `update_state`: all nodes are equal, 531 to 795 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from swapconf.trace.launch_graph import DEPEND, TUPLE
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
    met,
    seen_through,
)

_ZEROS = ("ZerosLike", "ZerosLikeExt")
_UNKNOWN, _ZERO = "<null>", Constant("zeros")


@dataclass(frozen=True, kw_only=True)
class Inlined:
    """``made_of``: by node of the forward pass before what it has become. ``taken``: by a Depend of a tuple the Depends
    of its elements."""

    forward: EarlyFuncGraph
    backward: EarlyFuncGraph
    made_of: Mapping[CNode, Value]
    taken: Mapping[CNode, Sequence[CNode]]


@dataclass(eq=False, slots=True)
class _Frame:
    """A call: of the func graph, ``given`` by parameter, inside of ``around``; its nodes become nodes of ``home``."""

    graph: EarlyFuncGraph
    given: dict[str, _Thing]
    around: _Frame | None
    home: EarlyFuncGraph
    made: dict[CNode, _Thing] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class _Closure:
    graph: EarlyFuncGraph
    frame: _Frame


@dataclass(frozen=True, eq=False, slots=True)
class _Later:
    """What a call is given, not made yet."""

    value: Value
    frame: _Frame


_Thing: TypeAlias = "Value | _Closure | _Later"


def inlined(
    module: EarlyGraph, forward: EarlyFuncGraph, keeps: Callable[[EarlyFuncGraph], bool] = lambda graph: False
) -> Inlined:
    """Of a func graph that hands on the closure of its gradients. ``keeps``: the func graphs whose calls stay."""
    return _Inlining(module, keeps).run(forward)


def drop_virtual(module: EarlyGraph) -> None:
    """Edits the module: also zeros of a known shape are a constant (``zero_like_fill_zero``)."""
    nodes = module.nodes()

    def real(value: Value) -> Value:
        value = seen_through(value, VIRTUAL)
        return _ZERO if isinstance(value, CNode) and value.primitive in _ZEROS else value

    for node in nodes:
        node.inputs[:] = [real(value) for value in node.inputs]


def take_elements(after: Inlined) -> None:
    """Edits what is left of elements of tuples that a Depend stood in front of, which went with its state."""
    for node in met(None, [after.forward.end, after.backward.end]):
        node.inputs[:] = [_taken(value) for value in node.inputs]


def _taken(value: Value) -> Value:
    while isinstance(value, CNode) and value.index is not None:
        taken_of = value.inputs[0]
        if not isinstance(taken_of, CNode) or taken_of.primitive != TUPLE:
            break
        value = taken_of.inputs[value.index]
    return value


class _Inlining:
    def __init__(self, module: EarlyGraph, keeps: Callable[[EarlyFuncGraph], bool]) -> None:
        self._module, self._keeps = module, keeps
        self._elements: dict[CNode, list[_Thing]] = {}
        self._behind: dict[tuple[CNode, int], CNode] = {}
        self._taken: dict[CNode, list[CNode]] = {}
        self._types: dict[tuple[str, str], str] = {}
        for graph in module.graphs.values():
            for node in met(None, [graph.end]):
                if node.unique and _UNKNOWN not in node.made:
                    self._types.setdefault((node.primitive, node.unique), node.types)

    def run(self, before: EarlyFuncGraph) -> Inlined:
        assert before.closure is not None
        after = self._module.graphs[before.closure.name]
        forward = EarlyFuncGraph(before.name, before.parameters, before.flags)
        backward = EarlyFuncGraph(after.name, after.parameters, after.flags)
        outer = _Frame(before, {name: Parameter(before.name, name) for name in before.parameters}, None, forward)
        inner = _Frame(after, {name: Parameter(after.name, name) for name in after.parameters}, outer, backward)
        returned = before.result
        assert isinstance(returned, CNode)
        value = self._plain(self._value(returned.inputs[0], outer))
        result = self._plain(self._value(after.result, inner))
        handed = CNode(TUPLE, [value, Callee(backward.name)], forward, returned.name, returned.scope)
        forward.end.inputs.append(handed)
        backward.end.inputs.append(result)
        made_of = {node: thing for node, thing in outer.made.items() if not isinstance(thing, _Closure | _Later)}
        return Inlined(forward=forward, backward=backward, made_of=made_of, taken=self._taken)

    def _value(self, value: Value, frame: _Frame) -> _Thing:
        if isinstance(value, Parameter):
            found = _frame_of(frame, lambda one: one.graph.name == value.graph)
            if found is None:
                return value
            given = found.given[value.name]
            if isinstance(given, _Later):
                given = found.given[value.name] = self._value(given.value, given.frame)
            return given
        if isinstance(value, Callee):
            graph = self._module.graphs.get(value.name)
            return value if graph is None else _Closure(graph, frame)
        if isinstance(value, Constant):
            return value
        home = _frame_of(frame, lambda one: one.graph is value.graph)
        assert home is not None, value.graph.name
        if value not in home.made:
            home.made[value] = self._made(value, home)
        return home.made[value]

    def _call(self, graph: EarlyFuncGraph, given: Sequence[Value], frame: _Frame, around: _Frame | None) -> _Thing:
        later: list[_Thing] = [_Later(value, frame) for value in given]
        return self._value(
            graph.result, _Frame(graph, dict(zip(graph.parameters, later, strict=True)), around, frame.home)
        )

    def _made(self, node: CNode, frame: _Frame) -> _Thing:
        if node.primitive == CALL:
            graph = self._module.called(node)
            if graph is not None:
                if not self._keeps(graph):
                    return self._call(graph, node.inputs[1:], frame, frame)
                return self._copied(node, [node.inputs[0], *self._given(node.inputs[1:], frame)], frame)
            closure = self._value(node.inputs[0], frame)
            if isinstance(closure, _Closure):
                return self._call(closure.graph, node.inputs[1:], frame, closure.frame)
        if node.index is not None:
            return self._element(self._value(node.inputs[0], frame), node.index, node, frame)
        things = [self._value(value, frame) for value in node.inputs]
        copy = self._copied(node, list(map(self._plain, things)), frame)
        if node.primitive == TUPLE:
            self._elements[copy] = things
        return copy

    def _given(self, values: Sequence[Value], frame: _Frame) -> list[Value]:
        return [self._plain(self._value(value, frame)) for value in values]

    def _copied(self, node: CNode, inputs: Sequence[Value], frame: _Frame) -> CNode:
        copy = node.like(inputs, frame.home)
        if _UNKNOWN in copy.made or not copy.types:
            copy.types = self._types.get((node.primitive, node.unique), node.types)
        return copy

    def _element(self, value: _Thing, index: int, node: CNode, frame: _Frame) -> _Thing:
        if isinstance(value, CNode):
            if value in self._elements:
                return self._elements[value][index]
            inner: Value = value
            while isinstance(inner, CNode) and inner.primitive == DEPEND and inner not in self._elements:
                inner = inner.inputs[0]
            is_here = value.primitive == DEPEND and value.graph is frame.home
            if is_here and isinstance(inner, CNode) and inner in self._elements:
                return self._element_behind(value, index, node, frame)
        return self._copied(node, [self._plain(value), node.inputs[1]], frame)

    def _element_behind(self, depend: CNode, index: int, node: CNode, frame: _Frame) -> _Thing:
        if (depend, index) not in self._behind:
            element = self._element(depend.inputs[0], index, node, frame)
            if isinstance(element, _Closure | Constant):
                return element
            made = depend.like([self._plain(element), depend.inputs[1]], frame.home)
            self._behind[depend, index] = made
            self._taken.setdefault(depend, []).append(made)
        return self._behind[depend, index]

    @staticmethod
    def _plain(thing: _Thing) -> Value:
        assert not isinstance(thing, _Later)
        return Callee(thing.graph.name) if isinstance(thing, _Closure) else thing


def _frame_of(frame: _Frame | None, is_it: Callable[[_Frame], bool]) -> _Frame | None:
    while frame is not None and not is_it(frame):
        frame = frame.around
    return frame
