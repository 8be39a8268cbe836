"""STATES in recomputed cells: in which what runs again reads parameters, and behind which cells hand out tuples.

A recomputed cell is a graph of its own until late, and keeps what MindSpore 2.9.0 removes elsewhere: each load of a
parameter reads a state (``UpdateState``), which starts as that in which the cell is called, tied to the gradient. An
attention of mcore that returns query, key and value makes one of what was read before and of these; so does the last
cell of a feed-forward network, of all that its layer has read in the state before, but for the weights of products
that add up over ranks (measured: seven families, accumulated steps and pipelines). Without lazy inline such a state is
behind what the forward pass has handed out.

Mirrors monads inside the K graph (frontend/optimizer/irpass/recompute.cc keeps those of the caller;
updatestate_eliminate.cc).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swapconf.models.cells import (
    EXPERTS,
    FIRST_LINEAR,
    KEY_VALUE_UP,
    MLP,
    MLP_NORM,
    PROJECTION,
    QKV,
    QUERY_NORM,
    SECOND_LINEAR,
    SELF_ATTENTION,
    SHARED_EXPERTS,
)
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, STATE, TUPLE
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.communicated import views_left_out
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.gates import Gates
from swapconf.whatif.graph.inside import begins_stage, is_at_end, is_attention_alone, is_in, is_loaded, is_read_again
from swapconf.whatif.graph.nodes import COPY
from swapconf.whatif.graph.run_graph import NO_KERNEL
from swapconf.whatif.graph.ties import Ties

_SPLIT = "SplitWithSize"
# the first of these that a layer has
_LAST_CELLS = tuple(f"{MLP}.{cell}" for cell in (SHARED_EXPERTS, EXPERTS, SECOND_LINEAR))
_NOT_AWAITED = (PROJECTION, KEY_VALUE_UP)  # no state is behind what these read, ...
_NOT_AWAITED_BY_EXPERTS = (*_NOT_AWAITED, MLP_NORM)  # ... nor, with experts, this
_PRODUCTS = (FIRST_LINEAR, SECOND_LINEAR)
_BEHIND = (PROJECTION, MLP_NORM)  # cells behind query, key and value
_PRODUCT = "MatMul"


@dataclass
class InnerStates(GraphChange):
    """``copied``: what a value of the forward pass is in a part, where it runs again."""

    ties: Ties
    gates: Gates
    copied: Callable[[int, int, Part], int]
    _states: dict[tuple[int, Part], int] = field(default_factory=dict)
    _behind: dict[tuple[int, Part, frozenset[int] | None], int] = field(default_factory=dict)
    _tied: dict[tuple[int, int], int] = field(default_factory=dict)
    _last: dict[Part, str] = field(default_factory=dict)
    _attended: dict[Part, int] = field(default_factory=dict)

    def loaded(self, load: int, kernel: int, barrier: int, part: Part) -> int:
        """A parameter as what runs again in a cell reads it."""
        state = self._state(self._read_in(load), kernel, barrier, part)
        if state == self._called(kernel, barrier, part):
            state = self._behind_attention(load, kernel, barrier, part)
        if self._is_read_last(load, part):
            state = self._behind_loads(state, None, kernel, barrier, part)
        return self.ties.loaded(load, barrier, self.gates.of(kernel, part), state)

    def handed(self, seen: int, value: int, kernel: int, barrier: int, part: Part) -> int:
        """``seen``: the copy of a value. What an attention hands out is read in the states in which it does that in the
        forward pass; the view of a product that is left out of a recomputed feed-forward network in that in which the
        network is called."""
        if part.cell == NO_CELL:
            return seen
        graph, source = self.run.graph, self.run.source(value)[0]
        is_tied = self._is_of_attention(source, part) or self._is_of_first_linear(source, kernel, part)
        if is_tied or self._is_of_left_out(source, kernel, part):
            return self.nodes.tied(seen, self._called(kernel, barrier, part))
        if SELF_ATTENTION not in self.asked.home(self.run.kernel_of[source]):
            return seen
        if self._is_handed_out(source, part) and not self._reads_again(source):
            return self.nodes.tied(seen, self._called(kernel, barrier, part))
        while value < self.nodes.count and graph.primitive[value] in {DEPEND, ITEM}:
            below, awaited = graph.inputs[value][0], graph.inputs[value][1]
            if graph.primitive[value] == DEPEND and awaited != NO_NODE and graph.primitive[awaited] == STATE:
                if (seen, awaited) not in self._tied:
                    self._tied[seen, awaited] = self.nodes.tied(seen, self._state(awaited, kernel, barrier, part))
                seen = self._tied[seen, awaited]
            value = below
        return seen

    def kept(self, seen: int, value: int, kernel: int, barrier: int, part: Part) -> int:
        """``seen``: what was kept of a value. What is left out of a recomputed layer in front of a state of its
        feed-forward network is read in that state; what a Linear returns in the state in which a stage begins, in that
        in which the layer is called."""
        source = self.run.source(value)[0]
        made = self.run.kernel_of.get(source, NO_KERNEL)
        if made in self.asked.again or made in self._views_left_out:
            return seen
        if self._is_handed_out(source, part) or self._is_of_attention(source, part):
            return self.nodes.tied(seen, self._called(kernel, barrier, part))
        graph = self.run.graph
        if value >= self.nodes.count or graph.primitive[value] != DEPEND or not self.asked.is_whole(part):
            return seen
        below, awaited = graph.inputs[value][:2]
        if awaited == NO_NODE and graph.primitive[source] in VIEWS and self.run.is_inlined:
            return self.nodes.tied(self.ties.behind_barrier(below, barrier), self._called(kernel, barrier, part))
        is_network = awaited != NO_NODE and graph.primitive[awaited] == STATE and self._is_read_in(awaited, part)
        if not is_network or not self.run.is_inlined:
            return seen
        state = self._behind_loads(self._state(awaited, kernel, barrier, part), None, kernel, barrier, part)
        return self.nodes.tied(self.ties.behind_barrier(below, barrier), state)

    @cached_property
    def _views_left_out(self) -> frozenset[int]:
        """They wait themselves for what they show."""
        return frozenset(views_left_out(self.baseline, self.marks.sites, self.marks.actions))

    def _is_read_in(self, state: int, part: Part) -> bool:
        """A state of the forward pass behind parameters alone that a cell reads."""
        read = [value for value in self._packed(self.run.graph.inputs[state][1]) if value != NO_NODE]
        return bool(read) and all(is_loaded(self.asked, value) and is_in(self.asked, value, part) for value in read)

    def _is_handed_out(self, source: int, part: Part) -> bool:
        """Query, key and value of a recomputed layer or attention are read in the state in which that is called, where
        the attention hands them out as they are, without norms of its own: where they are left out, or read what is."""
        made, asked = self.run.kernel_of.get(source, NO_KERNEL), self.asked
        if part.cell == NO_CELL or made == NO_KERNEL or asked.run.graph.primitive[source] != _SPLIT:
            return False
        is_called = asked.is_whole(part) or asked.marks.actions.cells[part.cell].endswith(SELF_ATTENTION)
        home = self.asked.home(made) if is_called and asked.is_under(part.cell, made) else ""
        return home.endswith(SELF_ATTENTION) and f"{home}.{QUERY_NORM}" not in self._homes

    def _reads_again(self, node: int) -> bool:
        run = self.run
        return any(run.kernel_of.get(run.source(value)[0]) in self.asked.again for value in run.graph.inputs[node])

    def _is_of_attention(self, source: int, part: Part) -> bool:
        """The product in front of norms of query and key that is left out of a recomputed cell, or a view of it: what a
        Linear of mcore returns waits for the state behind its weight, and where the weight is not read again, that is
        the state in which the cell is called (measured: Qwen3 MoE)."""
        run, asked, baseline = self.run, self.asked, self.baseline
        made = run.kernel_of.get(source, NO_KERNEL)
        # what stays without ``mp_comm_recompute`` waits for nothing
        if made == NO_KERNEL or asked.marks.staying[made]:
            return False
        while made != NO_KERNEL and baseline.views[made]:
            made = int(baseline.below[made])
        if part.cell == NO_CELL or made == NO_KERNEL or made in asked.again or not (asked.is_mcore and run.is_inlined):
            return False
        home, _, cell = asked.home(made).rpartition(".")
        is_product = (
            baseline.kernels.primitive[made] == _PRODUCT and cell == QKV and f"{home}.{QUERY_NORM}" in self._homes
        )
        return is_product and asked.is_under(part.cell, made)

    def _is_of_first_linear(self, source: int, kernel: int, part: Part) -> bool:
        """What the first Linear of an attention that is recomputed by itself returns."""
        home = self.asked.home(self.run.kernel_of[source])
        return is_attention_alone(self.asked, part) and home.endswith(QKV) and home != self.asked.home(kernel)

    def _is_of_left_out(self, view: int, kernel: int, part: Part) -> bool:
        asked, run, baseline = self.asked, self.run, self.baseline
        if run.graph.primitive[view] not in VIEWS or asked.is_whole(part) or not asked.returns_tuple(part):
            return False
        made = run.kernel_of.get(run.source(run.graph.inputs[view][0])[0], NO_KERNEL)
        if made == NO_KERNEL or made in asked.again or not baseline.is_accumulated:
            return False
        home = self.asked.home(run.kernel_of[view])
        return home.endswith(_PRODUCTS) and home == self.asked.home(made) != self.asked.home(kernel)

    @cached_property
    def _homes(self) -> frozenset[str]:
        """Cells with kernels."""
        return frozenset(map(self.asked.home, range(self.run.count)))

    def _called(self, kernel: int, barrier: int, part: Part) -> int:
        """The state in which the cell is called."""
        return self.ties.state(NO_NODE if begins_stage(self.asked, part) else barrier, self.gates.of(kernel, part))

    def _state(self, state: int, kernel: int, barrier: int, part: Part) -> int:
        """A state of the forward pass in a part: behind the last tuple that an attention has handed out there."""
        while state != NO_NODE and self._is_here(state, part):
            first, given = self.run.graph.inputs[state][:2]
            values = (value for value in self._packed(given) if value != NO_NODE and not is_loaded(self.asked, value))
            handed = [value for value in values if is_in(self.asked, value, part, of_again=True)]
            if handed:
                if (state, part) not in self._states:
                    before = self._state(first, kernel, barrier, part)
                    if self.run.is_inlined:
                        before = self._behind_loads(before, self._earlier(first), kernel, barrier, part)
                        given = self.nodes.add(TUPLE, [self.copied(value, barrier, part) for value in handed])
                    self._states[state, part] = self.nodes.add(STATE, (before, given))
                return self._states[state, part]
            state = first
        return self._called(kernel, barrier, part)

    def _behind_attention(self, load: int, kernel: int, barrier: int, part: Part) -> int:
        """That in which a cell is called, or, for what is read behind query, key and value, the state behind these,
        where the forward pass has it for another parameter only (measured: pipelines)."""
        called = self._called(kernel, barrier, part)
        homes = map(self.asked.home, self.run.reading(load))
        if not self.asked.is_whole(part) or not any(map(_is_behind, homes)):
            return called
        if part not in self._attended:
            states = (
                self._state(self._read_in(parameter), kernel, barrier, part)
                for parameter in self._loads(part, _is_behind)
            )
            self._attended[part] = next((state for state in states if state != called), called)
        return self._attended[part]

    def _behind_loads(self, state: int, within: frozenset[int] | None, kernel: int, barrier: int, part: Part) -> int:
        """The state behind what is read in one in a cell. ``within``: what the forward pass reads in other states than
        these is left out."""
        key = state, part, within
        if key not in self._behind:
            self._behind[key] = state
            loads = [
                self.loaded(load, kernel, barrier, part)
                for load in self._awaited(part)
                if within is None or self._read_in(load) in within
            ]
            read = [load for load in dict.fromkeys(loads) if self.nodes.inputs[load][1:2] == [state]]
            if read:
                self._behind[key] = self.nodes.add(STATE, (state, self.nodes.add(TUPLE, read)))
        return self._behind[key]

    def _awaited(self, part: Part) -> Iterator[int]:
        """Loads of a cell that states are behind, in front of its last cell."""
        last = self._last_cell(part)
        own = (QKV,) if is_attention_alone(self.asked, part) else ()
        left_out = (*own, *(_NOT_AWAITED if last == _LAST_CELLS[-1] else _NOT_AWAITED_BY_EXPERTS))
        loads = self._loads(part, lambda home: not home.endswith(left_out) and not is_at_end(home, last))
        return (load for load in loads if is_read_again(self.asked, load))

    def _loads(self, part: Part, is_cell: Callable[[str], bool]) -> Iterator[int]:
        """What cells in a part read of parameters. ``is_one``: of the path of a cell."""
        run, kernels = self.run, self.baseline.kernels
        inside = (kernels.passing == part.passing) & ~kernels.backward
        for kernel in np.flatnonzero(inside[: run.count]).tolist():
            if not self.asked.is_under(part.cell, kernel) or not is_cell(self.asked.home(kernel)):
                continue
            for given in run.graph.inputs[run.node_of[kernel]]:
                load = run.graph.inputs[given][0] if given != NO_NODE and run.graph.primitive[given] == COPY else given
                if load != NO_NODE and run.graph.primitive[load] == LOAD:
                    yield load

    def _read_in(self, load: int) -> int:
        """The state in which the forward pass reads a parameter."""
        inputs = self.run.graph.inputs[load]
        return inputs[1] if len(inputs) > 1 else NO_NODE

    def _is_read_last(self, load: int, part: Part) -> bool:
        """By the last cell in a recomputed network of experts, or in that of a layer recomputed as a whole."""
        if not (self.asked.is_whole(part) or self._is_network(part)) or not self.run.is_inlined:
            return False
        kernel_of, last = self.run.kernel_of, self._last_cell(part)
        homes = (self.asked.home(kernel_of[user]) for user in self.run.users[load] if user in kernel_of)
        return any(is_at_end(home, last) for home in homes)

    def _is_network(self, part: Part) -> bool:
        """Of experts; of one without only where its layer is recomputed as a whole."""
        cell = self.marks.actions.cells[part.cell] if part.cell != NO_CELL else ""
        is_network = cell.rpartition(".")[2] == MLP and self.asked.returns_tuple(part)
        return is_network and self._last_cell(part) != _LAST_CELLS[-1]

    def _last_cell(self, part: Part) -> str:
        if part not in self._last:
            paths = self.asked.operators(part)
            cells = (cell for cell in _LAST_CELLS if any(path.endswith(cell) for path in paths))
            self._last[part] = next(cells, _LAST_CELLS[-1])
        return self._last[part]

    def _earlier(self, state: int) -> frozenset[int]:
        """A state and those before it, and that of what is read in none."""
        graph, states = self.run.graph, [NO_NODE]
        while state != NO_NODE and graph.primitive[state] == STATE:
            states.append(state)
            state = graph.inputs[state][0]
        return frozenset(states)

    def _is_here(self, state: int, part: Part) -> bool:
        """What a state is behind is read, made or written in a cell."""
        given = self.run.graph.inputs[state][1]
        return any(value != NO_NODE and is_in(self.asked, value, part) for value in self._packed(given) or (given,))

    def _packed(self, node: int) -> Sequence[int]:
        """What is in the tuple that a state is behind; a state may be behind a kernel that writes, instead."""
        return self.run.graph.inputs[node] if node != NO_NODE and self.run.graph.primitive[node] == TUPLE else ()


def _is_behind(home: str) -> bool:
    return home.endswith(_BEHIND) or home.startswith(MLP)
