"""Pass ``a_1`` in the second round: in which order it inlines the operators of a forward pass, and so who is first
among the users of a value.

Source: MindSpore, ``frontend/optimizer/opt.cc`` (`ApplyIRToSubstitutions`), ``irpass/inline.h``, ``ad/dfunctor.cc`` and
``ad/adjoint.cc`` (what J makes), ``core/ir/manager.cc``. J makes of an operator a call of its K graph, of which value
and closure are taken; the closure is called in the backward pass, with the sum of the gradients that all who read the
value hand back. The pass goes through that breadth first, from what both passes return. A call that it meets is
inlined; what has changed is queued again, and so is who uses it. An inlined operator is put behind the other users of
what it reads, so that the manager has the users of a value in the order in which they were inlined.

It reads the forward pass as ``a_1`` leaves it and changes nothing. The graph in front of the pass is not read: printed,
it has 45 MB for three tiny layers. What is left out of it changes no first user (how J's sums and gradients are
simplified on the way); what cannot be seen any more is taken from this:

- Users are at first as the manager met them when it was made anew. That is the number in ``equiv_12_x`` (MindSpore's
  own search on the graph in front: 1,430 of 1,430 steps in three last stages). A forward pass that returns a tuple has
  no closure for that; the element was met first to which the gradient of the last parameter leads.
- A state was attached to the tuple that a layer returned, so to all that waits for the state before (a later pass,
  ``updatestate_depend_eliminate``, takes such pairs out).
- What the returned value waits for is written later, and not followed.

Held against MindSpore 2.9.0, which logs each substitution (Llama, Qwen3, DeepSeek-V3; first and last stages): of 370
values that several operators read, 367 have the first one right; the others are a mask of all layers and one of a loss.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from swapconf.trace.launch_graph import DEPEND, STATE, TUPLE
from swapconf.whatif.lift.func_graphs import CNode, EarlyFuncGraph, Parameter, Value, sorted_from

_NUMBERED = re.compile(r"equiv_(\d+)_")

_Visit: TypeAlias = "tuple[Callable[[Value, int], Sequence[_Visit]], Value, int]"


def inlined_in_order(forward: EarlyFuncGraph, kept: Collection[CNode]) -> dict[CNode, int]:
    """By operator of a forward pass, which returns a value and the closure of its gradients, its turn.

    ``kept``: calls of K graphs that stay calls, and have none.
    """
    walk = _Walk(forward, kept)
    walk.run()
    return walk.turns


@dataclass(eq=False)
class _Walk:
    """Each method is a visit of a node of the graph that J made, and returns what is queued then.

    Attributes:
        replaced: Whose value is the operator itself, no longer an element of what a call returns.
        readers: By value who reads it, in the manager's order; ``gradients``: who hands a gradient back, as added up.
    """

    forward: EarlyFuncGraph
    kept: Collection[CNode]
    turns: dict[CNode, int] = field(default_factory=dict)
    replaced: set[CNode] = field(default_factory=set)
    readers: dict[Value, list[CNode]] = field(default_factory=dict)
    gradients: dict[Value, list[CNode]] = field(default_factory=dict)

    @cached_property
    def returned(self) -> Value:
        pair = self.forward.result
        assert isinstance(pair, CNode)
        return pair.inputs[0]

    @cached_property
    def ends(self) -> list[CNode]:
        """What is returned, of a tuple its elements."""
        returned = self.returned
        is_tuple = isinstance(returned, CNode) and returned.primitive == TUPLE
        return self._nodes(returned.inputs if isinstance(returned, CNode) and is_tuple else [returned])

    def run(self) -> None:
        self._read()
        queue, seen = deque[_Visit]([(self._value, self.returned, 0), (self._results, self.returned, 0)]), set[_Visit]()
        while queue:
            visit = queue.popleft()
            if visit not in seen:
                seen.add(visit)
                queue.extend(visit[0](visit[1], visit[2]))

    def _read(self) -> None:
        nodes = self._nodes(sorted_from(self.forward.end))[:-2]  # without what returns value and closure
        live = self._reach_result()
        for node in nodes:
            for given in node.inputs:
                self.readers.setdefault(given, []).append(node)
            for given in self._followed(node) if node in live else ():
                self.gradients.setdefault(given, []).append(node)
        place = self._met_by_manager(nodes)
        for readers in self.readers.values():
            readers.sort(key=lambda node: place[node])

    def _nodes(self, values: Sequence[Value]) -> list[CNode]:
        return [value for value in values if isinstance(value, CNode) and value.graph is self.forward]

    def _given(self, node: Value) -> list[CNode]:
        if not isinstance(node, CNode):
            return []
        return self._nodes(self._followed(node))

    def _followed(self, node: CNode) -> list[Value]:
        return node.inputs[:1] if node.primitive == DEPEND and node in self.ends else node.inputs

    def _reach_result(self) -> set[CNode]:
        """Who has gradients: not what only states wait for."""
        live, stack = set[CNode](), self._nodes([self.returned])
        while stack:
            node = stack.pop()
            if node not in live and node.primitive != STATE:
                live.add(node)
                stack += self._nodes(node.inputs)
        return live

    def _met_by_manager(self, nodes: Sequence[CNode]) -> dict[CNode, tuple[int, float]]:
        """From which element of what is returned, and by the number in the name."""
        element = self._elements()
        numbers = dict[CNode, float]()
        for node in nodes:
            number = _NUMBERED.match(node.name)
            behind = max((numbers.get(given, 0.0) for given in self._nodes(node.inputs)), default=0.0)
            numbers[node] = float(number[1]) if number else behind - 0.5  # met right before what it is given last
        return {node: (element.get(node, len(element)), numbers[node]) for node in nodes}

    def _elements(self) -> dict[CNode, int]:
        element, ends = dict[CNode, int](), self.ends
        first = self._end_of_last_parameter(ends)
        for turn, end in enumerate(sorted(ends, key=lambda end: end is not first)):
            stack = [end]
            while stack:
                node = stack.pop()
                if node not in element:
                    element[node] = turn
                    stack += self._nodes(node.inputs)
                    if node.primitive == STATE:  # was attached to all that waits for the one before
                        stack += [reader for reader in self.readers[node.inputs[0]] if reader.primitive == DEPEND]
        return element

    def _end_of_last_parameter(self, ends: Sequence[CNode]) -> Value:
        """To which the gradient of the last parameter leads, by the last of each sum."""
        parameters = (Parameter(self.forward.name, name) for name in reversed(self.forward.parameters))
        value: Value | None = next((parameter for parameter in parameters if parameter in self.gradients), None)
        while value is not None and value not in ends:
            value = self.gradients[value][-1] if value in self.gradients else None
        return self.returned if value is None else value

    # --- backward pass

    def _results(self, _: Value, __: int) -> list[_Visit]:
        parameters = (Parameter(self.forward.name, name) for name in self.forward.parameters)
        return [visit for parameter in parameters for visit in self._dout(parameter)]

    def _dout(self, value: Value) -> list[_Visit]:
        count = len(self.gradients.get(value, ()))
        return [(self._sum, value, count)] if count else []

    def _sum(self, value: Value, count: int) -> list[_Visit]:
        """Of the first ``count`` gradients of a value: one is the gradient itself."""
        return (
            [(self._sum, value, count - 1), (self._gradient, value, count - 1)]
            if count > 1
            else self._gradient(value, 0)
        )

    def _gradient(self, value: Value, place: int) -> list[_Visit]:
        return [(self._closure_called, self.gradients[value][place], 0)]

    def _closure_called(self, node: Value, _: int) -> list[_Visit]:
        return [(self._closure, node, 0), *self._dout(node)]

    def _closure(self, node: Value, _: int) -> list[_Visit]:
        return [(self._call, node, 0)]

    # --- forward pass

    def _call(self, node: Value, _: int) -> list[_Visit]:
        if not isinstance(node, CNode) or node in self.turns:
            return []
        if node in self.kept:
            return [(self._value, given, 0) for given in self._given(node)]
        self.turns[node] = len(self.turns)
        return [(self._tuple, node, 0), (self._value, node, 1)]  # the value once more

    def _tuple(self, node: Value, _: int) -> list[_Visit]:
        return [(self._operator, node, 0)]

    def _value(self, node: Value, _: int) -> list[_Visit]:
        if not isinstance(node, CNode) or node in self.replaced:
            return []
        if node not in self.turns:
            return [(self._call, node, 0)]
        self.replaced.add(node)
        calls = (reader for reader in self.readers.get(node, ()) if reader not in self.turns)
        return [(self._operator, node, 0), *((self._call, call, 0) for call in calls)]

    def _operator(self, node: Value, _: int) -> list[_Visit]:
        return [(self._operator if given in self.replaced else self._value, given, 0) for given in self._given(node)]
