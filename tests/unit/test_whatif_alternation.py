"""Which saved values a backward pass takes out of their tuple, on tuples of a few values."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph
from swapconf.whatif.graph.alternation import Alternation
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.run_graph import RunGraph

_VALUES = 6
_SAVED, _BARRIER = _VALUES, _VALUES + 1


def _alternation(taken: Sequence[int], read: Sequence[int] = range(_VALUES), *, returned: bool = False) -> Alternation:
    """A tuple of six values; the backward pass reads some, and takes some of these out of the tuple. ``returned``: the
    last node takes what is asked of the first, as the sum of the losses does."""
    inputs: list[tuple[int, ...]] = [()] * _VALUES + [tuple(range(_VALUES)), ()]
    primitive, item, ties = ["Mul"] * _VALUES + ["MakeTuple", "TensorMove"], [NO_NODE] * len(inputs), {}
    for value in read:
        seen = value
        if value in taken:
            seen = len(inputs)
            inputs, primitive, item = [*inputs, (_SAVED,)], [*primitive, ITEM], [*item, value]
        ties[value, _BARRIER] = len(inputs)
        inputs, primitive, item = [*inputs, (seen, _BARRIER)], [*primitive, "Depend"], [*item, NO_NODE]
    if returned:
        inputs, primitive, item = [*inputs, (0,)], [*primitive, ITEM], [*item, 1]
    nothing = ("",) * len(inputs)
    graph = LaunchGraph(
        name=nothing,
        primitive=tuple(primitive),
        inputs=tuple(inputs),
        item=np.array(item),
        unique=nothing,
        forward_unique=nothing,
        fused=(None,) * len(inputs),
        end=len(inputs) - 1,
    )
    users = [[reader for reader, given in enumerate(inputs) if node in given] for node in range(len(inputs))]
    run = SimpleNamespace(
        graph=graph,
        ties=ties,
        users=users,
        saved_behind={_BARRIER: _SAVED},
        handed={},
        is_parameter=lambda value: value == NO_NODE,
    )
    nodes = Nodes(graph)
    return Alternation(cast(RunGraph, run), nodes, {_SAVED: nodes.inputs[_SAVED]})


def _taken(found: Alternation, ties: dict[tuple[int, int], int]) -> list[int]:
    nodes = found.nodes
    return [value for (value, _), tie in ties.items() if nodes.primitive[nodes.inputs[tie][0]] == ITEM]


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (range(_VALUES), [0, 2, 4]),  # the first counts as the last: 0, not 5, 4, not 3, ...
        ([0, 1, 2, 3, 5], [0, 1, 3]),  # one fewer: all in front of it change
        ([1, 2, 3, 4, 5], [1, 3, 5]),
    ],
)
def test_every_other_value_from_the_last_on_is_taken_out_of_the_tuple(
    asked: Sequence[int], taken: Sequence[int]
) -> None:
    found = _alternation([0, 2, 4])
    ties = {key: tie for key, tie in found.run.ties.items() if key[0] in asked}
    found.apply(ties, set(ties.values()))
    assert _taken(found, ties) == taken


def test_a_value_that_was_read_when_the_others_were_removed_counts_although_nothing_reads_it_any_more() -> None:
    """5 and 3 are both read as they are: between them 4 was taken out. So without 3 the next one is not."""
    found = _alternation([0, 2], read=[0, 1, 2, 3, 5])
    ties = {key: tie for key, tie in found.run.ties.items() if key[0] != 3}
    found.apply(ties, set(ties.values()))
    assert _taken(found, ties) == [0, 1]


def test_a_tuple_that_the_rule_does_not_explain_stays() -> None:
    found = _alternation([0, 4, 5])
    ties = {key: tie for key, tie in found.run.ties.items() if key[0] != 3}
    found.apply(ties, set(ties.values()))
    assert _taken(found, ties) == [0, 4, 5]


def test_a_parameter_counts_as_any_value_and_is_taken_out_in_its_turn() -> None:
    """A recomputed cell is given one; with it all in front of it change."""
    found = _alternation([0, 2, 4])
    nodes, ties = found.nodes, dict(found.run.ties)
    tie = nodes.add("Depend", (NO_NODE, _BARRIER))
    added = Alternation(found.run, nodes, {_SAVED: [*range(_VALUES - 1), tie, _VALUES - 1]})
    added.apply(ties, set(ties.values()))
    assert _taken(added, ties) == [0, 1, 3]
    assert nodes.primitive[nodes.inputs[tie][0]] == ITEM
    assert nodes.item[nodes.inputs[tie][0]] == _VALUES - 1


@pytest.mark.parametrize(("asked", "is_taken"), [([1, 2, 3, 4, 5], False), ([1, 2, 4, 5], True), ([4, 5], True)])
def test_what_is_returned_is_taken_out_of_the_tuple_in_its_turn(asked: Sequence[int], *, is_taken: bool) -> None:
    """Behind all others."""
    found = _alternation([1, 3, 5], range(1, _VALUES), returned=True)
    ties = {key: tie for key, tie in found.run.ties.items() if key[0] in asked}
    Alternation(found.run, found.nodes, found.entries, {_SAVED}).apply(ties, set(ties.values()))
    (value,) = found.nodes.inputs[found.run.graph.end]
    assert (found.nodes.primitive[value] == ITEM) == is_taken
    assert is_taken or value == 0
