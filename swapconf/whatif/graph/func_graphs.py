"""NODES -> the func graphs that MindSpore compiles one by one, before it puts calls in their places.

A call is handed each of its values behind its barrier (see `run_graph`), and what it hands on is taken out of a tuple;
so a node belongs to the last call of which it needs something. The first call has no barrier, as the last one hands
nothing on: these are told together with what is in front of all calls, and behind them.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE
from swapconf.whatif.graph.nodes import Nodes

_CONDITION = "ConditionSwitch"  # the optimizer is a graph of its own, that runs under a condition


def func_graphs(nodes: Nodes, barriers: Set[int], saved: Set[int]) -> list[list[int]]:
    """The nodes of each, in topological order, but for what runs under a condition. Raises ValueError where nodes go in
    a circle."""
    turn = {barrier: place for place, barrier in enumerate(sorted(barriers))}
    owner = [NO_NODE] * len(nodes)
    found: list[list[int]] = [[] for _ in range(len(turn) + 1)]
    is_under_condition = [False] * len(nodes)
    for node in topological(nodes.inputs):
        primitive, read = nodes.primitive[node], [given for given in nodes.inputs[node] if given != NO_NODE]
        is_under_condition[node] = primitive == _CONDITION or any(is_under_condition[given] for given in read)
        if primitive == DEPEND and len(read) > 0 and nodes.inputs[node][-1] in turn:
            owner[node] = turn[nodes.inputs[node][-1]]
        elif node not in turn:
            is_taken = primitive == ITEM and any(given in saved for given in read)
            owner[node] = NO_NODE if is_taken else max((owner[given] for given in read), default=NO_NODE)
        if not is_under_condition[node]:
            found[owner[node]].append(node)
    return found


def topological(inputs: Sequence[Sequence[int]]) -> list[int]:
    """All nodes, each behind its inputs. Raises ValueError where they go in a circle."""
    readers: list[list[int]] = [[] for _ in inputs]
    waiting = [0] * len(inputs)
    for node, read in enumerate(inputs):
        for given in read:
            if given != NO_NODE:
                readers[given].append(node)
                waiting[node] += 1
    order = [node for node, count in enumerate(waiting) if not count]
    for node in order:  # grows
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    if len(order) < len(inputs):
        raise ValueError("nodes of the graph read from each other in a circle")
    return order
