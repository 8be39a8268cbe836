"""NODES -> FUSED KERNELS: which operators MindSpore makes one kernel of under a strategy (``jit_level: O1``).

Its pass runs after recompute and swap have changed the graph, so it is run here on the graph of the baseline and on
that of the strategy. What it chooses is cut once more by a pass of which only the following is mirrored
(``graph_kernel_splitter`` with ``core/split_model.cc`` and ``adapter/split_model_ascend.cc``): what was chosen together
in the baseline, and cut there, is cut here, too. No pattern takes a sum as what it reads (`FuseElemwiseBroadcastFwd`,
`FuseReduceFwd`: inputs up to BROADCAST), so that a kernel ends with it (so in seven models 339 times; 19 casts, all of
gradients, were fused with the sum that they read, and are so here). What is read outside of what was chosen is an
output, which is not fused with what broadcasts it (`FuseElemwiseBroadcastBwd`, `FuseReduceFwd`: not ``is_output``);
where it is none any more, as the backward pass computes it again, it is fused with those that read it, if they are one
kernel: the denominator of the scores of experts. Shapes, and limits of the sizes of kernels, are not mirrored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from swapconf.trace.launch_graph import NO_NODE
from swapconf.trace.postorder import postorder
from swapconf.upstream.primitives import CAST
from swapconf.whatif.graph.func_graphs import chosen
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.run_graph import RunGraph

_SUMS = frozenset({"ReduceSum", "SumExt"})
_ADD = "Add"  # that is not fused with a norm any more


def fuse(nodes: Nodes, run: RunGraph, copies: Mapping[int, int]) -> None:
    """``copies``: by node the kernel of the baseline that it is like. Raises ValueError where nodes go in a circle."""
    if nodes.is_fused:
        _Fusing(nodes, run, copies).fuse()


class _Fusing:
    def __init__(self, nodes: Nodes, run: RunGraph, copies: Mapping[int, int]) -> None:
        self._nodes, self._run, self._before = nodes, run, run.graph.cluster
        self._size = Counter(self._before)
        added = [copies.get(node) for node in range(nodes.count, len(nodes))]
        self._like = [*range(nodes.count), *(NO_NODE if kernel is None else run.node_of[kernel] for kernel in added)]

    def fuse(self) -> None:
        nodes, run = self._nodes, self._run
        can = [self._can(node) for node in range(len(nodes))]
        number = max(self._before)
        for cluster in chosen(nodes.primitive, nodes.inputs, can, run.barriers, run.saved):
            parts = self._parts(cluster)
            for part in parts:
                number += 1
                if not self._is_as_before(part):
                    self._join(part, number, is_cut=len(parts) > 1)

    def _can(self, node: int) -> bool:
        like = self._like[node]
        return self._nodes.primitive[node] == _ADD if like == NO_NODE else self._run.can_be_fused[like]

    def _is_as_before(self, part: list[int]) -> bool:
        """Whether these are all the operators of one fused kernel of the baseline."""
        if any(node >= self._nodes.count for node in part) or len({self._before[node] for node in part}) > 1:
            return False
        cluster = self._before[part[0]]
        return cluster == NO_NODE or self._size[cluster] == len(part)

    def _join(self, part: list[int], number: int, *, is_cut: bool) -> None:
        """A Cast that is alone is launched as it is. ``is_cut``: MindSpore makes the kernel anew when it cuts it from
        others, without casts whose readers compute with what they read anyway (`convert_bfloat16`)."""
        nodes, inside = self._nodes, {NO_NODE, *part}
        is_plain = len(part) == 1 and nodes.primitive[part[0]] == CAST
        gone = {node for node in part if is_cut and len(part) > 1 and self._is_lone_cast(node)}
        read = dict[int, int]()
        for node in (node for node in part if node not in gone):
            for given in self._inputs(node):
                given = nodes.inputs[given][0] if given in gone else given
                if given not in inside:
                    read.setdefault(given, len(read))
        for node in part:
            nodes.cluster[node] = NO_NODE if is_plain else number
            nodes.given[node] = tuple(
                NO_NODE if given in inside else read.setdefault(given, len(read)) for given in nodes.inputs[node]
            )

    def _is_lone_cast(self, node: int) -> bool:
        like = self._like[node]
        return self._nodes.primitive[node] == CAST and like != NO_NODE and self._before[like] == NO_NODE

    def _inputs(self, node: int) -> list[int]:
        """What an operator reads, in the order in which MindSpore gave it to a kernel that it was alone in."""
        inputs, like = self._nodes.inputs[node], self._like[node]
        numbers = self._run.graph.given[like] if like != NO_NODE else ()
        if len(numbers) != len(inputs) or NO_NODE in numbers:
            return inputs
        return [given for _, given in sorted(zip(numbers, inputs, strict=True))]

    def _parts(self, cluster: list[int]) -> list[list[int]]:
        """What is one kernel, of what was chosen together; each in topological order."""
        head = {node: node for node in cluster}

        def top(node: int) -> int:
            while head[node] != node:
                node = head[node]
            return node

        last: dict[tuple[int, bool], int] = {}
        late = {node: None for node in cluster if self._was_handed_out(node)}
        for node in cluster:
            for given in self._nodes.inputs[node]:
                if given in head and given not in late and self._are_one(given, node):
                    head[top(given)] = top(node)
            fused = self._before[self._like[node]] if self._like[node] != NO_NODE else NO_NODE
            if fused != NO_NODE:
                head[top(last.setdefault((fused, node >= self._nodes.count), node))] = top(node)
        for node in reversed(late):
            readers = {top(reader) if reader in head else NO_NODE for reader in self._readers[node]}
            if len(readers) == 1 and NO_NODE not in readers:
                head[top(node)] = readers.pop()
        parts: dict[int, list[int]] = {}
        for node in cluster:
            parts.setdefault(top(node), []).append(node)
        return list(parts.values())

    @cached_property
    def _readers(self) -> list[list[int]]:
        """[nodes] who reads each, as far as the end of the graph needs them."""
        inputs = [[given for given in read if given != NO_NODE] for read in self._nodes.inputs]
        readers: list[list[int]] = [[] for _ in inputs]
        for node in postorder([self._nodes.end], inputs.__getitem__):
            for given in inputs[node]:
                readers[given].append(node)
        return readers

    def _was_handed_out(self, node: int) -> bool:
        """What a node is like was cut from all that it was chosen with, and read outside of that."""
        like, run = self._like[node], self._run
        if like == NO_NODE or self._before[like] == NO_NODE or self._size[self._before[like]] > 1:
            return False
        if run.graph.primitive[like] in _SUMS:
            return False
        number = run.chosen.get(like)
        within = [run.chosen.get(user) == number for user in run.users[like]]
        return number is not None and any(within) and not all(within)

    def _are_one(self, given: int, node: int) -> bool:
        """Whether nothing tells that one that reads another is cut from it."""
        above, below, count = self._like[given], self._like[node], self._nodes.count
        if self._nodes.primitive[given] in _SUMS:
            return False
        if NO_NODE in (above, below) or (given < count) != (node < count):
            return True
        cluster_of = self._run.chosen
        is_together = above in cluster_of and cluster_of[above] == cluster_of.get(below)
        return not is_together or self._before[above] == self._before[below] != NO_NODE
