"""NODES -> the func graphs that MindSpore compiles one by one, before it puts calls in their places.

A call is handed each of its values behind its barrier (see `run_graph`), and what it hands on is taken out of a tuple;
so a node belongs to the last call of which it needs something. The first call has no barrier, and the last one hands
nothing on: these are told together with what stands in front of all calls, and behind them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE
from swapconf.trace.launch_order import inputs_first

_CONDITION = "ConditionSwitch"  # the optimizer is a graph of its own, which runs under a condition


def func_graphs(
    primitive: Sequence[str], inputs: Sequence[Sequence[int]], barriers: Collection[int], saved: Collection[int]
) -> list[list[int]]:
    """The nodes of each, in topological order, but for those under a condition. Raises ValueError where nodes go in a
    circle."""
    turn = {barrier: place for place, barrier in enumerate(sorted(barriers))}
    owner = [NO_NODE] * len(inputs)
    is_under_condition = [False] * len(inputs)
    found: list[list[int]] = [[] for _ in range(len(turn) + 1)]  # the last one is in front of all barriers
    for node in inputs_first(inputs):
        read = [given for given in inputs[node] if given != NO_NODE]
        is_under_condition[node] = primitive[node] == _CONDITION or any(is_under_condition[given] for given in read)
        if primitive[node] == DEPEND and inputs[node][1] in turn:
            owner[node] = turn[inputs[node][1]]
        elif node not in turn and not (primitive[node] == ITEM and inputs[node][0] in saved):
            owner[node] = max((owner[given] for given in read), default=NO_NODE)
        if not is_under_condition[node]:
            found[owner[node]].append(node)
    return found
