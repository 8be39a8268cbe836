"""What recomputed cells cut out of a constant, such as the halves of a rotary table -> one node for the backward pass.

MindSpore 2.9.0 makes the node again for the recomputed cells of all layers and micro-batches together: it waits for
nothing, as it reads a constant alone, and that constant lies on the device once more (measured).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from swapconf.trace.launch_graph import NO_NODE
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.tables import Tables
from swapconf.whatif.prepare import ALIGNMENT

_CONSTANT = CATEGORIES.index(Category.CONSTANT)
_CUTS = frozenset({"Split"})


@dataclass
class Constants:
    """``kernel_of``: by added node the kernel of the baseline that it is like."""

    asked: Asked
    nodes: Nodes
    tables: Tables
    kernel_of: dict[int, int] = field(default_factory=dict)
    _made: dict[int, int] = field(default_factory=dict)

    def again(self, value: int, reader: int) -> int:
        """A value as the backward pass reads it for ``reader``, a kernel of the forward pass; `NO_NODE` where it is
        that of the forward pass."""
        source, _ = self.asked.run.source(value)
        kernel = self.asked.run.kernel_of.get(source)
        if kernel is None or self.asked.root[reader] == NO_CELL or not self._is_cut(source, kernel):
            return NO_NODE
        if kernel not in self._made:
            nodes = self.nodes
            self._made[kernel] = nodes.add(nodes.primitive[source], nodes.inputs[source], nodes.name[source])
            self.kernel_of[self._made[kernel]] = kernel
        return self.tables.shown(value, self._made[kernel])

    def _is_cut(self, node: int, kernel: int) -> bool:
        is_constant = all(given == NO_NODE for given in self.asked.run.graph.inputs[node])
        return is_constant and self.nodes.primitive[node] in _CUTS and kernel not in self.asked.again

    def rows(self) -> list[int]:
        """Blocks of the baseline that lie on the device once more. A trace does not tell who reads a constant: it is
        as large as what is cut out of it, each rounded up for itself."""
        baseline, blocks = self.asked.prepared.baseline, self.asked.prepared.baseline.blocks
        constants = np.flatnonzero((baseline.maker < 0) & (blocks.category == _CONSTANT)).tolist()
        found = []
        for kernel in self._made:
            parts = blocks.size_bytes[baseline.made[kernel]]
            found += [
                row for row in constants if 0 <= parts.sum() - blocks.size_bytes[row] <= len(parts) * ALIGNMENT
            ][:1]
        return found
