"""BASELINE'S GRAPH + CALL -> how its backward pass captures: what `Search` has to know to explain its tuple."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph
from swapconf.whatif.graph.calls import Call, Handed, Search, source
from swapconf.whatif.graph.entries import is_of_baseline
from swapconf.whatif.graph.nodes import Nodes

_NUMBERS = re.compile(r"\d+")


def learnt(
    graph: LaunchGraph, call: Call, saved: Sequence[int], value: Callable[[int], int], is_tie: Callable[[int], bool]
) -> Handed:
    """``saved``: the entries of the tuple. Of which kinds of nodes the gradients stand in no tuple is tried, kind by
    kind: what explains most is taken."""
    nodes, number = Nodes(graph), graph.forward_unique
    plain = Search(nodes, call, number=number, value=value)
    captured = plain.met().captured
    kinds = defaultdict[tuple[str, ...], set[str]](set)
    for one, read in plain.shared().items():
        kinds[tuple(sorted({_NUMBERS.sub("", graph.name[node]) for node in read}))].add(one)
    parameters = _parameters(nodes, saved, [one for one in captured if is_tie(one) and value(one) == NO_NODE])
    made = (
        parameters.get(place, NO_NODE) if is_of_baseline(one) else source(nodes, one) for place, one in enumerate(saved)
    )
    known = tuple(one for one in dict.fromkeys(list(made)[1:]) if one != NO_NODE)
    best, apart = Handed.of(known, captured), frozenset[str]()
    for kind in kinds.values():
        tried = apart | kind
        found = Handed.of(known, Search(nodes, call, number=number, value=value, apart=tried).met().captured)
        if len(found.explained) > len(best.explained):
            best, apart = found, tried
    entered = set(known) - best.late
    met = Search(nodes, call, number=number, value=value, is_tie=is_tie, entered=entered, apart=apart).met()
    return replace(best, parameters=parameters, readers=met.readers, apart=apart)


def _parameters(nodes: Nodes, saved: Sequence[int], ties: Sequence[int]) -> dict[int, int]:
    """By place; nothing where that is not told: who is taken out of the tuple tells its place."""
    places = [place for place, one in enumerate(saved) if is_of_baseline(one)]
    found = dict(zip(places, ties, strict=False))
    taken = ((place, nodes.inputs[tie][0]) for place, tie in found.items())
    is_told = all(
        nodes.primitive[item] != ITEM or place == nodes.item[item] for place, item in taken if item != NO_NODE
    )
    return found if len(places) == len(ties) and is_told else {}
