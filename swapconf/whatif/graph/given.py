"""NODES that run again -> what the recomputed cells are given that they are in.

MindSpore calls a recomputed cell as a whole until late (measured with 2.9.0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from swapconf.trace.launch_graph import DEPEND, LOAD, NO_NODE, TUPLE
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.nodes import Nodes


def given(
    nodes: Nodes, copies: Mapping[tuple[int, Part], int], is_parameter: Callable[[int], bool]
) -> dict[int, tuple[int, ...]]:
    """By node: parameters, by the tie behind which the call reads each, and values in the order of the forward pass.
    ``copies``: by kernel and part the node that runs again."""
    parts: defaultdict[Part, list[int]] = defaultdict(list)
    for (_, part), node in copies.items():
        if part.cell != NO_CELL:
            parts[part].append(node)
    parameters = _parameters(nodes, is_parameter)
    found = dict[int, tuple[int, ...]]()
    for members in parts.values():
        read = {one for node in members for one in nodes.inputs[node] if one >= nodes.count}
        tied = [one for one in read.difference(members) if nodes.primitive[one] == DEPEND]
        loaded = [nodes.inputs[one][0] for one in read if nodes.primitive[one] == LOAD]
        gates = dict.fromkeys(
            nodes.inputs[one][1] for one in (*sorted(tied), *sorted(loaded)) if nodes.primitive[one] == DEPEND
        )
        mine = [one for gate in gates for one in parameters[gate]]
        values = sorted(tied, key=nodes.maker)
        found |= dict.fromkeys(members, (*dict.fromkeys(mine), *values))
    return found


def _parameters(nodes: Nodes, is_parameter: Callable[[int], bool]) -> defaultdict[int, list[int]]:
    """By gate those that wait for it and are read by more than a state, by tie."""
    read = {given for node in range(len(nodes)) if nodes.is_kernel(node) for given in nodes.inputs[node]}
    read |= {nodes.inputs[one][0] for one in read if one != NO_NODE and nodes.primitive[one] == LOAD}
    found = defaultdict[int, list[int]](list)
    for node in range(nodes.count, len(nodes)):
        if nodes.primitive[node] == DEPEND and node in read:
            tie, gate = nodes.inputs[node][:2]
            if gate != NO_NODE and nodes.primitive[gate] == TUPLE and is_parameter(tie):
                found[gate].append(tie)
    return found
