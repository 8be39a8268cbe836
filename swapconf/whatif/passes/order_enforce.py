"""Pass ``order_enforce``: a state waits for who reads what is loaded of parameters that are written behind it.

Source: MindSpore, ``order_enforce.cc`` (`OrderEnforcer::HandleSideEffectNode`). In the last graph of a run without a
strategy such a state has those readers behind what it is attached to, parameter by parameter, and of one parameter in
the topological order. With copies that run again others read a load: the copy, or the Depend in front of it (one level
of readers counts). Changed are the inputs of these states.
"""

from __future__ import annotations

from swapconf.trace.launch_graph import LOAD, NO_NODE, STATE, TUPLE, LaunchGraph
from swapconf.trace.postorder import printed
from swapconf.whatif.graph.nodes import Nodes

_ATTACHED = 2  # inputs of a state: the state before, and what it is attached to


def enforce_order(nodes: Nodes, before: LaunchGraph) -> None:
    """Edits nodes. ``before``: the last graph of the run without a strategy."""
    states = [
        node for node in range(len(before)) if before.primitive[node] == STATE and len(before.inputs[node]) > _ATTACHED
    ]
    place = {node: turn for turn, node in enumerate(printed(nodes.inputs, nodes.end))} if states else {}
    readers: dict[int, dict[int, None]] = {}
    for node in place:
        if nodes.primitive[node] not in (STATE, TUPLE):
            for given in nodes.inputs[node]:
                if given != NO_NODE and nodes.primitive[given] == LOAD:
                    readers.setdefault(given, {})[node] = None
    for state in states:
        waiting: dict[int, None] = {}
        for reader in before.inputs[state][_ATTACHED:]:
            loads = [given for given in before.inputs[reader] if given != NO_NODE and before.primitive[given] == LOAD]
            now = [node for load in loads for node in readers.get(load, ())]
            waiting |= dict.fromkeys(sorted(now, key=lambda node: place[node]) or [reader])
        nodes.inputs[state][_ATTACHED:] = waiting
