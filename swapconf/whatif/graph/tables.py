"""What some layers have for themselves although all share it in the baseline, such as tables of a rotary embedding."""

from __future__ import annotations

from dataclasses import dataclass, field

from swapconf.trace.launch_graph import NO_NODE, SAME_VALUE, TUPLE
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.nodes import Nodes


@dataclass
class Tables:
    """``made``: by kernel of the baseline and layers, the node that makes it for these. ``stands_for``: by value of
    these the one of the baseline."""

    asked: Asked
    nodes: Nodes
    made: dict[tuple[int, frozenset[int]], int] = field(default_factory=dict)
    stands_for: dict[int, int] = field(default_factory=dict)
    _chains: dict[tuple[int, int], int] = field(default_factory=dict)

    def part(self) -> None:
        """Add them, and let the forward passes of their layers read them."""
        run = self.asked.run
        for own in self.asked.owns:
            node = run.node_of[own.kernel]
            inputs = [self._for(given, own.layers) for given in run.graph.inputs[node]]
            primitive, fused = run.graph.primitive[node], run.graph.fused[node]
            self.made[own.kernel, own.layers] = self.nodes.add(primitive, inputs, run.graph.name[node], fused=fused)
        if self.made:
            kernels = self.asked.prepared.baseline.kernels
            for kernel in range(run.count):
                if not kernels.backward[kernel] and kernels.layer[kernel] >= 0 and kernel not in self.asked.shared:
                    self._redirect(run.node_of[kernel], int(kernels.layer[kernel]))

    def _redirect(self, node: int, layer: int) -> None:
        inputs = self.nodes.inputs[node]
        for place, given in enumerate(inputs):
            if given != NO_NODE and self.nodes.primitive[given] == TUPLE:
                inner = [self.seen(one, layer) for one in self.nodes.inputs[given]]
                if inner != self.nodes.inputs[given]:
                    inputs[place] = self.nodes.add(TUPLE, inner)
            else:
                inputs[place] = self.seen(given, layer)

    def seen(self, value: int, layer: int) -> int:
        """A value as a layer reads it."""
        if value == NO_NODE or not self.made:
            return value
        node, _ = self.asked.run.source(value) if value < self.nodes.count else (NO_NODE, 0)
        kernel = self.asked.run.kernel_of.get(node)
        for (made, layers), other in self.made.items():
            if made == kernel and layer in layers:
                seen = self.shown(value, other)
                self.stands_for[seen] = value
                return seen
        return value

    def _for(self, value: int, layers: frozenset[int]) -> int:
        return self.seen(value, min(layers))

    def shown(self, value: int, other: int) -> int:
        """The same of another node as ``value`` is of its source."""
        nodes = self.nodes
        if nodes.is_kernel(value):
            return other
        if (value, other) not in self._chains:
            below = self.shown(nodes.inputs[value][0], other)
            if nodes.primitive[value] in SAME_VALUE:
                return below
            rest = [NO_NODE] * (len(nodes.inputs[value]) - 1)
            self._chains[value, other] = nodes.add(nodes.primitive[value], (below, *rest), item=nodes.item[value])
        return self._chains[value, other]
