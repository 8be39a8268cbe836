"""What some users have for themselves although all share it in the baseline, such as tables of a rotary embedding.

Mirrors CSE (frontend/optimizer/cse.cc): nodes of equal primitive, attributes and inputs are one, and the flags of
recompute and offload are attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from swapconf.trace.launch_graph import NO_NODE, SAME_VALUE
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.parted import User


@dataclass
class Tables:
    """``made``: by kernel of the baseline and users, the node that makes it for these. ``stands_for``: by value of
    these the one of the baseline."""

    asked: Asked
    nodes: Nodes
    made: dict[tuple[int, frozenset[User]], int] = field(default_factory=dict)
    stands_for: dict[int, int] = field(default_factory=dict)
    _chains: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def kernel_of(self) -> dict[int, int]:
        """By node the kernel of the baseline that it is like."""
        return {node: kernel for (kernel, _), node in self.made.items()}

    def part(self) -> None:
        """Add them, and let the forward passes of their users read them."""
        run = self.asked.run
        for own in (*self.asked.owns, *self.asked.casts.values()):
            node = run.node_of[own.kernel]
            inputs = [self._for(given, own.users) for given in run.graph.inputs[node]]
            primitive, fused = run.graph.primitive[node], run.graph.fused[node]
            self.made[own.kernel, own.users] = self.nodes.add(primitive, inputs, run.graph.name[node], fused=fused)
        if self.made:
            kernels = self.asked.prepared.baseline.kernels
            for kernel in range(run.count):
                if not kernels.backward[kernel] and kernels.layer[kernel] >= 0 and kernel not in self.asked.shared:
                    self._redirect(run.node_of[kernel], kernel, int(kernels.layer[kernel]))

    def _redirect(self, node: int, kernel: int, layer: int) -> None:
        self.nodes.inputs[node] = [self.seen(given, kernel, layer) for given in self.nodes.inputs[node]]

    def seen(self, value: int, reader: int, layer: int) -> int:
        """A value as a kernel of a layer reads it."""
        kernel = self._shared(value)
        return value if kernel is None else self._own(value, kernel, self.asked.user(kernel, reader, layer))

    def _for(self, value: int, users: frozenset[User]) -> int:
        kernel = self._shared(value)
        return value if kernel is None else self._own(value, kernel, min(users))

    def _shared(self, value: int) -> int | None:
        """The shared kernel that makes a value, if some users have one for themselves."""
        if value == NO_NODE or value >= self.nodes.count or not self.made:
            return None
        kernel = self.asked.run.kernel_of.get(self.asked.run.source(value)[0])
        return kernel if kernel in self.asked.shared or kernel in self.asked.casts else None

    def _own(self, value: int, kernel: int, user: User) -> int:
        for (made, users), own_node in self.made.items():
            if made == kernel and user in users:
                seen = self.shown(value, own_node)
                self.stands_for[seen] = value
                return seen
        return value

    def shown(self, value: int, node: int) -> int:
        """The same of another node as ``value`` is of its source."""
        nodes = self.nodes
        if nodes.is_kernel(value):
            return node
        if (value, node) not in self._chains:
            below = self.shown(nodes.inputs[value][0], node)
            if nodes.primitive[value] in SAME_VALUE:
                return below
            rest = [NO_NODE] * (len(nodes.inputs[value]) - 1)
            self._chains[value, node] = nodes.add(nodes.primitive[value], (below, *rest), item=nodes.item[value])
        return self._chains[value, node]
