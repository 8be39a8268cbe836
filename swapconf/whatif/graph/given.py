"""NODES that run again -> what the recomputed cells are given that they are in.

MindSpore calls a recomputed cell as a whole until late (measured with 2.9.0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.nodes import Nodes


def given(nodes: Nodes, copies: Mapping[tuple[int, Part], int]) -> dict[int, tuple[int, ...]]:
    """By node, in the order of the forward pass. ``copies``: by kernel and part the node that runs again."""
    parts: defaultdict[Part, list[int]] = defaultdict(list)
    for (_, part), node in copies.items():
        if part.cell != NO_CELL:
            parts[part].append(node)
    found = dict[int, tuple[int, ...]]()
    for members in parts.values():
        read = {one for node in members for one in nodes.inputs[node] if one >= nodes.count}
        tied = (one for one in read.difference(members) if nodes.primitive[one] == DEPEND)
        found |= dict.fromkeys(members, tuple(sorted(tied, key=lambda one: _made_by(nodes, one))))
    return found


def _made_by(nodes: Nodes, node: int) -> int:
    while node != NO_NODE and nodes.primitive[node] in (DEPEND, LOAD, ITEM):
        node = nodes.inputs[node][0]
    return node
