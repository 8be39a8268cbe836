"""What all have in common that change the graph of a run for a strategy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from swapconf.whatif.baseline import Baseline
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.rerun import Marks


@dataclass
class GraphChange:
    """``asked``: what the strategy asks of the graph. ``nodes``: of the graph, as far as it is changed by then."""

    asked: Asked
    nodes: Nodes

    @cached_property
    def run(self) -> RunGraph:
        return self.asked.run

    @cached_property
    def baseline(self) -> Baseline:
        return self.asked.baseline

    @cached_property
    def marks(self) -> Marks:
        return self.asked.marks
