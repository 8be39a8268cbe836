"""What a backward pass captures, in which order, and which reader of a value is met first: graphs of a few nodes.

Each graph reads from left to right: the forward pass, the barrier, the backward pass, its results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from swapconf.trace.launch_graph import NO_NODE, LaunchGraph
from swapconf.whatif.graph.calls import Call, Handed, Met, Search
from swapconf.whatif.graph.nodes import Nodes

_BARRIER = "TensorMove"


class Graph:
    """Nodes by name; ``tie`` hands a value to the backward pass."""

    def __init__(self) -> None:
        self.primitive, self.inputs, self.number, self.names = list[str](), list[list[int]](), list[str](), list[str]()
        self.barrier = self.add(_BARRIER, "barrier")

    def add(self, primitive: str, name: str, *inputs: int, gradient_of: str = "") -> int:
        self.primitive.append(primitive)
        self.inputs.append(list(inputs))
        self.number.append(gradient_of)
        self.names.append(name)
        return len(self.names) - 1

    def tie(self, value: int) -> int:
        return self.add("Depend", "", value, self.barrier)

    def met(self, results: int, *entered: int, given: Mapping[int, Sequence[int]] | None = None) -> Met:
        graph = LaunchGraph(
            name=tuple(self.names),
            primitive=tuple(self.primitive),
            inputs=tuple(map(tuple, self.inputs)),
            item=np.full(len(self.names), NO_NODE),
            unique=("",) * len(self.names),
            forward_unique=tuple(self.number),
            fused=(None,) * len(self.names),
            end=results,
        )
        return Search(
            Nodes(graph),
            Call(barrier=self.barrier, results=results),
            number=self.number,
            value=lambda tie: self.inputs[tie][0],
            is_tie=lambda node: self.primitive[node] == "Depend",
            entered=entered,
            given=given or {},
        ).met()

    def captured(self, results: int, **more: Any) -> list[str]:
        return [self.names[node] for node in self.met(results, **more).captured]


def test_who_is_met_names_first_what_it_reads_itself_and_the_last_of_its_inputs_is_met_first() -> None:
    graph = Graph()
    first, second, third, fourth = (graph.add("Cast", name) for name in ("first", "second", "third", "fourth"))
    early = graph.add("Mul", "early", graph.tie(first))
    late = graph.add("Mul", "late", graph.tie(second))
    end = graph.add("RmsNormGrad", "end", early, graph.tie(third), late, graph.tie(fourth))
    assert graph.captured(graph.add("MakeTuple", "", end)) == ["third", "fourth", "second", "first"]


def test_what_came_back_is_captured_behind_what_its_reader_reads_itself_the_last_first() -> None:
    """So flash attention with its inputs on the host names its mask, then these from the last to the first."""
    graph = Graph()
    query, key, mask = (graph.add("Cast", name) for name in ("query", "key", "mask"))
    back = [graph.add("MoveTo", "", graph.tie(one)) for one in (query, key)]
    end = graph.add("FlashAttentionScoreGrad", "", *back, graph.tie(mask))
    assert graph.captured(graph.add("MakeTuple", "", end)) == ["mask", "key", "query"]


def _weight(graph: Graph) -> int:
    return graph.tie(graph.add("Load", "weight"))


def _in_a_state(graph: Graph) -> int:
    return graph.tie(graph.add("Load", "weight", NO_NODE, graph.add("UpdateState", "", graph.add("Mul", ""))))


def _on_the_host(graph: Graph) -> int:
    return graph.add("MoveTo", "", graph.tie(graph.add("MoveTo", "weight", graph.add("Load", ""))))


@pytest.mark.parametrize("weight", [_weight, _in_a_state, _on_the_host])
def test_the_gradients_of_a_node_are_met_together_and_what_a_product_reads_is_behind_a_node(
    weight: Callable[[Graph], int],
) -> None:
    """The gradient of the weight leads to that of the input, which is met first, although nothing reads it on the
    way."""
    graph = Graph()
    data, before, read = graph.add("Mul", "data"), graph.add("Mul", "before"), weight(graph)
    loss = graph.add("Mul", "", graph.tie(before))
    of_input = graph.add("MatMul", "", loss, read, gradient_of="7")
    of_weight = graph.add("MatMul", "", graph.tie(data), loss, gradient_of="7")
    embedding = graph.add("Cast", "", of_input)
    results = graph.add("MakeTuple", "", embedding, of_weight)
    assert set(graph.captured(results)[:2]) == {"weight", "before"}
    assert graph.captured(results)[2] == "data"


def test_a_recomputed_cell_is_called_as_a_whole_with_what_it_is_given_the_last_first() -> None:
    graph = Graph()
    data, scale, mask = (graph.add("Cast", name) for name in ("data", "scale", "mask"))
    given = [graph.tie(data), graph.tie(scale)]
    inner = graph.add("Exp", "", given[1])
    outer = graph.add("Mul", "", inner, given[0])
    end = graph.add("MulGrad", "", graph.add("Neg", "", outer), graph.tie(mask))
    assert graph.captured(end) == ["mask", "data", "scale"]
    assert graph.captured(end, given=dict.fromkeys((inner, outer), given)) == ["mask", "scale", "data"]


def test_the_reader_that_is_met_first_is_the_one_that_leads_back_from_what_was_captured_first() -> None:
    graph = Graph()
    score = graph.add("Softmax", "score")
    for_loss, for_tokens = graph.add("Div", "loss", score), graph.add("TopkExt", "tokens", score)
    results = graph.add("MakeTuple", "", graph.add("Mul", "", graph.tie(for_loss), graph.tie(for_tokens)))
    assert list(graph.met(results, for_loss, for_tokens).readers[score]) == [for_tokens, for_loss]
    assert not graph.met(results).readers


def test_what_stands_elsewhere_than_the_search_says_is_told_apart_from_what_later_passes_capture() -> None:
    found = Handed.of((1, 2, 3, 4, 5, 9), (2, 1, 3, 4, 5, 7))
    assert found.explained >= {3, 4, 5}
    assert len(found.explained & {1, 2}) == 1
    assert found.late == {9}


def test_a_parameter_is_captured_by_its_tie_and_a_state_is_none() -> None:
    graph = Graph()
    kept = graph.add("Cast", "kept")
    summed, state = graph.tie(NO_NODE), graph.tie(NO_NODE)
    added = graph.add("AssignAdd", "", summed, graph.tie(kept), state)
    assert graph.met(graph.add("MakeTuple", "", added)).captured == (summed, kept)


def test_the_parameters_of_a_recomputed_cell_are_captured_with_what_it_is_given_behind_that() -> None:
    """Also where a gradient that reads one is met before."""
    graph = Graph()
    value, other = graph.add("Cast", "value"), graph.add("Cast", "other")
    weight, summed = graph.tie(NO_NODE), graph.tie(NO_NODE)
    gated = graph.tie(value)
    again = graph.add("MatMul", "", gated, weight)
    read = graph.add("RmsNormGrad", "", weight, graph.tie(other), again)
    added = graph.add("AssignAdd", "", summed, read)
    found = graph.met(graph.add("MakeTuple", "", added), given={again: (weight, summed, gated)})
    assert found.captured == (other, value, summed, weight)


def test_an_output_out_of_several_is_captured_behind_what_its_reader_reads_besides() -> None:
    """So the gradient of a norm names its weight before what the norm has left."""
    graph = Graph()
    norm, data, weight = graph.add("RmsNorm", "norm"), graph.add("Cast", "data"), graph.add("Cast", "weight")
    left = graph.tie(graph.add("TupleGetItem", "", norm))
    end = graph.add("RmsNormGrad", "", graph.tie(data), left, graph.tie(weight))
    assert graph.captured(graph.add("MakeTuple", "", end)) == ["data", "weight", "norm"]
