"""RECOMPUTED CELLS -> in which states the forward pass reads what is behind attentions, calls, and routers of experts.

Mirrors ``updatestate_eliminate`` (frontend/optimizer/irpass/updatestate_eliminate.cc) and what it does not do across
the call of a recomputed cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from swapconf.models.cells import EXPERTS, KEY_NORM, MLP, MLP_NORM, PROJECTION, QUERY_NORM, SELF_ATTENTION
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, STATE, TUPLE
from swapconf.upstream.scopes import descends
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.inside import is_in
from swapconf.whatif.graph.load_states import LoadStates

_NORMS, _SPLIT = (QUERY_NORM, KEY_NORM), "SplitWithSize"
_BEHIND = (MLP_NORM, MLP)  # cells behind query, key and value
_PRODUCT = "GroupedMatmul"
_WEIGHT = 1  # among the inputs of a product


@dataclass
class _Tied(GraphChange):
    states: LoadStates


class AttentionStates(_Tied):
    """What is read behind an attention is read in the state in which it hands out query, key and value.

    Where any cell is recomputed, MindSpore 2.9.0 keeps these states: on the stage with the loss from the first layer on
    in which one is, in stages in front of it all (measured: Qwen3, whose attention has norms).

    Mirrors ``updatestate_eliminate``: an UpdateState of a MakeTuple stays, as that is not pure.
    """

    def tie(self) -> None:
        baseline, free = self.baseline, self._in_no_state()
        has_loss, with_call = self.states.has_loss, self._with_call()
        for batch in baseline.batches:
            is_called, last = not has_loss, NO_NODE
            since = 0
            for number in batch:
                if has_loss and number in with_call and not is_called:
                    is_called, since = True, with_call[number]
                handed = self.handed_out(number) if number in free else []
                if not handed:
                    continue
                behind = self.nodes.add(STATE, (last, self.nodes.add(TUPLE, handed)))
                for load, home in free[number]:
                    if not is_called or self.states.reading[load][1] < since:
                        self.states.set(load, self._state_before(load))
                    elif home.startswith(_BEHIND) or (home.endswith(PROJECTION) and not self._is_inside(number)):
                        self.states.set(load, behind)
                    elif last != NO_NODE:
                        self.states.set(load, last)
                last = behind

    def _state_before(self, load: int) -> int:
        """In the run without a strategy."""
        inputs = self.run.graph.inputs[load]
        return inputs[1] if len(inputs) > 1 else NO_NODE

    def _with_call(self) -> dict[int, int]:
        """By pass in which a recomputed cell is called the first kernel from which on that counts: all, but for a cell
        that reads no parameter what is behind its beginning."""
        passing = self.baseline.kernels.passing
        inside = np.flatnonzero((self.asked.root != NO_CELL) & (passing >= 0))
        first_called = dict(zip(passing[inside][::-1].tolist(), inside[::-1].tolist(), strict=True))
        return first_called | dict.fromkeys(passing[self.asked.called != NO_CELL].tolist(), 0)

    def _in_no_state(self) -> dict[int, list[tuple[int, str]]]:
        """By pass (Load, the cell that reads it)."""
        passing, loads = self.baseline.kernels.passing, dict[int, list[tuple[int, str]]]()
        for node, (_, kernel) in self.states.reading.items():
            if self.nodes.primitive[node] == LOAD and not self._has_own_state(node):
                loads.setdefault(int(passing[kernel]), []).append((node, self.asked.home(kernel)))
        return loads

    def _has_own_state(self, load: int) -> bool:
        state = self.states.state(load)
        if state == NO_NODE or self.nodes.primitive[state] == DEPEND:
            return False
        is_known = state < self.nodes.count and self.nodes.primitive[state] == STATE
        return not (is_known and self.states.is_embedding(state))

    def handed_out(self, number: int) -> list[int]:
        """Query, key and value of a pass."""
        run, kernels = self.run, self.baseline.kernels
        inside = np.flatnonzero((kernels.passing == number) & ~kernels.backward)
        inside = inside[inside < run.count].tolist()
        last = {home: kernel for kernel in inside if (home := self.asked.home(kernel)).endswith(_NORMS)}
        split = next((kernel for kernel in inside if kernels.primitive[kernel] == _SPLIT), NO_NODE)
        if len(last) < len(_NORMS) or split < 0:
            return []
        values = (user for user in run.users[run.node_of[split]] if run.graph.primitive[user] == ITEM)
        value = max(values, key=lambda user: int(run.graph.item[user]), default=NO_NODE)
        return [run.node_of[kernel] for kernel in last.values()] + [value] * (value != NO_NODE)

    def _is_inside(self, number: int) -> bool:
        """The attention of a pass is recomputed."""
        layer = self.baseline.layer_of(number)
        return descends(SELF_ATTENTION, set(self.marks.actions.roots.get(layer, ())))


class CalledStates(_Tied):
    """From the first call of a recomputed cell on, nothing is read in the state in which the forward pass begins. For
    layers that hand on no states of their own.

    MindSpore reads a parameter in that first state when nothing may have written it before: where it is loaded first,
    and no func graph has been called yet. A recomputed cell is such a call until late, so all parameters from there on
    are read in the state in front of it, which is that behind the norm and the attention before, and no later state is
    made between them. Cells of one replica in a pipeline, whose norms alone are copied over ranks, have such states
    without an embedding (measured with MindSpore 2.10.0: a norm of TeleChat3 that is recomputed alone, in 2 of 2 runs).

    Mirrors ``ReplaceUpdateStateForLoad`` (frontend/optimizer/auto_monad_eliminate.cc): not behind a special node, which
    is a call.
    """

    def tie(self) -> None:
        if not (self.asked.is_mcore and self.run.is_inlined):
            return
        for batch, first in self._first_called().items():
            reading = self.states.reading
            places = sorted((place, node) for node, (number, place) in reading.items() if number == batch)
            before = [node for place, node in places if place <= first and self.nodes.primitive[node] == STATE]
            if before and not self.states.is_embedding(before[-1]):
                for place, node in places:
                    if place >= first and self.nodes.primitive[node] == LOAD:
                        self.states.set(node, before[-1])

    def _first_called(self) -> dict[int, int]:
        """By micro-batch the first kernel of the forward pass in a recomputed cell, but for copies of parameters."""
        baseline, run, first = self.baseline, self.run, dict[int, int]()
        inside = (self.asked.called != NO_CELL) & ~baseline.kernels.backward & ~baseline.rootless
        for kernel in np.flatnonzero(inside[: run.count]).tolist():
            batch = run.batch_of_pass.get(int(baseline.kernels.passing[kernel]))
            if batch is not None:
                first.setdefault(batch, kernel)
        return first


class ExpertStates(_Tied):
    """The first of the weights of experts in a recomputed cell is read in the state in which the cell is called.

    A router writes what it counts, and the weights of its experts are read in the state behind that. Where a cell
    around both is recomputed, the forward pass of MindSpore 2.9.0 reads the weight of their first product in the state
    in front of the cell, and so casts it as early. Not where the cell of the experts is itself recomputed, nor where
    several cards have the same experts, as their gradients are added up then, nor where the weight is cast ahead of its
    state, as with a parallel optimizer in a pipeline (measured: DeepSeek-V3, TeleChat3 and Qwen3 MoE in 24 of 24 runs,
    in none of 53).

    Mirrors monads across the call of a recomputed cell.
    """

    def tie(self) -> None:
        if self.baseline.adds_up_experts or not self.run.is_inlined:
            return
        for kernel in self._first_products():
            load = self._loaded(self.run.graph.inputs[self.run.node_of[kernel]][_WEIGHT])
            if load != NO_NODE:
                self.states.set(load, self._called(self.states.state(load), self.asked.part(kernel)))

    def _first_products(self) -> Iterator[int]:
        """Of the experts in each recomputed cell around them."""
        kernels, marks, seen = self.baseline.kernels, self.marks, set[int]()
        products = np.flatnonzero((kernels.primitives == _PRODUCT) & ~kernels.backward & (kernels.passing >= 0))
        for kernel in products[products < self.run.count].tolist():
            passing = int(kernels.passing[kernel])
            if passing in seen:
                continue
            seen.add(passing)
            roots = marks.actions.roots.get(self.baseline.layer_of(passing), frozenset())
            if self.asked.root[kernel] != NO_CELL and not any(root.endswith(EXPERTS) for root in roots):
                yield kernel

    def _loaded(self, value: int) -> int:
        """The Load that a weight is cast and viewed of; `NO_NODE` where it is cast ahead."""
        graph = self.run.graph
        while value != NO_NODE and graph.primitive[value] != LOAD:
            value = graph.inputs[value][0] if graph.inputs[value] else NO_NODE
        return value if value != NO_NODE and self.nodes.maker(value) == NO_NODE else NO_NODE

    def _called(self, state: int, part: Part) -> int:
        """The one in which the cell of a part is called: in front of those behind what it reads, makes or writes."""
        while state != NO_NODE and self.nodes.primitive[state] == STATE and any(self._awaited(state, part)):
            state = self.states.state(state)
        return state

    def _awaited(self, state: int, part: Part) -> Iterator[bool]:
        """Whether each of what a state is behind stands in a part; what a strategy adds does not."""
        for given in self.nodes.inputs[state][1:]:
            values = self.nodes.inputs[given] if given != NO_NODE and self.nodes.primitive[given] == TUPLE else (given,)
            yield from (is_in(self.asked, value, part) for value in values if NO_NODE < value < self.nodes.count)
