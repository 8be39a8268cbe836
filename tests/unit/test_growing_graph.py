"""MindSpore's graph of the whole model from graphs of fewer layers: the same as that of the whole model."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from swapconf.dryrun.growing.graph import _check_layers, grown_graph
from swapconf.dryrun.growing.graph_periods import Kernels
from swapconf.dryrun.growing.graph_rules import _Walk, learn
from swapconf.dryrun.growing.layers import Numbering, layer_in
from swapconf.dryrun.growing.numbers import Labelled, Rows, numbered
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.whole import Run, Whole, whole, with_graph
from swapconf.trace.fused_kernels import FusedKernel
from swapconf.trace.launch_graph import NO_NODE, TUPLE, LaunchGraph
from swapconf.trace.launch_order import launched, reproduces
from tests.helpers import TRACES, packed
from tests.unit.toy_graph import toy_graph

OWN = 12
KERNELS = Kernels(small={}, big={}, way=lambda name, twin: 0)
PAIRS = [(3, 4), (4, 6), (6, 8)]


def kept(size: int) -> list[int]:
    front = -(-size // 2)
    return [*range(front), *range(OWN - (size - front), OWN)]


def grown(small: LaunchGraph, big: LaunchGraph, size: int, stride: int, is_odd: bool = False) -> LaunchGraph:
    """``size``, ``stride``: layers of ``big``, and how many it has more than ``small``. ``is_odd``: the last node of
    what is copied of each period is launched elsewhere."""
    found, rules = learn(small, big, KERNELS)
    copies = (OWN - size) // stride
    odd = [period.stop - 1 for period in found.two(copies).periods] if is_odd else []
    nodes = found.two(copies, odd)
    assert not any(nodes.is_copied[place] for place in odd)
    labels = numbered(Labelled(graph=small, nodes=found.one), Labelled(graph=big, nodes=nodes), found)
    return grown_graph(big, rules, nodes, Numbering(kept(size), 0, size, stride), labels, {}, ())


def of_runs(small: int, big: int, micro_batches: int = 1) -> LaunchGraph:
    one, two = (toy_graph(range(size), micro_batches, numbers) for size, numbers in ((small, 1000), (big, 5000)))
    return grown(one, two, big, big - small)


def names(graph: LaunchGraph) -> list[str]:
    """Without the numbers that MindSpore counts within a graph."""
    return [re.sub(r"-op\d+$", "", name) for name in graph.name]


def test_any_period_in_a_row_of_layers_can_be_copied() -> None:
    one, two = (toy_graph(range(size), 3) for size in (4, 6))
    found, truth = grown(one, two, 6, 2, is_odd=True), toy_graph(range(OWN), 3)
    assert (found.primitive, found.inputs, names(found)) == (truth.primitive, truth.inputs, names(truth))


@pytest.mark.parametrize(("small", "big"), PAIRS)
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_grown_graph_is_that_of_the_whole_model_node_for_node(small: int, big: int, micro_batches: int) -> None:
    found, truth = of_runs(small, big, micro_batches), toy_graph(range(OWN), micro_batches)
    assert (found.primitive, found.inputs, found.end) == (truth.primitive, truth.inputs, truth.end)
    assert np.array_equal(found.item, truth.item)
    assert names(found) == names(truth)
    assert launched(found) == launched(truth)


@pytest.mark.parametrize(("small", "big"), PAIRS)
def test_a_gradient_belongs_to_the_same_node_as_in_the_whole_model(small: int, big: int) -> None:
    found, truth = of_runs(small, big, 2), toy_graph(range(OWN), 2)
    pairs = {
        *zip(found.unique, truth.unique, strict=True),
        *zip(found.forward_unique, truth.forward_unique, strict=True),
    }
    assert len(pairs) == len({mine for mine, _ in pairs}) == len({its for _, its in pairs})


@pytest.mark.parametrize(("small", "big"), PAIRS)
def test_every_node_has_a_name_of_its_own(small: int, big: int) -> None:
    assert len(set(of_runs(small, big, 2).name)) == len(toy_graph(range(OWN), 2))


@pytest.mark.parametrize("seed", range(20))
def test_a_graph_in_which_a_node_of_a_layer_reads_something_else_is_refused(seed: int) -> None:
    chance, small, big = random.Random(seed), toy_graph(range(4), 2), toy_graph(range(6), 2)
    copied = np.flatnonzero(learn(small, big, KERNELS)[0].one.copy >= 0).tolist()
    node = chance.choice([node for node in copied if max(big.inputs[node], default=-1) >= 0])
    slot = chance.choice([slot for slot, given in enumerate(big.inputs[node]) if given >= 0])
    others = [given for given in range(node) if given != big.inputs[node][slot]]
    inputs = list(big.inputs[node])
    inputs[slot] = chance.choice(others)
    spoiled = replace(big, inputs=(*big.inputs[:node], tuple(inputs), *big.inputs[node + 1 :]))
    with pytest.raises(CannotGrow):
        grown(small, spoiled, 6, 2)


def captured_otherwise(graph: LaunchGraph, seed: int, first: int = 2) -> LaunchGraph:
    """Tuples have their values in another order, but for the ``first`` ones."""
    inputs, item, chance = list(graph.inputs), graph.item.copy(), random.Random(seed)
    for node, primitive in enumerate(graph.primitive):
        if primitive == TUPLE:
            rest = list(inputs[node][first:])
            chance.shuffle(rest)
            inputs[node] = (*inputs[node][:first], *rest)
    for node, given in enumerate(graph.inputs):
        if item[node] >= 0:
            item[node] = inputs[given[0]].index(graph.inputs[given[0]][item[node]])
    return replace(graph, inputs=tuple(inputs), item=item)


def taken(graph: LaunchGraph) -> list[str]:
    """What each node takes out of a tuple."""
    every = names(graph)
    return [
        every[graph.inputs[given[0]][item]]
        for given, item in zip(graph.inputs, graph.item.tolist(), strict=True)
        if item >= 0
    ]


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize(("small", "big"), [(4, 6), (6, 8)])
def test_a_tuple_may_have_its_values_in_another_order_with_more_layers(
    small: int, big: int, micro_batches: int
) -> None:
    one, two = (
        captured_otherwise(toy_graph(range(size), micro_batches, numbers), size)
        for size, numbers in ((small, 1000), (big, 5000))
    )
    found, truth = grown(one, two, big, big - small), toy_graph(range(OWN), micro_batches)
    assert taken(found) == taken(truth)
    assert names(found) == names(truth)
    assert launched(found) == launched(truth)


def test_a_tuple_in_another_order_has_to_have_a_value_of_each_layer() -> None:
    one, two = captured_otherwise(toy_graph(range(4)), 1), captured_otherwise(toy_graph(range(6)), 2)
    node = two.primitive.index(TUPLE)
    inputs = (*two.inputs[node][:4], two.inputs[node][5], *two.inputs[node][5:])
    spoiled = replace(two, inputs=(*two.inputs[:node], inputs, *two.inputs[node + 1 :]))
    with pytest.raises(CannotGrow):
        grown(one, spoiled, 6, 2)


@pytest.mark.parametrize(("read", "is_alike"), [(3, True), (5, False)])
def test_layers_are_alike_also_where_a_row_begins_in_the_middle_of_one(read: int, is_alike: bool) -> None:
    # the update of a weight (4, 6) reads its sum, of which the first one stands in the row before
    rows = [SimpleNamespace(length=2), SimpleNamespace(length=2)]
    nodes = SimpleNamespace(period=np.array([0, 0, 0, 1, 1, 1, 1]), source=np.arange(7), periods=rows)
    inputs = [(), (), (), (), (1,), (), (read,)]
    if is_alike:
        _check_layers(inputs, cast(Any, nodes), ())
    else:
        with pytest.raises(CannotGrow):
            _check_layers(inputs, cast(Any, nodes), ())


def test_graphs_that_differ_in_more_than_layers_are_refused() -> None:
    with pytest.raises(CannotGrow):
        grown(toy_graph(range(4)), toy_graph(range(6), 2), 6, 2)


def test_numbers_of_a_row_go_on_with_new_ones() -> None:
    rows = Rows([("1", "2"), ("2", "3"), ("7", "8"), ("", "4"), ("5", "5")])
    assert [rows.later("1", 2), rows.later("7", 1), rows.later("5", 3), rows.later("", 3), rows.later("3", 0)] == [
        "3",
        "8",
        "5",
        "",
        "3",
    ]
    fresh = [rows.later("2", 2), rows.later("3", 1), rows.later("1", 3), rows.later("8", 1)]
    assert fresh[0] == fresh[1] == fresh[2] != fresh[3]
    assert {"1", "2", "3", "5", "7", "8"}.isdisjoint(fresh)


def test_a_new_number_is_that_of_no_other_node() -> None:
    assert Rows([("1", "2")], others=["3", "9", ""]).later("2", 1) == "10"


def test_inputs_that_are_parameters_come_again_with_the_others_of_their_layer() -> None:
    def tuple_of(layers: int) -> list[int]:
        return [given for layer in range(layers) for given in (NO_NODE, layer, NO_NODE, NO_NODE, 100 + layer, NO_NODE)]

    first, last = ([*range(200)] for _ in range(2))
    for node in (*range(3), *range(100, 103)):
        last[node] += 1
    shows = SimpleNamespace(first=[*first, NO_NODE], last=[*last, NO_NODE])
    rule = _Walk(cast(Any, shows), tuple_of(3), tuple_of(4)).rule(0)
    assert [(cut.length, cut.is_upwards) for cut in rule.cuts] == [(6, True)]


def test_the_most_frequent_of_contradicting_neighbours_holds() -> None:
    assert Rows([("1", "2"), ("1", "3"), ("1", "2")]).later("1", 1) == "2"


KEPT = {4: [0, 1, 8, 9], 6: [0, 1, 2, 7, 8, 9]}  # of ten layers
RUNS = TRACES / "growing"  # Llama, jit_level O1, two micro-batches with lazy inline, MindSpore 2.9.0


def recorded(size: int) -> Run:
    trace = packed(RUNS / f"layers_{size}")
    return Run(trace=trace, kept=KEPT[size], first=0, size=size, graph=trace.launch_graph)


@pytest.fixture(scope="module")
def runs() -> tuple[Run, Run]:
    return recorded(4), recorded(6)


@pytest.fixture(scope="module")
def found(runs: tuple[Run, Run]) -> Whole:
    return with_graph(*runs, range(10), 10)


def test_mindspore_launches_the_grown_graph_of_a_real_run_as_the_grown_trace_does(found: Whole) -> None:
    assert found.graph is not None, found.why
    assert reproduces(found.graph, found.trace.step)
    assert len(found.graph) == 8691


def gradients(graph: LaunchGraph, inside: Mapping[str, FusedKernel]) -> tuple[list[int], list[int]]:
    """By layer, how many nodes, and operators in fused kernels, are gradients of a node in it, by their numbers."""
    operators = [operator for kernel in inside.values() for operator in kernel.operators]
    named = [*zip(graph.unique, graph.name, strict=True), *((one.unique, one.name) for one in operators)]
    layer_of = {number: layer_in(name) for number, name in reversed(named) if number and layer_in(name) >= 0}
    counts = (
        Counter(layer_of[number] for number in numbers if number in layer_of)
        for numbers in (graph.forward_unique, [one.forward_unique for one in operators])
    )
    ours, theirs = ([found[layer] for layer in sorted(found)] for found in counts)
    return ours, theirs


def test_every_layer_of_a_real_run_has_the_same_gradients_inside_of_fused_kernels_too(
    runs: tuple[Run, Run], found: Whole
) -> None:
    graph = runs[1].graph
    assert graph is not None
    assert gradients(graph, runs[1].trace.fused_kernels) == ([82] * 6, [16] * 6)
    assert found.graph is not None
    assert gradients(found.graph, found.trace.fused_kernels) == ([82] * 10, [16] * 10)
    assert {name for name in found.graph.name if "GraphKernel" in name} <= set(found.trace.fused_kernels)


def test_copies_of_parameters_come_in_the_order_that_mindspore_decides_on(runs: tuple[Run, Run], found: Whole) -> None:
    without = whole(*runs, range(10), 10)
    moves = [
        [kernel.name for kernel in trace.step if kernel.primitive == "TensorMove"] for trace in (without, found.trace)
    ]
    assert moves[0] != moves[1]
    assert sorted(moves[0]) == sorted(moves[1])
    assert without.used_peak_bytes == found.trace.used_peak_bytes


def test_a_real_graph_in_which_something_was_changed_is_not_grown_but_the_trace_is(runs: tuple[Run, Run]) -> None:
    small, big = runs
    assert big.graph is not None
    node = big.graph.primitive.index("RmsNormGrad")
    inputs = (big.graph.inputs[node][0], *[given - 1 for given in big.graph.inputs[node][1:]])
    spoiled = replace(big.graph, inputs=(*big.graph.inputs[:node], inputs, *big.graph.inputs[node + 1 :]))
    found = with_graph(small, replace(big, graph=spoiled), range(10), 10)
    assert found.graph is None
    assert found.why
    assert found.trace.used_peak_bytes == whole(small, big, range(10), 10).used_peak_bytes
