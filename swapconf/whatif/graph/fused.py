"""NODES -> FUSED KERNELS: which operators MindSpore makes one kernel of under a strategy (``jit_level: O1``).

Its pass (`passes/cluster`) runs on each func graph after recompute and swap have changed it. It is run here on the graph
of the baseline and on that of the strategy: what it chooses is cut once more by passes that are not mirrored
(``graph_kernel_splitter``), so that what was chosen together in the baseline and was cut there is cut here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swapconf.trace.launch_graph import ITEM, NO_NODE
from swapconf.whatif.graph.func_graphs import func_graphs
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.passes.cluster import grown, inputs_first

_CAST, _ADD = "Cast", "Add"


def fuse(nodes: Nodes, run: RunGraph, copies: Mapping[int, int]) -> None:
    """``copies``: by node the kernel of the baseline that it is like. Raises ValueError where nodes go in a circle."""
    if nodes.is_fused:
        _Fusing(nodes, run, copies).fuse()


class _Fusing:
    def __init__(self, nodes: Nodes, run: RunGraph, copies: Mapping[int, int]) -> None:
        self._nodes, self._run = nodes, run
        plain = Nodes(run.graph)
        self._chosen = {
            node: number
            for number, cluster in enumerate(_chosen(plain, run, [_can(plain, node) for node in range(len(plain))]))
            for node in cluster
        }
        self._like = [*range(nodes.count), *(NO_NODE for _ in range(nodes.count, len(nodes)))]
        for node, kernel in copies.items():
            self._like[node] = run.node_of[kernel]

    def fuse(self) -> None:
        nodes, run = self._nodes, self._run
        known = list(run.graph.cluster)
        can = [self._can(node) for node in range(len(nodes))]
        number = max(known, default=0) + 1
        for cluster in _chosen(nodes, run, can):
            for part in self._parts(cluster):
                if self._is_as_before(part):
                    continue
                is_plain = len(part) == 1 and nodes.primitive[part[0]] == _CAST
                read: dict[int, int] = {}
                for node in part:
                    nodes.cluster[node] = NO_NODE if is_plain else number
                    nodes.given[node] = tuple(
                        NO_NODE if given == NO_NODE or given in part else read.setdefault(given, len(read))
                        for given in nodes.inputs[node]
                    )
                number += 1

    def _can(self, node: int) -> bool:
        nodes, like = self._nodes, self._like[node]
        if like != NO_NODE:
            return self._run.graph.cluster[like] != NO_NODE or nodes.primitive[node] == _CAST
        return nodes.primitive[node] == _ADD

    def _is_as_before(self, part: list[int]) -> bool:
        """Whether these are the operators of one fused kernel of the baseline."""
        cluster = self._run.graph.cluster
        if any(node >= self._nodes.count for node in part) or len({cluster[node] for node in part}) > 1:
            return False
        return cluster[part[0]] == NO_NODE or cluster.count(cluster[part[0]]) == len(part)

    def _parts(self, cluster: list[int]) -> list[list[int]]:
        """What is one kernel, of what was chosen together; each in topological order."""
        head = {node: node for node in cluster}

        def top(node: int) -> int:
            while head[node] != node:
                node = head[node]
            return node

        last: dict[tuple[int, bool], int] = {}
        for node in cluster:
            for given in self._nodes.inputs[node]:
                if given in head and self._are_one(given, node):
                    head[top(given)] = top(node)
            like = self._like[node]
            fused = self._run.graph.cluster[like] if like != NO_NODE else NO_NODE
            if fused != NO_NODE:
                other = last.setdefault((fused, node >= self._nodes.count), node)
                head[top(other)] = top(node)
        parts: dict[int, list[int]] = {}
        for node in cluster:
            parts.setdefault(top(node), []).append(node)
        return list(parts.values())

    def _are_one(self, given: int, node: int) -> bool:
        """Whether nothing tells that one that reads another is cut from it."""
        one, other, count = self._like[given], self._like[node], self._nodes.count
        if NO_NODE in (one, other) or (given < count) != (node < count):
            return True
        cluster = self._run.graph.cluster
        is_together = one in self._chosen and self._chosen[one] == self._chosen.get(other)
        return not is_together or cluster[one] == cluster[other]


def _can(nodes: Nodes, node: int) -> bool:
    """Casts that are alone are no fused kernels, although they are chosen."""
    return nodes.cluster[node] != NO_NODE or nodes.primitive[node] == _CAST


def _chosen(nodes: Nodes, run: RunGraph, can: list[bool]) -> Iterable[list[int]]:
    """The operators of each cluster, in topological order."""
    for graph in func_graphs(nodes, run.barriers, run.saved):
        mine = set(graph)
        read = {given for node in graph for given in nodes.inputs[node]}
        ends = [node for node in graph if node not in read]
        ends.sort(key=lambda node: node not in run.saved)

        def inputs(node: int) -> list[int]:
            return ends if node == NO_NODE else [given for given in nodes.inputs[node] if given in mine]

        order = inputs_first(NO_NODE, inputs)[:-1]
        place = {node: turn for turn, node in enumerate(order)}
        clusters = grown(
            [[place[given] for given in inputs(node)] for node in order],
            [can[node] for node in order],
            [nodes.primitive[node] == ITEM for node in order],
        )
        for cluster in clusters:
            if operators := [order[turn] for turn in cluster if can[order[turn]]]:
                yield operators
