"""What a strategy flags otherwise than what it is one with in the baseline -> nodes of its own.

Mirrors CSE (frontend/optimizer/cse.cc): nodes of equal primitive, attributes and inputs are one, and the flags of
recompute and offload are attributes. See `view_parts` for the views that several products read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import LOAD, NO_NODE, SAME_VALUE
from swapconf.upstream.primitives import CAST
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.nodes import COPY
from swapconf.whatif.graph.run_graph import NO_KERNEL
from swapconf.whatif.graph.ties import Ties
from swapconf.whatif.parted import Own, User

_ADDS = "AddN"


@dataclass
class Tables(GraphChange):
    """What some users have for themselves although all share it in the baseline, such as tables of a rotary embedding.

    ``made``: by kernel of the baseline and users, the node that makes it for these. ``stands_for``: by value of
    these the one of the baseline. What changes the layout of what tables read, and has lost its cell, is flagged as
    they are (`StepReplaceOp`, ``frontend/parallel/step_parallel.cc``), and parted with them.
    """

    made: dict[tuple[int, frozenset[User]], int] = field(default_factory=dict)
    stands_for: dict[int, int] = field(default_factory=dict)
    _layouts: dict[tuple[int, frozenset[User]], int] = field(default_factory=dict)
    _chains: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def kernel_of(self) -> dict[int, int]:
        """By node the kernel of the baseline that it is like."""
        return {node: kernel for (kernel, _), node in self.made.items()}

    def part(self) -> None:
        """Add them, and let the forward passes of their users read them."""
        for own in (*self.asked.owns, *self.asked.casts.values()):
            node = self.run.node_of[own.kernel]
            inputs = [self._for(given, own.users) for given in self.run.graph.inputs[node]]
            primitive, fused = self.run.graph.primitive[node], self.run.graph.fused[node]
            self.made[own.kernel, own.users] = self.nodes.add(primitive, inputs, self.run.graph.name[node], fused=fused)
        if self.made:
            kernels = self.baseline.kernels
            for kernel in range(self.run.count):
                if not kernels.backward[kernel] and kernels.layer[kernel] >= 0 and kernel not in self.asked.shared:
                    self._redirect(self.run.node_of[kernel], kernel, int(kernels.layer[kernel]))

    def _redirect(self, node: int, kernel: int, layer: int) -> None:
        self.nodes.inputs[node] = [self.seen(given, kernel, layer) for given in self.nodes.inputs[node]]

    def seen(self, value: int, reader: int, layer: int) -> int:
        """A value as a kernel of a layer reads it."""
        kernel = self._shared(value)
        return value if kernel is None else self._own(value, kernel, self.asked.user(kernel, reader, layer))

    def _for(self, value: int, users: frozenset[User]) -> int:
        kernel = self._shared(value)
        if kernel is not None:
            return self._own(value, kernel, min(users))
        return self._layout(value, users) if self._changes_layout(value) else value

    def _changes_layout(self, value: int) -> bool:
        """Of what tables read."""
        kernel, kernels = self.run.kernel_of.get(value), self.baseline.kernels
        if kernel is None or not self.baseline.views[kernel] or not kernels.is_lost[kernel] or kernels.backward[kernel]:
            return False
        return all(reader in self.asked.shared for reader in self.run.reading(value) if not kernels.backward[reader])

    def _layout(self, value: int, users: frozenset[User]) -> int:
        if (value, users) not in self._layouts:
            nodes = self.nodes
            self._layouts[value, users] = nodes.add(nodes.primitive[value], nodes.inputs[value], nodes.name[value])
        return self._layouts[value, users]

    def _shared(self, value: int) -> int | None:
        """The shared kernel that makes a value, if some users have one for themselves."""
        if value == NO_NODE or value >= self.nodes.count or not self.made:
            return None
        kernel = self.run.kernel_of.get(self.run.source(value)[0])
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


@dataclass
class GradientsOfGathers(GraphChange):
    """Gradients of gathers that a strategy parts: each Linear has its own, and these are added behind that.

    What communication makes of equal views of several Linears is one as long as the views are flagged alike: what these
    hand back is added in front of the one gradient of it. Parted before gradients are made, there are several, and
    their results are added (measured with MindSpore 2.9.0: ``feed_forward.w1`` of legacy Llama, recomputed by itself
    under sequence parallelism).

    ``kernel_of``: by added node the kernel that it is like; ``rows``: of a sum the row of what it adds.
    """

    kernel_of: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)

    def part(self) -> None:
        stream = self.baseline.kernels.stream
        for kernel, forward in self.run.forward_of.items():
            own = self.asked.casts.get(forward)
            if own is not None and stream[forward]:
                self._part(kernel, own)

    def _part(self, kernel: int, own: Own) -> None:
        """``kernel``: the gradient of what is parted."""
        run, nodes = self.run, self.nodes
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
        self.rows[total] = self.baseline.made[kernel][0]
        for user in run.users[node]:
            nodes.read_instead(user, {node: total})

    def _is_of(self, given: int, own: Own) -> bool | None:
        """Whether a gradient is of those that have one for themselves; None for none of a product."""
        run, kernels = self.run, self.baseline.kernels
        forward = run.forward_of.get(run.kernel_of.get(given, NO_KERNEL))
        return None if forward is None else (int(kernels.layer[forward]), kernels.cell[forward]) in own.users

    def _sum(self, group: Sequence[int], added: int) -> int:
        """``added``: the sum of the baseline."""
        if len(group) == 1:
            return group[0]
        total = self.nodes.add(_ADDS, group, self.nodes.name[added])
        self.kernel_of[total] = self.run.kernel_of[added]
        return total


@dataclass
class WeightsCast(GraphChange):
    """The copies of weights that the forward pass leaves for casts. ``rows``: by copy the row of the weight."""

    ties: Ties
    rows: dict[int, int] = field(default_factory=dict)
    _copies: dict[int, int] = field(default_factory=dict)

    def is_cast(self, node: int, kernel: int) -> bool:
        """A cast of a copy of a weight, that is; with one micro-batch of the weight itself."""
        graph, baseline = self.run.graph, self.baseline
        is_cast = graph.primitive[node] == CAST and kernel in baseline.weights and graph.inputs[node][0] != NO_NODE
        return is_cast and baseline.is_accumulated and graph.primitive[graph.inputs[node][0]] == LOAD

    def copied(self, node: int, kernel: int, barrier: int) -> int:
        """What the cast reads when it runs again: the forward pass leaves a copy of the weight for it, and reads that
        itself."""
        load = self.run.graph.inputs[node][0]
        if load not in self._copies:
            self._copies[load] = self.nodes.add(COPY, (load,), self.nodes.name[node])
            self.rows[self._copies[load]] = self.baseline.weights[kernel]
        self.nodes.inputs[node] = [self._copies[load], *self.run.graph.inputs[node][1:]]
        return self.ties.behind_barrier(self._copies[load], barrier)


def stays(asked: Asked, cast: int, reader: int) -> bool:
    """Whether what ``reader`` reads of a cast that stands for equal ones of two cells is not that which runs again; of
    other kernels never. MindSpore has made one of a layer's cast and that of its first norm, as long as they are
    flagged alike: where the layer is recomputed and one of the two is left out of that, it has two (measured with
    2.9.0: Qwen3)."""
    own = asked.casts.get(cast)
    if own is None:
        return False
    sites, layer = asked.marks.sites, int(asked.baseline.kernels.layer[cast])
    site = own.site if asked.user(cast, reader, layer) in own.users else int(sites.of_moved[cast])
    return not asked.marks.actions.again[site]
