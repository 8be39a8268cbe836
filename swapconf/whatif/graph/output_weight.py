"""NORM IN FRONT OF THE OUTPUT LAYER RECOMPUTED -> its weight is read once for all that take their logits from it.

The network and its layers for multi-token prediction share one output layer. In the baseline MindSpore copies the
weight for each, as the tokens of experts are counted in between; where the norm in front of it is called in such a
layer, both read the weight itself, behind that (measured with MindSpore 2.9.0: DeepSeek-V3).
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from swapconf.trace.launch_graph import LOAD, NO_NODE
from swapconf.upstream.primitives import NORM
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.nodes import COPY

_NORM, _CAST = "final_layernorm", "Cast"


class Twice(NamedTuple):
    """Nodes: casts of the weight, of which one stays, and the copies that they read, with what these load."""

    stays: int
    goes: int
    loads: dict[int, int]


def read_twice(asked: Asked) -> list[Twice]:
    run, kernels = asked.run, asked.prepared.baseline.kernels
    called = sum(
        kernels.cell[kernel] == _NORM and kernels.primitive[kernel] == NORM and kernels.layer[kernel] >= 0
        for kernel in asked.again
        if asked.root[kernel] != NO_CELL
    )
    if not called:
        return []
    casts: defaultdict[str, list[int]] = defaultdict(list)
    for kernel in range(run.count):
        is_outside = kernels.layer[kernel] < 0 and not kernels.backward[kernel]
        if is_outside and kernels.primitive[kernel] == _CAST and _copied(asked, run.node_of[kernel]):
            casts[kernels.name[kernel].split("/")[-2]].append(run.node_of[kernel])
    found = [
        Twice(one, other, _copied(asked, one) | _copied(asked, other))
        for nodes in casts.values()
        for one, other in zip(nodes[::2], nodes[1::2], strict=False)
    ]
    return found if len(found) == called else []


def _copied(asked: Asked, node: int) -> dict[int, int]:
    """The copy of a parameter that a node reads, and what it loads, if it reads one."""
    graph = asked.run.graph
    copy = graph.inputs[node][0]
    load = graph.inputs[copy][0] if copy != NO_NODE and graph.primitive[copy] == COPY else NO_NODE
    return {copy: load} if load != NO_NODE and graph.primitive[load] == LOAD else {}
