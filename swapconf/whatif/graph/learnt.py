"""BASELINE'S GRAPH + CALL -> how its backward pass captures: what `Search` has to know to explain its tuple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph
from swapconf.whatif.graph.calls import Call, Handed, Search, source
from swapconf.whatif.graph.entries import is_of_baseline
from swapconf.whatif.graph.nodes import Nodes


def learnt(
    graph: LaunchGraph, call: Call, saved: Sequence[int], value: Callable[[int], int], is_tie: Callable[[int], bool]
) -> Handed:
    """``saved``: the entries of the tuple."""
    nodes, number = Nodes(graph), graph.forward_unique
    captured = Search(nodes, call, number=number, value=value).met().captured
    parameters = _parameters(nodes, saved, [node for node in captured if is_tie(node) and value(node) == NO_NODE])
    made = (
        parameters.get(place, NO_NODE) if is_of_baseline(entry) else source(nodes, entry)
        for place, entry in enumerate(saved)
    )
    order = tuple(node for node in dict.fromkeys(list(made)[1:]) if node != NO_NODE)
    handed = Handed.of(order, captured)
    entered = set(order) - handed.late
    met = Search(nodes, call, number=number, value=value, is_tie=is_tie, entered=entered).met()
    return replace(handed, parameters=parameters, readers=met.readers)


def _parameters(nodes: Nodes, saved: Sequence[int], ties: Sequence[int]) -> dict[int, int]:
    """By place; nothing where that is not told: who is taken out of the tuple tells its place."""
    places = [place for place, entry in enumerate(saved) if is_of_baseline(entry)]
    tie_of = dict(zip(places, ties, strict=False))
    taken = ((place, nodes.inputs[tie][0]) for place, tie in tie_of.items())
    is_told = all(
        nodes.primitive[item] != ITEM or place == nodes.item[item] for place, item in taken if item != NO_NODE
    )
    return tie_of if len(places) == len(ties) and is_told else {}
