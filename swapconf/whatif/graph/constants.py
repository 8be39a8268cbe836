"""What recomputed cells make of constants, such as the halves of a rotary table -> nodes for the backward pass.

MindSpore 2.9.0 makes the node again for the recomputed cells of all layers and micro-batches together, in stages of a
pipeline in front of the last for each micro-batch, without lazy inline for each layer. With lazy inline it waits for
nothing, as it reads a constant alone, and that constant lies on the device once more; without, it waits as what runs
again does (measured).

Mirrors recompute (frontend/optimizer/irpass/recompute.cc) and CSE of what depends on constants alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from swapconf.trace.launch_graph import NO_NODE
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.gates import Gates
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.tables import Tables
from swapconf.whatif.graph.ties import Ties
from swapconf.whatif.prepare import ALIGNMENT

_CONSTANT = CATEGORIES.index(Category.CONSTANT)
_FAR = 4  # nodes between a constant and what is made of it
_OF_CONSTANTS = frozenset({"CumSum", "Split"})


@dataclass
class Constants:
    """``kernel_of``: by added node the kernel of the baseline that it is like."""

    asked: Asked
    nodes: Nodes
    tables: Tables
    ties: Ties
    gates: Gates
    kernel_of: dict[int, int] = field(default_factory=dict)
    _made: dict[tuple[int, int], int] = field(default_factory=dict)

    def again(self, value: int, reader: int) -> int:
        """A value as the backward pass reads it for ``reader``, a kernel of the forward pass; `NO_NODE` where it is
        that of the forward pass."""
        source, _ = self.asked.run.source(value)
        is_inside = self.asked.root[reader] != NO_CELL or self.asked.is_left_out(reader)
        if not is_inside or not self._is_constant(source):
            return NO_NODE
        gate = NO_NODE if self.asked.run.is_inlined else self.gates.of(reader, self.asked.part(reader))
        return self.tables.shown(value, self._copy(source, self._sharing(reader), gate))

    def _sharing(self, reader: int) -> int:
        """The same for all that have one copy."""
        run = self.asked.run
        passing = int(self.asked.prepared.baseline.kernels.passing[reader])
        if not run.is_inlined:
            return passing
        return run.batch_of_pass.get(passing, 0) if self.asked.prepared.baseline.is_sent_gradients else 0

    def _copy(self, source: int, sharing: int, gate: int) -> int:
        """``gate``: what the first input waits for."""
        if (source, sharing) not in self._made:
            run, nodes = self.asked.run, self.nodes
            inputs = [
                given if given == NO_NODE else self.tables.shown(given, self._copy(run.source(given)[0], sharing, gate))
                for given in run.graph.inputs[source]
            ]
            if inputs[:1] == [NO_NODE]:
                inputs[0] = self.ties.gated(NO_NODE, gate)
            new = nodes.add(nodes.primitive[source], inputs, nodes.name[source])
            self._made[source, sharing] = new
            self.kernel_of[new] = run.kernel_of[source]
        return self._made[source, sharing]

    def _is_constant(self, node: int, far: int = 0) -> bool:
        """Made of constants alone: parameters, too, are no nodes, but are not what these primitives read."""
        run = self.asked.run
        if node not in run.kernel_of or run.is_backward(node) or far > _FAR:
            return False
        given = [value for value in run.graph.inputs[node] if value != NO_NODE]
        if not given:
            return run.graph.primitive[node] in _OF_CONSTANTS
        return all(self._is_constant(run.source(value)[0], far + 1) for value in given)

    def rows(self) -> list[int]:
        """Blocks of the baseline that lie on the device once more. A trace does not tell who reads a constant: it is
        as large as what is cut out of it, each rounded up for itself."""
        baseline, blocks = self.asked.prepared.baseline, self.asked.prepared.baseline.blocks
        constants = np.flatnonzero((baseline.maker < 0) & (blocks.category == _CONSTANT))
        rows = list[int]()
        node_of = {kernel: node for node, kernel in self.kernel_of.items()}
        for kernel, node in node_of.items():
            if any(given != NO_NODE and given < self.nodes.count for given in self.nodes.inputs[node]):
                continue
            parts = blocks.size_bytes[baseline.made[kernel]]
            more = parts.sum() - blocks.size_bytes[constants]
            rows += constants[(more >= 0) & (more <= len(parts) * ALIGNMENT)][:1].tolist()
        return rows
