"""GATHERS that a strategy parts -> their gradients: each Linear has its own, and these are added behind that.

What communication makes of equal views of several Linears is one as long as the views are flagged alike (CSE,
frontend/optimizer/cse.cc): what these hand back is added in front of the one gradient of it. Parted before gradients
are made, there are several, and their results are added (measured with MindSpore 2.9.0: ``feed_forward.w1`` of legacy
Llama, recomputed by itself under sequence parallelism).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.parted import Own

_ADDS = "AddN"


@dataclass
class GradientsOfGathers:
    """``kernel_of``: by added node the kernel that it is like; ``rows``: of a sum the row of what it adds."""

    asked: Asked
    nodes: Nodes
    kernel_of: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)

    def part(self) -> None:
        stream = self.asked.prepared.baseline.kernels.stream
        for kernel, forward in self.asked.run.forward_of.items():
            own = self.asked.casts.get(forward)
            if own is not None and stream[forward]:
                self._part(kernel, own)

    def _part(self, kernel: int, own: Own) -> None:
        """``kernel``: the gradient of what is parted."""
        run, nodes = self.asked.run, self.nodes
        node = run.node_of[kernel]
        added = nodes.inputs[node][0]
        if nodes.primitive[added] != _ADDS:
            return
        is_own = {given: self._is_of(given, own) for given in nodes.inputs[added]}
        groups = [[given for given in is_own if is_own[given] is is_part] for is_part in (False, True)]
        if not all(groups) or len(groups[0]) + len(groups[1]) < len(is_own):
            return
        nodes.inputs[node][0], own_sum = (self._sum(group, added) for group in groups)
        own_node = nodes.add(nodes.primitive[node], (own_sum, *nodes.inputs[node][1:]), nodes.name[node])
        self.kernel_of[own_node] = kernel
        first = next(iter(is_own.values()))
        total = self._sum((own_node, node) if first else (node, own_node), added)
        self.rows[total] = self.asked.prepared.baseline.made[kernel][0]
        for user in run.users[node]:
            nodes.read_instead(user, {node: total})

    def _is_of(self, given: int, own: Own) -> bool | None:
        """Whether a gradient is of those that have one for themselves; None for none of a product."""
        run, kernels = self.asked.run, self.asked.prepared.baseline.kernels
        forward = run.forward_of.get(run.kernel_of.get(given, -1))
        return None if forward is None else (int(kernels.layer[forward]), kernels.cell[forward]) in own.users

    def _sum(self, group: Sequence[int], added: int) -> int:
        """``added``: the sum of the baseline."""
        if len(group) == 1:
            return group[0]
        total = self.nodes.add(_ADDS, group, self.nodes.name[added])
        self.kernel_of[total] = self.asked.run.kernel_of[added]
        return total
