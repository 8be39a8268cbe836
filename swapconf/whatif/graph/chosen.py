"""NODES -> CLUSTERS: what MindSpore's pass chooses to fuse (`passes/cluster`), in each func graph of a step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph
from swapconf.upstream.primitives import CAST
from swapconf.whatif.graph.func_graphs import func_graphs
from swapconf.whatif.passes.cluster import grown, inputs_first


def can_be_fused(graph: LaunchGraph) -> list[bool]:
    """[nodes] an operator of a fused kernel, or a Cast: one that is alone is launched as it is."""
    return [
        cluster != NO_NODE or primitive == CAST
        for cluster, primitive in zip(graph.cluster, graph.primitive, strict=True)
    ]


def chosen(
    primitive: Sequence[str],
    inputs: Sequence[Sequence[int]],
    can: Sequence[bool],
    barriers: Collection[int],
    saved: Collection[int],
) -> Iterator[list[int]]:
    """The operators of each cluster, in topological order; also of those of a single one. ``can``: [nodes] can be
    fused. ``barriers``, ``saved``: see `RunGraph`. Raises ValueError where nodes go in a circle."""
    for graph in func_graphs(primitive, inputs, barriers, saved):
        if not any(can[node] for node in graph):
            continue
        mine = set(graph)
        read = {given for node in graph for given in inputs[node]}
        ends = sorted((node for node in graph if node not in read), key=lambda node: node not in saved)

        def given(node: int, mine: Collection[int] = mine, ends: Sequence[int] = ends) -> Sequence[int]:
            return ends if node == NO_NODE else [one for one in inputs[node] if one in mine]

        order = inputs_first(NO_NODE, given)[:-1]
        place = {node: turn for turn, node in enumerate(order)}
        clusters = grown(
            [[place[one] for one in given(node)] for node in order],
            [can[node] for node in order],
            [primitive[node] == ITEM for node in order],
        )
        for cluster in clusters:
            if operators := [order[turn] for turn in cluster if can[order[turn]]]:
                yield operators
