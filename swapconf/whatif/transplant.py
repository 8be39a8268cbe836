"""LAST GRAPH of a run without a strategy + CALLS under one -> the last graph under the strategy.

MindSpore compiles the forward and the backward pass of a micro-batch once and calls them (lazy inline). What a strategy
changes is inside of these two. So the last graph under it is that of the run without, with other calls (the
*transplant*): the calls of the run without are found in its graph (`BaselineCalls`), node by node, which tells what
each is given and where its results go; those under the strategy are put in their places (`transplanted`). Mirrored
here, in the order in which they are done:

- ``process_call_inline``: what a call is given waits for its barrier, which waits for the call before.
- Of what the forward pass hands on every other value is taken out of the tuple, the others are read beside it (seen in
  all graphs; the pass was not found). With which it begins, the run without a strategy tells, call by call.
- ``cse`` of the back end: what is made of constants alone is made once for all calls.
- ``insert_pre_fetch_depend``: see `graph.prefetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from swapconf.trace.launch_graph import ITEM, NO_NODE
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.prefetch import prefetched
from swapconf.whatif.lift.func_graphs import PREFETCH, CNode, Constant, Parameter
from swapconf.whatif.passes.backend import Given, Lowered, LoweredCalls, Ref, upwards
from swapconf.whatif.passes.offload import MOVE
from swapconf.whatif.placed_calls import BaselineCalls, PlacedCall, handed_on, results

_HOST_SIDE = '"CPU"'
_FUSION, _GROUP = "fusion", "group"


def transplanted(baseline: BaselineCalls, calls: LoweredCalls) -> Nodes:
    """The last graph under the strategy whose calls these are. Raises ValueError where it goes in a circle."""
    return _Transplant(baseline, calls).nodes()


class _Transplant:
    def __init__(self, baseline: BaselineCalls, calls: LoweredCalls) -> None:
        self._baseline, self._calls = baseline, calls
        self._nodes = Nodes(baseline.graph)
        self._same = _same_parameters(baseline.calls.parameters, calls.parameters)
        self._douts = dict(zip(calls.douts, baseline.calls.douts, strict=True))
        self._once: dict[Lowered, int] = {}  # what is made of constants alone
        self._apart = _made_by_each_call(baseline)
        self._back: dict[int, int] = {}
        self._instead: dict[int, int] = {}

    def nodes(self) -> Nodes:
        placed = self._baseline.placed
        for call in placed:
            self._put(call, is_last=call is placed[-1])
        gone = {node for call in placed for node in call.nodes.values()}
        kept = {node for call in placed for node in (call.saved, call.gradients)}
        for node in range(len(self._baseline.graph)):
            if node not in gone and node not in kept:
                self._nodes.read_instead(node, self._instead)
        copies = list(self._back)
        prefetch = np.array([self._back[node] for node in copies], dtype=np.int64)
        prefetched(self._nodes, prefetch, {node: turn for turn, node in enumerate(copies)})
        return self._nodes

    def _put(self, call: PlacedCall, *, is_last: bool) -> None:
        calls, nodes = self._calls, self._nodes
        ties: dict[tuple[int, int, Given], int] = {}

        def tied(value: int, barrier: int, ref: Given) -> int:
            """Once for each value, and for each constant that is another one for the call."""
            key = barrier, value, ref if value == NO_NODE else Given(-1)
            if key not in ties:
                ties[key] = nodes.tied(value, barrier)
            return ties[key]

        def given(ref: Given) -> int:
            value = call.given.get(Given(self._same.get(str(ref.name), ref.name), ref.output, ref.is_state), NO_NODE)
            return value if call.barrier == NO_NODE else tied(value, call.barrier, ref)

        forward, returned = handed_on(calls), results(calls)
        made = self._laid(forward, given)
        values = [
            given(ref) if isinstance(ref, Given) else made[ref] if ref is not None else NO_NODE for ref in forward
        ]
        before = self._baseline.graph.inputs[call.saved][: len(returned)]
        self._instead |= dict(zip(before, values, strict=False))
        nodes.inputs[call.saved] = values
        handed, is_taken = self._handed(call, values)

        def given_back(ref: Given) -> int:
            if ref not in handed:
                name = self._douts.get(str(ref.name), ref.name)
                value = call.backward_given.get(Given(name, ref.output, ref.is_state), NO_NODE)
                handed[ref] = tied(value, call.backward_barrier, ref)
            return handed[ref]

        made = self._laid([calls.gradients], given_back)
        mine, other = calls.gradients, self._baseline.calls.gradients
        assert isinstance(mine, Lowered)
        assert isinstance(other, Lowered)
        for old, new in zip(other.inputs, mine.inputs, strict=True):
            if isinstance(old, Lowered) and isinstance(new, Lowered):
                self._instead[call.nodes[old]] = made[new]
        nodes.inputs[call.gradients] = list(nodes.inputs[made[mine]])
        if self._baseline.is_pipelined and is_taken and not is_last:
            self._instead[before[0]] = nodes.add(ITEM, (call.saved,), item=0)

    def _handed(self, call: PlacedCall, values: Sequence[int]) -> tuple[dict[Given, int], bool]:
        """What is saved as the backward pass is given it, and whether the next one would be taken out of the tuple."""
        read = {ref for node in upwards([self._calls.gradients]) for ref in node.inputs if isinstance(ref, Given)}
        found: dict[Given, int] = {}
        is_taken = call.is_taken
        first = len(results(self._calls))
        for place in range(len(values) - 1, first - 1, -1):
            ref, key = self._calls.saved[place - first]
            if key in read:
                value = self._nodes.add(ITEM, (call.saved,), item=place) if is_taken else values[place]
                found[key] = self._nodes.tied(value, call.backward_barrier)
            if key in read or isinstance(ref, Given):
                is_taken = not is_taken
        return found, is_taken

    def _laid(self, roots: Sequence[Ref], given: Callable[[Given], int]) -> dict[Lowered, int]:
        found: dict[Lowered, int] = {}
        constant = set[Lowered]()
        for node in upwards(roots):
            if node.primitive not in self._apart and all(ref is None or ref in constant for ref in node.inputs):
                constant.add(node)
                if node in self._once:
                    found[node] = self._once[node]
                    continue
            inputs = [
                NO_NODE if ref is None else given(ref) if isinstance(ref, Given) else found[ref] for ref in node.inputs
            ]
            found[node] = self._added(node, inputs)
            if node in constant:
                self._once[node] = found[node]
        return found

    def _added(self, node: Lowered, inputs: Sequence[int]) -> int:
        source = node.source
        name = f"{source.scope}/{node.primitive}" if source is not None else ""
        number = self._nodes.add(node.primitive, inputs, name, node.output, _fused(source))
        if node.primitive == MOVE and source is not None and source.inputs[1] != Constant(_HOST_SIDE):
            self._back[number] = Constant(source.attributes.get(PREFETCH, "")).number or 1
        return number


def _made_by_each_call(baseline: BaselineCalls) -> frozenset[str]:
    """The primitives of what reads nothing, but is another node in each call, such as zeros that are written to."""
    first, *others = baseline.placed
    reads_nothing = (node for node in first.nodes if all(ref is None for ref in node.inputs))
    return frozenset(
        node.primitive for node in reads_nothing if any(call.nodes[node] != first.nodes[node] for call in others)
    )


def _fused(source: CNode | None) -> str | None:
    fusion = source.attributes.get(_FUSION) if source is not None else None
    if source is None or fusion is None or Constant(fusion).number in (None, 0):
        return None
    return source.attributes.get(_GROUP, "").strip('"')


def _same_parameters(ours: Sequence[str], theirs: Sequence[str]) -> dict[str, str]:
    """By name of a parameter in another compilation that in this one: by name, and what has none in its order."""
    by_name: dict[str, list[str]] = {}
    for name in ours:
        by_name.setdefault(Parameter("", name).plain, []).append(name)
    found, nameless = dict[str, str](), list[str]()
    for name in theirs:
        known = by_name.get(Parameter("", name).plain)
        if known:
            found[name] = known.pop(0)
        else:
            nameless.append(name)
    left = [name for name in ours if any(name in names for names in by_name.values())]
    return found | dict(zip(nameless, left, strict=False))
