"""RECOMPUTED CELLS -> what they return waits for the state behind them.

A recomputed cell is a graph of its own until late, which is called with the states of memory and of what is printed
(``UMonad``, ``IOMonad``) and returns them. Inlined, each value that it returns waits for both in turn; of the first
call of a forward pass the second one is still that in which the pass is called. The parameters that are read last in
the cell end the state of the cell: what is behind it is read in the next one. Only where something writes, as a router
that counts its tokens does, are there states at all (measured with MindSpore 2.9.0: Qwen3 with experts; recompute.cc
keeps the monads of callers).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from os.path import commonpath

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, STATE, TUPLE
from swapconf.whatif.graph.asked import ASSIGNS, NO_CELL
from swapconf.whatif.graph.attached import attached_kernels
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.load_states import LoadStates


@dataclass(frozen=True)
class _Call:
    """A recomputed cell in one forward pass. ``kernels``: ascending; ``nodes``: of these; ``scope``: of its names."""

    kernels: tuple[int, ...]
    nodes: frozenset[int]
    scope: str


@dataclass
class Returned(GraphChange):
    states: LoadStates

    def tie(self) -> None:
        if not (self.run.is_inlined and self._writes()):
            return
        seen = set[int | None]()
        for call in self._calls():
            state = self._last_state(call)
            if state == NO_NODE:
                continue
            end = self._ended(call, state)
            batch = self.run.batch_of_pass.get(int(self._passing[call.kernels[0]]))
            printed = end if batch in seen else self._root(state)
            seen.add(batch)
            self._return(call, end, printed)

    def _writes(self) -> bool:
        """Whether layers do in the forward pass."""
        kernels, batches = self.baseline.kernels, self.run.batch_of_pass
        writing = (kernel for kernel in attached_kernels(self.run) if kernels.primitive[kernel].startswith(ASSIGNS))
        return any(not kernels.backward[kernel] and int(kernels.passing[kernel]) in batches for kernel in writing)

    @property
    def _passing(self) -> Ints:
        return self.baseline.kernels.passing

    def _calls(self) -> Iterator[_Call]:
        run, kernels = self.run, self.baseline.kernels
        called, under = self.asked.called[: run.count], self.marks.covered.under[:, : run.count]
        forward = ~kernels.backward[: run.count]
        of_cells = np.flatnonzero((called != NO_CELL) & forward)
        calls = {(int(self._passing[kernel]), int(called[kernel])) for kernel in of_cells.tolist()}
        kernels_of = [
            np.flatnonzero(under[cell] & forward & (self._passing[: run.count] == passing)).tolist()
            for passing, cell in calls
        ]
        for kernels_of_call in sorted(kernels_of, key=lambda cell_kernels: cell_kernels[-1]):
            nodes = [run.node_of[kernel] for kernel in kernels_of_call]
            scopes = [run.graph.name[node].rpartition("/")[0] for node in nodes if run.graph.name[node].count("/") > 1]
            yield _Call(tuple(kernels_of_call), frozenset(nodes), f"{commonpath(scopes)}/" if scopes else "/")

    @cached_property
    def _reading(self) -> list[tuple[int, int]]:
        """(first kernel that is read for, Load or state that others are read in), ascending."""
        return sorted((place, node) for node, (_, place) in self.states.reading.items())

    def _read_in(self, call: _Call) -> list[int]:
        first, last = (bisect_left(self._reading, (kernel,)) for kernel in (call.kernels[0], call.kernels[-1] + 1))
        inside = set(call.kernels)
        return [node for place, node in self._reading[first:last] if place in inside]

    @cached_property
    def _behind(self) -> dict[int, list[int]]:
        """By node the states that are behind it."""
        states_behind: dict[int, list[int]] = {}
        for state in (node for node in range(self.nodes.count) if self.nodes.primitive[node] == STATE):
            for given in self.nodes.inputs[state]:
                states_behind.setdefault(given, []).append(state)
        return states_behind

    def _last_state(self, call: _Call) -> int:
        """The one behind all that the cell reads and writes; `NO_NODE` for none."""
        read = [self.states.state(node) for node in self._read_in(call)]
        written = [state for node in call.nodes for state in self._behind.get(node, ())]
        return max((state for state in (*read, *written) if state != NO_NODE), key=self._depth, default=NO_NODE)

    def _depth(self, state: int) -> int:
        return sum(1 for _ in self._chain(state))

    def _root(self, state: int) -> int:
        """In which the pass is called."""
        return [state, *(self.nodes.inputs[before][0] for before in self._chain(state))][-1]

    def _chain(self, state: int) -> Iterator[int]:
        """A state and those in front of it."""
        while state != NO_NODE and self.nodes.primitive[state] == STATE:
            yield state
            state = self.nodes.inputs[state][0]

    def _ended(self, call: _Call, state: int) -> int:
        """The state behind what the cell reads last, in which all that follows is read."""
        loads = (node for node in self._read_in(call) if self.nodes.primitive[node] == LOAD)
        reads = [node for node in loads if self.states.state(node) == state]
        if not reads:
            return state
        end = self.nodes.add(STATE, (state, self.nodes.add(TUPLE, reads)))
        for _, node in self._reading[bisect_left(self._reading, (call.kernels[-1] + 1,)) :]:
            if self.states.state(node) == state:
                self.states.set(node, end)
        return end

    def _return(self, call: _Call, end: int, printed: int) -> None:
        shown: dict[int, int] = {}
        for user, value in self._returned(call):
            if value not in shown:
                shown[value] = self.nodes.tied(self.nodes.tied(value, end), printed)
            if self._is_called(user):
                for reader in self.run.users[user]:
                    self.nodes.read_instead(reader, {user: shown[value]})
            else:
                self.nodes.read_instead(user, {value: shown[value]})
        for saved in self.run.forward_tuples:
            self.nodes.read_instead(saved, shown)

    def _is_called(self, node: int) -> bool:
        """Waits for a state behind the cell by itself, as MindSpore has it where it is not recomputed."""
        inputs = self.nodes.inputs[node]
        return (
            self.nodes.primitive[node] == DEPEND and inputs[1] != NO_NODE and self.nodes.primitive[inputs[1]] == STATE
        )

    def _returned(self, call: _Call) -> Iterator[tuple[int, int]]:
        """(who reads it behind the cell in the forward pass, value)"""
        inside = self._inside(call)
        run, backward = self.run, self.baseline.kernels.backward
        for value in sorted(inside):
            for user in run.users[value]:
                is_forward = user in run.kernel_of and not backward[run.kernel_of[user]]
                if user not in inside and value in self.nodes.inputs[user] and (is_forward or self._is_called(user)):
                    yield user, value

    def _inside(self, call: _Call) -> set[int]:
        """What the cell launches, and what looks at that there."""
        inside, users = set(call.nodes), self.run.users
        near = list(inside)
        while near:
            for user in users[near.pop()]:
                is_view = self.nodes.primitive[user] == ITEM or (
                    self.nodes.primitive[user] == DEPEND
                    and (self.nodes.name[user].startswith(call.scope) or not call.nodes.isdisjoint(users[user]))
                )
                if is_view and user not in inside:
                    inside.add(user)
                    near.append(user)
        return inside


# --- forward passes of recomputed layers alone ------------------------------------------------------------------------


class ReturnedByLayers(GraphChange):
    """What a forward pass of recomputed layers alone returns waits for the state in which it read its parameters.
    MindSpore 2.9.0 hands that state (``UpdateState``) through the graphs of recomputed layers. Where all layers of a
    micro-batch are such, it does not see any more that nothing writes a parameter (measured)."""

    def tie(self) -> None:
        run, nodes = self.run, self.nodes
        for batch, saved in run.saved_of.items():
            kernels = self._of_layers(batch)
            state = self._last(kernels) if kernels and all(map(self._is_whole, kernels)) else NO_NODE
            value = nodes.inputs[saved][0]
            if state != NO_NODE and nodes.primitive[value] == DEPEND and not nodes.waits_for_state(value):
                nodes.inputs[value] = [nodes.tied(nodes.inputs[value][0], state), *nodes.inputs[value][1:]]

    def _of_layers(self, batch: int) -> list[int]:
        baseline, run = self.baseline, self.run
        backward, passing = baseline.kernels.backward, baseline.kernels.passing
        passes = set(baseline.batches[batch])
        return [kernel for kernel in range(run.count) if not backward[kernel] and int(passing[kernel]) in passes]

    def _is_whole(self, kernel: int) -> bool:
        cell = int(self.asked.root[kernel])
        return cell != NO_CELL and self.marks.actions.cells[cell] == ""

    def _last(self, kernels: list[int]) -> int:
        """The state behind all reads of parameters."""
        run = self.run
        inputs = (given for kernel in kernels for given in run.graph.inputs[run.node_of[kernel]])
        loads = (given for given in inputs if given != NO_NODE and run.graph.primitive[given] == LOAD)
        state = next((run.graph.inputs[load][1] for load in loads if len(run.graph.inputs[load]) > 1), NO_NODE)
        last, passed = NO_NODE, set[int]()
        while state != NO_NODE and state not in passed:
            passed.add(state)
            state = next((user for user in run.users[state] if run.graph.primitive[user] == STATE), NO_NODE)
            last = state if state != NO_NODE else last
        return last
