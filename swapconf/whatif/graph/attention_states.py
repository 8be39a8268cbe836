"""ATTENTIONS -> what is read behind them is read in the state in which they hand out query, key and value.

In stages in front of the last MindSpore 2.9.0 drops these states, but not where a norm behind them is recomputed as a
cell of its own, which is called in one (measured: Qwen3, whose attention has norms, in pipelines).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from swapconf.trace.launch_graph import ITEM, LOAD, NO_NODE, STATE, TUPLE
from swapconf.upstream.scopes import descends
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.nodes import Nodes

_ATTENTION, _CALLED = "self_attention", "pre_mlp_layernorm"
_NORMS, _SPLIT, _PROJECTION = ("q_layernorm", "k_layernorm"), "SplitWithSize", "linear_proj"
_BEHIND = (_CALLED, "mlp")  # cells behind query, key and value


class States(Protocol):
    """Those in which parameters are read; see `CellStates`."""

    @property
    def reading(self) -> Mapping[int, tuple[int, int]]:
        """By Load the micro-batch, and the first kernel that it is read for."""

    def state(self, node: int) -> int:
        """The one of a Load."""

    def set(self, node: int, state: int) -> None:
        """Let a Load read in another one."""

    def is_embedding(self, state: int) -> bool:
        """It is behind the embedding alone."""


@dataclass
class AttentionStates:
    asked: Asked
    nodes: Nodes
    states: States

    def tie(self) -> None:
        if _CALLED not in self.asked.plan.marks.actions.cells:
            return
        run, free = self.asked.run, self._in_no_state()
        last: dict[int, int] = {}
        for number in (number for batch in self.asked.prepared.baseline.batches for number in batch):
            handed = self._handed_out(number) if number in free else []
            if not handed:
                continue
            batch = run.batch_of_pass[number]
            behind = self.nodes.add(STATE, (last.get(batch, NO_NODE), self.nodes.add(TUPLE, handed)))
            for load, home in free[number]:
                if home.startswith(_BEHIND) or (home.endswith(_PROJECTION) and not self._is_inside(number)):
                    self.states.set(load, behind)
                elif batch in last:
                    self.states.set(load, last[batch])
            last[batch] = behind

    def _in_no_state(self) -> dict[int, list[tuple[int, str]]]:
        """By pass (Load, the cell that reads it)."""
        passing, found = self.asked.prepared.baseline.kernels.passing, dict[int, list[tuple[int, str]]]()
        for node, (_, kernel) in self.states.reading.items():
            if self.nodes.primitive[node] == LOAD and not self._has_own_state(node):
                found.setdefault(int(passing[kernel]), []).append((node, self.asked.home(kernel)))
        return found

    def _has_own_state(self, load: int) -> bool:
        state = self.states.state(load)
        is_known = state < self.nodes.count and self.nodes.primitive[state] == STATE
        return state != NO_NODE and not (is_known and self.states.is_embedding(state))

    def _handed_out(self, number: int) -> list[int]:
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
        return descends(_ATTENTION, set(self.asked.plan.marks.actions.roots.get(layer, ())))
