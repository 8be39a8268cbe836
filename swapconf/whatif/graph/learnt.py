"""BASELINE'S GRAPH + CALL -> how its backward pass captures: what `Search` has to know to explain its tuple."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from swapconf.trace.launch_graph import NO_NODE, LaunchGraph
from swapconf.whatif.graph.calls import Call, Handed, Search, source
from swapconf.whatif.graph.nodes import Nodes

_NUMBERS = re.compile(r"\d+")


def learnt(
    graph: LaunchGraph, call: Call, saved: Sequence[int], value: Callable[[int], int], is_tie: Callable[[int], bool]
) -> Handed:
    """``saved``: what the tuple holds. Of which kinds of nodes the gradients stand in no tuple is tried, kind by kind:
    what explains most is taken."""
    nodes, number = Nodes(graph), graph.forward_unique
    known = tuple(dict.fromkeys(source(nodes, one) for one in saved[1:] if one != NO_NODE))
    plain = Search(nodes, call, number=number, value=value)
    kinds = defaultdict[tuple[str, ...], set[str]](set)
    for one, read in plain.shared().items():
        kinds[tuple(sorted({_NUMBERS.sub("", graph.name[node]) for node in read}))].add(one)
    best, apart = Handed.of(known, plain.met().captured), frozenset[str]()
    for kind in kinds.values():
        tried = apart | kind
        found = Handed.of(known, Search(nodes, call, number=number, value=value, apart=tried).met().captured)
        if len(found.explained) > len(best.explained):
            best, apart = found, tried
    entered = set(known) - best.late
    met = Search(nodes, call, number=number, value=value, is_tie=is_tie, entered=entered, apart=apart).met()
    return replace(best, readers=met.readers, apart=apart)
