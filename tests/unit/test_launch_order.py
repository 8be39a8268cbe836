"""The order of launches that MindSpore decides on a graph, against what it did, and rule by rule."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swapconf.trace import launch_graph
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.launch_order import launched, reproduces
from swapconf.trace.trace import Kernel
from tests.helpers import TRACES

CASES = sorted(folder for folder in (TRACES / "launch_order").iterdir())


def graph_of(*nodes: tuple[str, tuple[int, ...]], fused: dict[int, str] | None = None) -> LaunchGraph:
    """Nodes as (primitive, inputs); the last one is the Return."""
    count = len(nodes)
    return LaunchGraph(
        name=tuple(f"Default/{primitive}-op{node}" for node, (primitive, _) in enumerate(nodes)),
        primitive=tuple(primitive for primitive, _ in nodes),
        inputs=tuple(inputs for _, inputs in nodes),
        item=np.array([0 if primitive == "TupleGetItem" else -1 for primitive, _ in nodes], dtype=np.int64),
        unique=("",) * count,
        forward_unique=("",) * count,
        fused=tuple((fused or {}).get(node) for node in range(count)),
        end=count - 1,
    )


def kernels(*names: str) -> list[Kernel]:
    return [
        Kernel(index=index, name=name, stream=0, graph="g", primitive=name.split("-")[0], output="", inputs=())
        for index, name in enumerate(names, 1)
    ]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_order_is_that_of_mindspore(folder: Path) -> None:
    graph = launch_graph.read(folder / launch_graph.FILE)
    executed = json.loads((folder / "executed.json").read_text())
    known = set(executed)
    assert [node for node in launched(graph) if node in known] == executed


def test_a_kernel_with_one_reader_is_followed_by_it() -> None:
    """Of the two inputs of the sum each is followed by what alone reads it."""
    graph = graph_of(("Mul", (-1,)), ("Exp", (0,)), ("Div", (-1,)), ("Neg", (2,)), ("Add", (1, 3)), ("Return", (4,)))
    order = launched(graph)
    assert order.index(1) == order.index(0) + 1
    assert order.index(3) == order.index(2) + 1
    assert order[-1] == 4


def test_what_reads_communication_waits_until_nothing_else_is_ready() -> None:
    graph = graph_of(
        ("Mul", (-1,)),
        ("AllReduce", (0,)),
        ("Neg", (1,)),
        ("Exp", (0,)),
        ("Log", (3,)),
        ("Add", (2, 4)),
        ("Return", (5,)),
    )
    assert launched(graph) == [0, 1, 3, 4, 2, 5]


def test_the_result_of_communication_that_may_be_fused_is_read_when_the_next_of_its_group_is_there() -> None:
    nodes = (
        ("Mul", (-1,)),
        ("AllReduce", (0,)),
        ("Neg", (1,)),
        ("AllGather", (0,)),
        ("Exp", (3,)),
        ("AllReduce", (4,)),
        ("Add", (2, 5)),
        ("Return", (6,)),
    )
    assert launched(graph_of(*nodes)) == [0, 1, 3, 2, 4, 5, 6]
    assert launched(graph_of(*nodes, fused={1: "g", 5: "g"})) == [0, 1, 3, 4, 5, 2, 6]


def test_a_cast_of_a_parameter_waits_for_its_first_reader_unless_parameters_are_written_before() -> None:
    def case(between: str) -> LaunchGraph:
        return graph_of(("Load", (-1,)), ("Cast", (0,)), (between, (-1,)), ("MatMul", (1, 2)), ("Return", (3,)))

    assert launched(case("Exp")) == [2, 1, 3]
    assert launched(case("Assign")) == [1, 2, 3]


def test_a_cast_is_launched_in_front_of_a_kernel_that_is_given_it_in_a_tuple() -> None:
    nodes = (("Cast", ()), ("MakeTuple", (0,)), ("AllReduce", (1,)), ("Mul", (0, 2)), ("Return", (3,)))
    assert launched(graph_of(*nodes)) == [0, 2, 3]


def test_a_cast_is_launched_behind_a_kernel_that_waits_for_it_in_a_tuple() -> None:
    """As a barrier waits for all that a forward pass hands on."""
    waits = (("Cast", ()), ("MakeTuple", (0,)), ("Depend", (-1, 1)), ("TensorMove", (2,)))
    assert launched(graph_of(*waits, ("Mul", (0, 3)), ("Return", (4,)))) == [3, 0, 4]


def test_a_cast_that_a_call_hands_on_waits_for_who_takes_it_and_not_for_who_takes_something_else() -> None:
    """As the gain of a cell that only its own gradient reads (a model with cells of its own, jit_level O1)."""
    handed = (("Cast", ()), ("Mul", ()), ("MakeTuple", (0, 1)), ("TupleGetItem", (2, -1)), ("TupleGetItem", (2, -1)))
    nodes = graph_of(*handed, ("Exp", (4,)), ("Sub", (5,)), ("Add", (6, 3)), ("Return", (7,)))
    nodes.item[3:5] = 0, 1
    assert launched(nodes) == [1, 5, 6, 0, 7]


def test_a_cast_of_what_a_kernel_gave_is_where_the_queue_has_it() -> None:
    through = (("Load", (-1,)), ("MakeTuple", (0,)), ("TupleGetItem", (1, -1)))
    rest = (("Cast", (2,)), ("Exp", (-1,)), ("MatMul", (3, 4)), ("Return", (5,)))
    assert launched(graph_of(*through, *rest)) == [4, 3, 5]
    assert launched(graph_of(("Mul", (-1,)), *through[1:], *rest)) == [0, 3, 4, 5]


def test_a_circle_is_refused() -> None:
    with pytest.raises(ValueError, match="circle"):
        launched(graph_of(("Mul", (1,)), ("Add", (0,)), ("Return", (1,))))
    with pytest.raises(ValueError, match="circle"):
        launched(graph_of(("Depend", (1,)), ("Depend", (0,)), ("Return", (1,))))


def test_a_long_chain_takes_linear_time_and_no_stack() -> None:
    for primitive in ("Depend", "Mul", "Cast"):
        chain = [("Mul", (-1,)), *((primitive, (node, node)) for node in range(200_000)), ("Return", (200_000,))]
        start = time.process_time()
        assert len(launched(graph_of(*chain))) == (1 if primitive == "Depend" else 200_001)
        assert time.process_time() - start < 30


def test_an_order_is_reproduced_in_each_step_or_not() -> None:
    graph = graph_of(("Mul", (-1,)), ("ConditionSwitch", (0,)), ("Exp", (1,)), ("Return", (2,)))
    one, two = "Default/Mul-op0", "Default/Exp-op2"
    events = replace(kernels("x")[0], primitive="StreamSend")
    assert reproduces(graph, kernels(one, two))
    assert reproduces(graph, [*kernels(one, two, one), events, *kernels(two)])
    assert not reproduces(graph, kernels(two, one))
    assert not reproduces(graph, kernels(one, two, one))
    assert not reproduces(graph, kernels(one, two, "Default/Other-op0"))
    assert not reproduces(graph, kernels("Default/Other-op0"))
    assert not reproduces(graph, [])
    assert not reproduces(graph_of(("Mul", (1,)), ("Mul", (0,)), ("Return", (1,))), kernels(one))
