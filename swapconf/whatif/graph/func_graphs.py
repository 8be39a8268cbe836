"""NODES -> the func graphs that MindSpore compiles one by one, before it puts calls in their places.

A call is handed each of its values behind its barrier (see `run_graph`), and what it hands on is taken out of a tuple;
so a node belongs to the last call of which it needs something, if what that hands on needs it; else, as the sum of
losses, it stands beside the calls. The first call has no barrier, and the last one hands nothing on: that is told with
what stands behind it, the first one with what stands beside the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE, LaunchGraph
from swapconf.trace.launch_order import inputs_first
from swapconf.trace.postorder import postorder
from swapconf.upstream.primitives import CAST
from swapconf.whatif.passes import cluster as cluster_pass

_CONDITION = "ConditionSwitch"  # the optimizer is a graph of its own, which runs under a condition


def func_graphs(
    primitive: Sequence[str], inputs: Sequence[Sequence[int]], barriers: Collection[int], saved: Collection[int]
) -> list[list[int]]:
    """The nodes of each, in topological order, but for those under a condition. Raises ValueError where nodes go in a
    circle."""
    order = inputs_first(inputs)
    is_under_condition = [False] * len(inputs)
    for node in order:
        read = (given for given in inputs[node] if given != NO_NODE)
        is_under_condition[node] = primitive[node] == _CONDITION or any(is_under_condition[given] for given in read)
    owner = _owners(primitive, inputs, barriers, saved, order)
    is_handed = _handed(inputs, saved, owner, order)
    handing = {owner[node] for node in saved}
    graphs: list[list[int]] = [[] for _ in range(len(barriers) + 1)]  # the last one is beside the calls
    for node in order:
        if not is_under_condition[node]:
            is_inside = is_handed[node] or owner[node] not in handing
            graphs[owner[node] if is_inside else NO_NODE].append(node)
    return graphs


def _owners(
    primitive: Sequence[str],
    inputs: Sequence[Sequence[int]],
    barriers: Collection[int],
    saved: Collection[int],
    order: Sequence[int],
) -> list[int]:
    """[nodes] the last call of which each needs something."""
    turn = {barrier: place for place, barrier in enumerate(sorted(barriers))}
    owner = [NO_NODE] * len(inputs)
    for node in order:
        if primitive[node] == DEPEND and inputs[node][1] in turn:
            owner[node] = turn[inputs[node][1]]
        elif node not in turn and not (primitive[node] == ITEM and inputs[node][0] in saved):
            owner[node] = max((owner[given] for given in inputs[node] if given != NO_NODE), default=NO_NODE)
    return owner


def _handed(
    inputs: Sequence[Sequence[int]], saved: Collection[int], owner: Sequence[int], order: Sequence[int]
) -> list[bool]:
    """[nodes] whether what the call of each hands on needs it."""
    is_handed = [False] * len(inputs)
    for node in saved:
        is_handed[node] = True
    for node in reversed(order):
        if is_handed[node]:
            for given in inputs[node]:
                if given != NO_NODE and owner[given] == owner[node]:
                    is_handed[given] = True
    return is_handed


# --- what is fused in each --------------------------------------------------------------------------------------------


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
        members = set(graph)
        read = {given for node in graph for given in inputs[node]}
        ends = sorted((node for node in graph if node not in read), key=lambda node: node not in saved)

        def given(node: int, members: Collection[int] = members) -> Sequence[int]:
            return [value for value in inputs[node] if value in members]

        order = postorder(ends, given)
        place = {node: turn for turn, node in enumerate(order)}
        clusters = cluster_pass.grown(
            [[place[value] for value in given(node)] for node in order],
            [can[node] for node in order],
            [primitive[node] == ITEM for node in order],
        )
        for cluster in clusters:
            if operators := [order[turn] for turn in cluster if can[order[turn]]]:
                yield operators
