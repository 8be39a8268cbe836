"""RECOMPUTED CELLS -> from the first call of one on, nothing is read in the state in which the forward pass begins.

MindSpore reads a parameter in that first state when nothing may have written it before: where it is loaded first, and
no func graph has been called yet. A recomputed cell is such a call until late, so all parameters from there on are read
in the state in front of it, which is that behind the norm and the attention before, and no later state is made between
them. Cells of one replica in a pipeline, whose norms alone are copied over ranks, have such states without an
embedding (measured with MindSpore 2.10.0: a norm of TeleChat3 that is recomputed alone, in 2 of 2 runs).

Mirrors ``ReplaceUpdateStateForLoad`` (frontend/optimizer/auto_monad_eliminate.cc): not behind a special node, which is
a call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.trace.launch_graph import LOAD, STATE
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.attached import LoadStates
from swapconf.whatif.graph.nodes import Nodes


@dataclass
class CalledStates:
    """For layers that hand on no states of their own."""

    asked: Asked
    nodes: Nodes
    states: LoadStates

    def tie(self) -> None:
        if not (self.asked.is_mcore and self.asked.run.is_inlined):
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
        baseline, run, first = self.asked.prepared.baseline, self.asked.run, dict[int, int]()
        inside = (self.asked.called != NO_CELL) & ~baseline.kernels.backward & ~baseline.rootless
        for kernel in np.flatnonzero(inside[: run.count]).tolist():
            batch = run.batch_of_pass.get(int(baseline.kernels.passing[kernel]))
            if batch is not None:
                first.setdefault(batch, kernel)
        return first
