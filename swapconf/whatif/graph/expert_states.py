"""EXPERTS in recomputed cells -> the first of their weights is read in the state in which the cell is called.

A router writes what it counts, and the weights of its experts are read in the state behind that. Where a cell around
both is recomputed, the forward pass of MindSpore 2.9.0 reads the weight of their first product in the state in front of
the cell, and so casts it as early. Not where the cell of the experts is itself recomputed, nor where several cards have
the same experts, as their gradients are added up then, nor where the weight is cast ahead of its state, as with a
parallel optimizer in a pipeline (measured: DeepSeek-V3, TeleChat3 and Qwen3 MoE in 24 of 24 runs, in none of 53).

Mirrors monads across the call of a recomputed cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from swapconf.models.cells import EXPERTS
from swapconf.trace.launch_graph import LOAD, NO_NODE, STATE, TUPLE
from swapconf.whatif.graph.asked import NO_CELL, Asked, Part
from swapconf.whatif.graph.attached import LoadStates
from swapconf.whatif.graph.inside import is_in
from swapconf.whatif.graph.nodes import Nodes

_PRODUCT = "GroupedMatmul"
_WEIGHT = 1  # among the inputs of a product


@dataclass
class ExpertStates:
    asked: Asked
    nodes: Nodes
    states: LoadStates

    def tie(self) -> None:
        if self.asked.prepared.baseline.adds_up_experts or not self.asked.run.is_inlined:
            return
        for kernel in self._first_products():
            load = self._loaded(self.asked.run.graph.inputs[self.asked.run.node_of[kernel]][_WEIGHT])
            if load != NO_NODE:
                self.states.set(load, self._called(self.states.state(load), self.asked.part(kernel)))

    def _first_products(self) -> Iterator[int]:
        """Of the experts in each recomputed cell around them."""
        kernels, marks, seen = self.asked.prepared.baseline.kernels, self.asked.plan.marks, set[int]()
        products = np.flatnonzero((kernels.primitives == _PRODUCT) & ~kernels.backward & (kernels.passing >= 0))
        for kernel in products[products < self.asked.run.count].tolist():
            passing = int(kernels.passing[kernel])
            if passing in seen:
                continue
            seen.add(passing)
            roots = marks.actions.roots.get(self.asked.prepared.baseline.layer_of(passing), frozenset())
            if self.asked.root[kernel] != NO_CELL and not any(root.endswith(EXPERTS) for root in roots):
                yield kernel

    def _loaded(self, value: int) -> int:
        """The Load that a weight is cast and viewed of; `NO_NODE` where it is cast ahead."""
        graph = self.asked.run.graph
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
