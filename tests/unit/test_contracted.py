"""A graph of operators, with one node again for each fused kernel; and the numbers that expanded operators lost."""

from __future__ import annotations

import numpy as np
import pytest

from swapconf.trace.contracted import contracted
from swapconf.trace.expanded_numbers import with_numbers
from swapconf.trace.func_graph_text import Argument, Kind
from swapconf.trace.fused_kernels import FusedKernel, FusedOperator
from swapconf.trace.launch_graph import ITEM, NO_NODE, RETURN, LaunchGraph
from swapconf.trace.launch_order import launched
from swapconf.trace.opened_graph import opened_graph
from swapconf.trace.tensor import Tensor
from swapconf.whatif.graph.func_graphs import func_graphs

Row = tuple[str, tuple[int, ...], int]  # primitive, inputs, fused kernel


def graph(*rows: Row, given: dict[int, tuple[int, ...]] | None = None, **columns: dict[int, str]) -> LaunchGraph:
    """A graph that ends behind its last row."""
    nodes = [*rows, (RETURN, (len(rows) - 1,), NO_NODE)]
    count = len(nodes)

    def column(name: str, default: str = "") -> tuple[str, ...]:
        return tuple(columns.get(name, {}).get(node, default) for node in range(count))

    return LaunchGraph(
        name=column("name"),
        primitive=tuple(primitive for primitive, _, _ in nodes),
        inputs=tuple(inputs for _, inputs, _ in nodes),
        item=np.full(count, NO_NODE),
        unique=column("unique"),
        forward_unique=column("forward_unique"),
        fused=(None,) * count,
        end=count - 1,
        cluster=tuple(cluster for _, _, cluster in nodes),
        given=tuple((given or {}).get(node, ()) for node in range(count)),
    )


MATMUL: Row = ("MatMul", (NO_NODE, NO_NODE), NO_NODE)


def test_a_fused_kernel_is_one_node_that_reads_each_value_once() -> None:
    found = contracted(graph(MATMUL, ("Mul", (0, 0), 7), ("Add", (1, 0), 7), ("MatMul", (2, NO_NODE), NO_NODE)))
    fused = found.node_of[1]
    assert found.node_of[2] == fused
    assert found.operators[fused] == (1, 2)
    assert found.graph.inputs[fused] == (found.node_of[0],)
    assert found.graph.inputs[found.node_of[3]] == (fused, NO_NODE)
    assert ITEM not in found.graph.primitive


def test_of_several_outputs_each_is_taken_out_of_it() -> None:
    found = contracted(graph(MATMUL, ("Mul", (0,), 7), ("Neg", (1,), 7), ("MatMul", (2, 1), NO_NODE)))
    second, first = found.graph.inputs[found.node_of[3]]
    assert [found.graph.primitive[node] for node in (first, second)] == [ITEM, ITEM]
    assert [int(found.graph.item[node]) for node in (first, second)] == [0, 1]
    assert found.graph.inputs[first][0] == found.graph.inputs[second][0] == found.node_of[1]


def test_inputs_stand_as_the_kernel_is_given_them_what_is_new_behind_them() -> None:
    """Two of its inputs may have become one value."""
    rows = (MATMUL, MATMUL, MATMUL, ("Mul", (0, 1), 7), ("Add", (3, 2, 0), 7))
    found = contracted(graph(*rows, given={3: (1, 0), 4: (NO_NODE, NO_NODE, 2)}))
    assert found.graph.inputs[found.node_of[3]] == tuple(found.node_of[node] for node in (1, 0, 0, 2))


def test_operators_of_a_kernel_are_launched_together_each_behind_what_it_reads() -> None:
    """Also where they are numbered the other way round."""
    rows: tuple[Row, ...] = (MATMUL, ("Mul", (0,), 7), ("MatMul", (0, NO_NODE), NO_NODE), ("Neg", (1, 2), NO_NODE))
    assert launched(graph(*rows, ("Concat", (3, 1), NO_NODE))) == [0, 1, 2, 3, 4]
    rows = (MATMUL, ("Neg", (2,), 7), ("Mul", (0,), 7), ("MatMul", (0, NO_NODE), NO_NODE))
    order = launched(graph(*rows, ("Concat", (3, 1), NO_NODE)))
    assert order.index(1) == order.index(2) + 1


def test_a_kernel_that_waits_for_itself_has_no_order() -> None:
    rows: tuple[Row, ...] = (MATMUL, ("Mul", (0,), 7), ("MatMul", (1, NO_NODE), NO_NODE), ("Add", (1, 2), 7))
    with pytest.raises(ValueError, match="circle"):
        launched(graph(*rows))


SCOPES = {0: "a/Split-op0", 1: "a/SiLU-op0", 2: "a/Mul-op0", 3: "g/Grad_Mul/Mul-op1", 4: "g/Grad_SiLU/SiLUGrad-op0"}
EXPANDED: tuple[Row, ...] = (
    ("Split", (NO_NODE,), NO_NODE),
    ("SiLU", (0,), 1),
    ("Mul", (1, 0), 1),
    ("Mul", (2,), 2),
    ("SiLUGrad", (3,), 2),
    ("Concat", (4,), NO_NODE),
)


def test_an_operator_and_its_gradient_that_lost_their_numbers_belong_together() -> None:
    plain = graph(*EXPANDED, name=SCOPES, unique={0: "5", 2: "6"}, forward_unique={3: "6", 5: "5"})
    found = with_numbers(plain)
    assert found.unique[1] == found.forward_unique[4] != ""
    assert (found.unique[0], found.unique[2], found.forward_unique[3], found.forward_unique[5]) == ("5", "6", "6", "5")
    elsewhere = with_numbers(graph(*EXPANDED, name=SCOPES, unique={0: "5", 2: "6"}, forward_unique={3: "7", 5: "8"}))
    assert elsewhere.unique[1] == elsewhere.forward_unique[4] == ""


def test_the_parts_of_one_gradient_have_its_number_and_so_has_its_operator() -> None:
    rows: tuple[Row, ...] = (
        ("Cast", (NO_NODE,), NO_NODE),
        ("Tile", (0,), 1),
        ("Reshape", (1,), NO_NODE),
        ("SumExt", (2,), 2),
        ("SumExt", (3,), 2),
        ("Cast", (4,), NO_NODE),
    )
    names = {1: "a/Tile-op0", **{node: f"g/Grad_Tile/X-op{node}" for node in (2, 3, 4)}}
    plain = graph(*rows, name=names, unique={0: "5"}, forward_unique={2: "6", 5: "5"})
    found = with_numbers(plain)
    assert found.forward_unique[2:6] == ("6", "6", "6", "5")
    assert found.unique[1] == "6"


def test_a_node_is_of_the_last_call_of_which_it_needs_something() -> None:
    """3 is a barrier, 4 what the call behind it is handed, 7 under a condition."""
    primitive = ["MatMul", "Depend", "Mul", "TensorMove", "Depend", "Add", "ConditionSwitch", "Neg"]
    inputs = [[NO_NODE], [NO_NODE, 0], [0], [1], [2, 3], [4, 0], [5], [6]]
    assert func_graphs(primitive, inputs, {3}, set()) == [[4, 5], [0, 1, 2, 3]]


def test_what_nothing_of_a_call_needs_stands_beside_the_calls() -> None:
    """3 and 7 are barriers, 6 what the call behind the first one hands on, 9 the sum of what both make, 10 one of that
    and of what was in front."""
    primitive = [
        "MatMul",
        "Depend",
        "Neg",
        "TensorMove",
        "Depend",
        "Mul",
        "MakeTuple",
        "TensorMove",
        "Depend",
        "Add",
        "Add",
    ]
    inputs = [[NO_NODE], [NO_NODE, 0], [0], [1], [2, 3], [4], [5], [6], [5, 7], [4, 2], [9, 2]]
    assert func_graphs(primitive, inputs, {3, 7}, {6}) == [[4, 5, 6], [8], [0, 1, 2, 3, 9, 10, 7]]


def test_who_waits_for_a_whole_kernel_waits_for_one_of_its_operators() -> None:
    tensor = Tensor("Float32", (8,))
    inner = [
        FusedOperator(name=f"a/{name}", primitive=name, arguments=(Argument(kind, 0),), made=tensor, is_copy=False)
        for name, kind in (("Neg", Kind.PARAMETER), ("Exp", Kind.NODE))
    ]
    kernel = {"k": FusedKernel(operators=tuple(inner), outputs=(0, 1))}
    rows: tuple[Row, ...] = (MATMUL, ("GraphKernel", (0,), NO_NODE), ("Depend", (0, 1), NO_NODE))
    found = opened_graph(graph(*rows, name={1: "k"}), kernel, {"k": ["GraphKernel_Neg-op0", "GraphKernel_Exp-op0"]})
    assert found is not None
    assert [found.primitive[node] for node in found.inputs[3]] == ["MatMul", "Exp"]
    rows = (MATMUL, ("GraphKernel", (0,), NO_NODE), ("MatMul", (0, 1), NO_NODE))
    assert opened_graph(graph(*rows, name={1: "k"}), kernel, {"k": ["a", "b"]}) is None
