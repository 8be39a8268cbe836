"""RECOMPUTED OR LEFT OUT -> in which states the layers of a legacy model read parameters behind that.

Where tensor parallelism copies the weights of norms alone over ranks, without data parallelism and in a pipeline, those
of a layer are read in the state behind the layer before, and what the stage returns waits for the last of these states
(``UpdateState``). MindSpore 2.9.0 makes one of them behind the first that is recomputed or left out of recompute: all
parameters from there on are read in the state in front of it, where two come before it, else in none; only what stands
behind the layers, the weight of the output layer with it, is read behind the last. What the stage returns waits for
that where the last layer is the first that is recomputed (measured: ChatGLM and Llama).

Mirrors ``updatestate_eliminate`` (frontend/optimizer/irpass/updatestate_eliminate.cc) of steps without calls.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from swapconf.trace.launch_graph import DEPEND, LOAD, NO_NODE, STATE, TUPLE
from swapconf.trace.lifetimes import NEVER
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.load_states import LoadStates
from swapconf.whatif.graph.nodes import COPY

_KEPT = 2  # states in front of what is recomputed


@dataclass
class LayerStates(GraphChange):
    states: LoadStates

    def tie(self) -> None:
        if self.asked.is_mcore or not self.asked.is_pipelined:
            return
        firsts = self._first()
        if not firsts:
            return
        states, loads = self._of_batches(STATE), self._of_batches(LOAD)
        for batch, first in firsts.items():
            if batch in states:
                self._merge(batch, self._with_last(states[batch]), loads[batch], first)

    def _of_batches(self, primitive: str) -> dict[int, list[int]]:
        """By micro-batch what reads parameters, or what these are read in, in the order of who reads first."""
        reading, by_batch = self.states.reading, defaultdict[int, list[int]](list)
        for node in sorted(reading, key=lambda loaded: reading[loaded][1]):
            if self.nodes.primitive[node] == primitive:
                by_batch[reading[node][0]].append(node)
        return by_batch

    def _with_last(self, states: list[int]) -> list[int]:
        """In front of the last stage nothing is read in the last state, that the stage returns."""
        behind = (user for user in self.run.users[states[-1]] if self.run.graph.primitive[user] == STATE)
        return [*states, *(user for user in behind if self.run.graph.inputs[user][0] == states[-1])]

    def _first(self) -> dict[int, int]:
        """By micro-batch the first kernel in a recomputed cell, or that is left out of recompute."""
        asked, kernels = self.asked, self.baseline.kernels
        firsts: dict[int, int] = {}
        if not (asked.marks.actions.cells or asked.marks.actions.excluded.any()):
            return firsts
        for kernel, passing in enumerate(kernels.passing[: asked.run.count].tolist()):
            batch = asked.run.batch_of_pass.get(passing)
            if batch is None or batch in firsts or kernels.backward[kernel]:
                continue
            if asked.is_inside(kernel) or asked.is_excluded(kernel):
                firsts[batch] = kernel
        return firsts

    def _merge(self, batch: int, states: list[int], loads: list[int], first: int) -> None:
        place = {node: self.states.reading[node][1] for node in (*states, *loads) if node in self.states.reading}
        passing, last = self.baseline.kernels.passing, states[-1]
        before = [state for state in states[:-1] if place[state] <= first]
        ahead = [load for load in loads if place[load] < first]
        own = [load for load in ahead if passing[place[load]] == passing[first]]
        called = own if self.asked.is_inside(first) else []
        is_kept = len(before) + bool(called) >= _KEPT
        here = self._behind(before[-1], called) if is_kept else NO_NODE
        end = place.get(last, NEVER)
        self._read_in(here, loads[len(ahead) if is_kept else 0 :])
        self._read_in(last, [load for load in loads if place[load] >= end])
        self._join(last, here, states[len(before) if is_kept else 0 : -1])
        is_last = passing[first] == self.baseline.batches[batch][-1] and (is_kept or not own)
        if last in place and not is_last:
            self._release(last)

    def _read_in(self, state: int, loads: list[int]) -> None:
        for load in loads:
            self.states.set(load, state)

    def _behind(self, state: int, loads: list[int]) -> int:
        """The state behind what is read in one; that itself, where nothing is."""
        if not loads:
            return state
        return self.nodes.add(STATE, (state, self.nodes.add(TUPLE, [self._read(load) for load in loads])))

    def _read(self, load: int) -> int:
        """A parameter, or the copy of it that is read."""
        users = self.run.users[load]
        return next((user for user in users if self.nodes.primitive[user] == COPY), load)

    def _join(self, last: int, before: int, merged: list[int]) -> None:
        """One state that is behind all that others are behind."""
        inputs = self.nodes.inputs
        inputs[last][0] = before
        if self.nodes.primitive[inputs[last][1]] == TUPLE:
            inputs[inputs[last][1]][:0] = [value for state in merged for value in inputs[inputs[state][1]]]

    def _release(self, last: int) -> None:
        """What the stage returns waits for it no more."""
        for user in self.run.users[last]:
            if self.nodes.primitive[user] == DEPEND:
                self.nodes.inputs[user] = [NO_NODE if given == last else given for given in self.nodes.inputs[user]]
