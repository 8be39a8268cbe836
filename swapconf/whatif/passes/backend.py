"""Passes behind ``cconv``, up to where calls are put in their places: what becomes of the nodes of a call.

Source: MindSpore, ``remove_cast_before_assign_add``, ``assign_add_opt`` (parallel), ``transpose_to_reshape``,
``convert_tuple_input_to_dynamic_input`` (back end), and ``order_enforce.cc``. Read and changed, of a forward and a
backward pass:

- A sum into a buffer (AssignAdd) leaves out the cast in front of it, and the state with that.
- What is added to one buffer twice, as the gradients of a shared weight, is added once.
- A Transpose that only moves dimensions of 1 is a Reshape; kernels are given tuples element by element.
- A state that the backward pass captures, too, waits for who reads parameters that it captures
  (`OrderEnforcer::HandleSideEffectNode`); what it captures of a load is a copy (`InsertTensorMoveForLoad`).
- Of a kernel with several outputs all are handed on that the run without a strategy hands on, in their order.

`Lowered` is a call then, with parameters in place of what it is given. Compared with MindSpore's last graph in 12 runs
of 2 families, for each call of a micro-batch: all nodes are equal, but for one state in one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, STATE, TUPLE
from swapconf.trace.postorder import postorder
from swapconf.whatif.lift.func_graphs import PARTIAL, Callee, CNode, Constant, EarlyFuncGraph, Parameter, Value
from swapconf.whatif.passes.offload import MOVE

COPY, ADDS, CAST, TRANSPOSE, RESHAPE = "TensorMove", "AssignAdd", "Cast", "Transpose", "Reshape"
PRODUCT, CONCAT = "MatMul", "Concat"
_AS_THEY_ARE = frozenset({DEPEND, TUPLE, LOAD, STATE})
_WHOLE = frozenset({ITEM, DEPEND, COPY, MOVE})


@dataclass(frozen=True, slots=True)
class Given:
    """What a call is given: a parameter by name, or the number of what the backward pass captures. ``output``: of
    several; -1 for all."""

    name: str | int
    output: int = -1
    is_state: bool = False


@dataclass(eq=False, slots=True)
class Lowered:
    """A node of the last graph. ``source``: the node that it was; None for what these passes add."""

    primitive: str
    inputs: list[Ref]
    output: int = -1
    source: CNode | None = None


Ref: TypeAlias = "Lowered | Given | None"  # None: a constant


@dataclass(frozen=True, kw_only=True, eq=False)
class LoweredCalls:
    """A forward and a backward pass as they are called.

    Attributes:
        result, gradients: What they return.
        saved: What the first hands on behind its result: the value, and how the second knows it.
        parameters: Of the forward pass; ``douts``: of the backward pass, besides what is saved.
    """

    result: Ref
    gradients: Ref
    saved: Sequence[tuple[Ref, Given]]
    parameters: Sequence[str]
    douts: Sequence[str]


def lower_captured(
    forward: EarlyFuncGraph, backward: EarlyFuncGraph, outputs: Collection[tuple[str, int]]
) -> LoweredCalls:
    """Behind ``cconv``, where the Partial tells what is captured."""
    returned = forward.result
    assert isinstance(returned, CNode)
    result, partial = returned.inputs
    assert isinstance(partial, CNode)
    assert partial.primitive == PARTIAL
    captured = partial.inputs[1:]
    names = backward.parameters[: len(captured)]
    place = {name: number for number, name in enumerate(names)}
    known: dict[Value, int] = {Parameter(backward.name, name): number for name, number in place.items()}
    return _lower(forward, backward, result, captured, known, outputs, backward.parameters[len(captured) :])


def lower(
    forward: EarlyFuncGraph, backward: EarlyFuncGraph, captured: Sequence[Value], outputs: Collection[tuple[str, int]]
) -> LoweredCalls:
    """``captured``: see `captures`."""
    returned = forward.result
    assert isinstance(returned, CNode)
    known = {value: number for number, value in enumerate(captured)}
    return _lower(forward, backward, returned.inputs[0], captured, known, outputs, backward.parameters)


def _lower(
    forward: EarlyFuncGraph,
    backward: EarlyFuncGraph,
    result: Value,
    captured: Sequence[Value],
    known: Mapping[Value, int],
    outputs: Collection[tuple[str, int]],
    douts: Sequence[str],
) -> LoweredCalls:
    first, second = _Lowering({}), _Lowering(known)
    handed = [first.ref(value) for value in captured]
    value = first.ref(result)
    gradients = second.ref(backward.result)
    _add_together([gradients])
    _enforce_order([value, *handed], handed)
    saved = list(_saved(captured, _copied(handed, first.made.values()), outputs, first.made.values()))
    return LoweredCalls(
        result=value, gradients=gradients, saved=saved, parameters=forward.parameters, douts=tuple(douts)
    )


@dataclass
class _Lowering:
    """``captured``: by value of the forward pass its number."""

    captured: Mapping[Value, int]
    made: dict[CNode, Ref] = field(default_factory=dict)
    elements: dict[tuple[Lowered, int], Lowered] = field(default_factory=dict)

    def ref(self, value: Value) -> Ref:
        if value in self.captured:
            is_state = isinstance(value, Parameter) and value.monad is not None
            return Given(self.captured[value], is_state=is_state)
        if isinstance(value, Parameter):
            return Given(value.name, is_state=value.monad is not None)
        if isinstance(value, Constant | Callee):
            return None
        stack = [value]
        while stack:
            node = stack[-1]
            missing = [
                one
                for one in node.inputs
                if isinstance(one, CNode) and one not in self.made and one not in self.captured
            ]
            if node in self.made or not missing:
                stack.pop()
                self.made.setdefault(node, self._lowered(node))
            else:
                stack += missing
        return self.made[value]

    def _lowered(self, node: CNode) -> Ref:
        given = [
            self.made[one] if isinstance(one, CNode) and one in self.made else self.ref(one) for one in node.inputs
        ]
        if node.index is not None:
            return self._output(given[0], node.index, node)
        if node.primitive in _AS_THEY_ARE:
            return Lowered(node.primitive, given, source=node)
        added = given[1] if node.primitive == ADDS else None
        if isinstance(added, Lowered) and added.primitive == CAST:
            given = [given[0], added.inputs[0]]
        flat = [
            one
            for ref in given
            for one in (ref.inputs if isinstance(ref, Lowered) and ref.primitive == TUPLE else (ref,))
        ]
        return Lowered(RESHAPE if _is_view(node) else node.primitive, flat, source=node)

    def _output(self, value: Ref, index: int, node: CNode) -> Ref:
        """Once for each output (``cse`` of the back end)."""
        if isinstance(value, Given):
            return Given(value.name, index)
        if value is None or value.primitive == TUPLE:
            return None if value is None else value.inputs[index]
        return self.elements.setdefault((value, index), Lowered(ITEM, [value, None], index, node))


def _is_view(node: CNode) -> bool:
    """Only dimensions of 1 move."""
    shape, turned = node.shape, node.inputs[1] if node.primitive == TRANSPOSE else None
    if shape is None or not isinstance(turned, Constant) or len(turned.numbers) != len(shape):
        return False
    left = [place for place, size in zip(turned.numbers, shape, strict=True) if size != 1]
    return left == sorted(left)


def upwards(roots: Iterable[Ref]) -> list[Lowered]:
    """What leads to some, each behind its inputs."""
    ends = (root for root in roots if isinstance(root, Lowered))
    return postorder(ends, lambda node: (one for one in node.inputs if isinstance(one, Lowered)))


def _add_together(roots: Sequence[Ref]) -> None:
    """``assign_add_opt``: products that are added to one buffer are one, of their factors end to end."""
    nodes = upwards(roots)
    sums: dict[tuple[Given, tuple[Value, ...]], list[Lowered]] = {}
    for node in nodes:
        buffer, product = node.inputs if node.primitive == ADDS and len(node.inputs) == 2 else (None, None)
        if (
            isinstance(buffer, Given)
            and isinstance(product, Lowered)
            and product.primitive == PRODUCT
            and product.source
        ):
            sums.setdefault((buffer, tuple(product.source.inputs[2:])), []).append(node)
    instead: dict[Lowered, Lowered] = {}
    for (buffer, turned), added in sums.items():
        products = [node.inputs[1] for node in added]
        factors = list(zip(*(one.inputs for one in products if isinstance(one, Lowered)), strict=True))
        if len(added) > 1:
            ends = [Lowered(CONCAT, [*those, None]) for those in factors[:2]]
            both = Lowered(ADDS, [buffer, Lowered(PRODUCT, [*ends, *(None for _ in turned)])])
            instead |= dict.fromkeys(added, both)
    for node in nodes if instead else ():
        node.inputs[:] = [instead.get(one, one) if isinstance(one, Lowered) else one for one in node.inputs]


def _enforce_order(roots: Sequence[Ref], captured: Sequence[Ref]) -> None:
    """`OrderEnforcer::HandleSideEffectNode`, of what changes a parameter, and of the Partial, which is given both."""
    nodes = upwards(roots)
    states = {one for one in captured if isinstance(one, Lowered) and one.primitive == STATE}
    parameters = [one for one in captured if isinstance(one, Given)]
    waits = _Waits({node: turn for turn, node in enumerate(nodes)}, _readers(nodes))
    for node in nodes:
        state = node.inputs[0] if node.primitive == STATE else None
        if isinstance(state, Lowered) and state in states:
            waits.let_wait(state, parameters)
        last = node.inputs[-1] if node.primitive not in _AS_THEY_ARE and node.inputs else None
        if isinstance(last, Lowered) and last.primitive == STATE:
            waits.let_wait(last, [one for one in node.inputs if isinstance(one, Given)])


@dataclass
class _Waits:
    """``place``: in the topological order. ``readers``: see the function; ``done``: those that are waited for."""

    place: Mapping[Lowered, int]
    readers: Mapping[Given, Sequence[Lowered]]
    done: set[Lowered] = field(default_factory=set)

    def let_wait(self, state: Lowered, parameters: Iterable[Given]) -> None:
        for parameter in parameters:
            readers = self.readers.get(parameter, ())
            waiting = [one for one in readers if one not in self.done and not _depends(one, state, self.place)]
            self.done.update(waiting)
            ordered = sorted(dict.fromkeys(waiting), key=lambda one: self.place[one])
            state.inputs += [one for one in ordered if not _is_attached(one, state)]


def _readers(nodes: Sequence[Lowered]) -> dict[Given, list[Lowered]]:
    """By parameter who reads what is loaded of it, but for states."""
    loads: dict[Lowered, Given] = {}
    found: dict[Given, list[Lowered]] = {}
    for node in nodes:
        source = node.inputs[0] if node.primitive == LOAD else None
        if isinstance(source, Given):
            loads[node] = source
        if node.primitive in (TUPLE, STATE):
            continue
        for given in node.inputs:
            if isinstance(given, Lowered) and given in loads:
                found.setdefault(loads[given], []).append(node)
    return found


def _depends(node: Lowered, on: Lowered, place: Mapping[Lowered, int]) -> bool:
    stack, seen = [node], set[Lowered]()
    while stack:
        one = stack.pop()
        if one is on:
            return True
        if one not in seen and place[one] >= place[on]:
            seen.add(one)
            stack += [given for given in one.inputs if isinstance(given, Lowered)]
    return False


def _is_attached(node: Lowered, state: Lowered) -> bool:
    tuples = (one for one in state.inputs[1:] if isinstance(one, Lowered) and one.primitive == TUPLE)
    return node in state.inputs[1:] or any(node in one.inputs for one in tuples)


def _copied(captured: Sequence[Ref], made: Iterable[Ref]) -> list[Ref]:
    nodes, found = [one for one in made if isinstance(one, Lowered)], list(captured)
    for turn, value in enumerate(captured):
        if not isinstance(value, Lowered) or value.primitive != LOAD:
            continue
        copy = found[turn] = Lowered(COPY, [value])
        for node in nodes:
            node.inputs[:] = [copy if given is value else given for given in node.inputs]
    return found


def _saved(
    captured: Sequence[Value], handed: Sequence[Ref], outputs: Collection[tuple[str, int]], made: Iterable[Ref]
) -> Iterator[tuple[Ref, Given]]:
    """States that are parameters are not handed on."""
    known = {
        (one.inputs[0], one.output): one for one in reversed(list(made)) if isinstance(one, Lowered) and one.output >= 0
    }
    for number, (value, ref) in enumerate(zip(captured, handed, strict=True)):
        if isinstance(ref, Given) and ref.is_state:
            continue
        count = value.outputs if isinstance(value, CNode) and isinstance(ref, Lowered) else 0
        if not isinstance(ref, Lowered) or ref.primitive in _WHOLE or count < 2:
            yield ref, Given(number)
            continue
        for output in range(count):
            if (ref.primitive, output) in outputs:
                yield known.setdefault((ref, output), Lowered(ITEM, [ref, None], output)), Given(number, output)
