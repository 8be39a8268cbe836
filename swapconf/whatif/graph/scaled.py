"""VIEWS in place of a product with 1 -> those of recomputed cells.

In front of the tables of a rotary embedding stands a product with 1, which with fused kernels is a view that all layers
share (`Sites.scaled`). Where it runs again with the cell around it, that is called with what the view shows, and has a
view of its own (measured with MindSpore 2.9.0: Qwen3; frontend/optimizer/irpass/recompute.cc).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from swapconf.trace.launch_graph import NO_NODE
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.run_graph import NO_KERNEL
from swapconf.whatif.graph.ties import Ties


@dataclass
class ScaledAgain(GraphChange):
    """``gated``: a value as what runs again sees it, see `RecomputedNodes.gated`."""

    ties: Ties
    gated: Callable[[int, int, int, Part, int], int]
    _views: dict[tuple[int, Part], int] = field(default_factory=dict)

    @cached_property
    def _rows(self) -> dict[int, tuple[int, ...]]:
        """By kernel that is such a view the sites of the products."""
        return dict(self.asked.prepared.sites.scaled)

    def of(self, view: int, kernel: int, barrier: int, part: Part) -> int:
        """What a kernel of a part reads for a node of the baseline; NO_NODE for what is no such view."""
        if not self._is_again(view, part):
            return NO_NODE
        if (view, part) not in self._views:
            shown = self.run.graph.inputs[view][0]
            source, item = self.run.source(shown)
            seen = self.gated(self.ties.behind_barrier(shown, barrier), source, kernel, part, item)
            self._views[view, part] = self.nodes.add(self.nodes.primitive[view], (seen,), self.nodes.name[view])
        return self._views[view, part]

    def _is_again(self, view: int, part: Part) -> bool:
        rows = self._rows.get(self.run.kernel_of.get(view, NO_KERNEL), ())
        if not rows or part.cell == NO_CELL or part.passing < 0 or not self.run.is_inlined:
            return False
        layer, names = self.baseline.layer_of(part.passing), self.asked.prepared.sites.names
        return any(bool(self.marks.actions.again[row]) for row in rows if names[row][0] == layer)
