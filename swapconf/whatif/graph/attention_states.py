"""ATTENTIONS -> what is read behind them is read in the state in which they hand out query, key and value.

Where any cell is recomputed, MindSpore 2.9.0 keeps these states: on the stage with the loss from the first layer on in
which one is, in stages in front of it all (measured: Qwen3, whose attention has norms).

Mirrors ``updatestate_eliminate``: an UpdateState of a MakeTuple stays, as that is not pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.models.cells import KEY_NORM, MLP, MLP_NORM, PROJECTION, QUERY_NORM, SELF_ATTENTION
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, STATE, TUPLE
from swapconf.upstream.scopes import descends
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.attached import LoadStates
from swapconf.whatif.graph.nodes import Nodes

_NORMS, _SPLIT = (QUERY_NORM, KEY_NORM), "SplitWithSize"
_BEHIND = (MLP_NORM, MLP)  # cells behind query, key and value


@dataclass
class AttentionStates:
    asked: Asked
    nodes: Nodes
    states: LoadStates

    def tie(self) -> None:
        baseline, free = self.asked.prepared.baseline, self._in_no_state()
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
        inputs = self.asked.run.graph.inputs[load]
        return inputs[1] if len(inputs) > 1 else NO_NODE

    def _with_call(self) -> dict[int, int]:
        """By pass in which a recomputed cell is called the first kernel from which on that counts: all, but for a cell
        that reads no parameter what is behind its beginning."""
        passing = self.asked.prepared.baseline.kernels.passing
        inside = np.flatnonzero((self.asked.root != NO_CELL) & (passing >= 0))
        first_called = dict(zip(passing[inside][::-1].tolist(), inside[::-1].tolist(), strict=True))
        return first_called | dict.fromkeys(passing[self.asked.called != NO_CELL].tolist(), 0)

    def _in_no_state(self) -> dict[int, list[tuple[int, str]]]:
        """By pass (Load, the cell that reads it)."""
        passing, loads = self.asked.prepared.baseline.kernels.passing, dict[int, list[tuple[int, str]]]()
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
        run, kernels = self.asked.run, self.asked.prepared.baseline.kernels
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
        layer = self.asked.prepared.baseline.layer_of(number)
        return descends(SELF_ATTENTION, set(self.asked.plan.marks.actions.roots.get(layer, ())))
