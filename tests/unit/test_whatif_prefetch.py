"""Between which kernels a copy back is launched, on graphs by hand; true runs stand in the tests of whole steps."""

from __future__ import annotations

import numpy as np
import pytest

from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE, RETURN, LaunchGraph
from swapconf.trace.launch_order import turns
from swapconf.whatif.graph.branches import Place, branched
from swapconf.whatif.graph.nodes import MOVE, Nodes
from swapconf.whatif.graph.prefetch import Launches, launched_with_copies, prefetched

Row = tuple[str, tuple[int, ...]]  # primitive, inputs
# three kernels, of which the second one waits until the output of the first one is copied to the host; and back
COPIED: list[Row] = [("Exp", (-1,)), (MOVE, (0,)), (DEPEND, (0, 1)), ("Mul", (2,)), ("Neg", (3,)), (MOVE, (1,))]
BACK = 5
READ: Row = ("Add", (4, BACK))


def graph_of(*rows: Row, items: dict[int, int] | None = None, cluster: tuple[int, ...] = ()) -> LaunchGraph:
    """That ends behind its last row."""
    nodes = [*rows, (RETURN, (len(rows) - 1,))]
    count = len(nodes)
    return LaunchGraph(
        name=tuple(f"Default/{primitive}-op{node}" for node, (primitive, _) in enumerate(nodes)),
        primitive=tuple(primitive for primitive, _ in nodes),
        inputs=tuple(inputs for _, inputs in nodes),
        item=np.array([(items or {}).get(node, NO_NODE) for node in range(count)]),
        unique=("",) * count,
        forward_unique=("",) * count,
        fused=(None,) * count,
        end=count - 1,
        cluster=cluster and (*cluster, NO_NODE),
    )


def launched(graph: LaunchGraph, prefetch: int) -> Launches:
    return launched_with_copies(Nodes(graph), np.array([prefetch]), {BACK: 0})


@pytest.mark.parametrize(
    ("prefetch", "order", "underflows"),
    [
        (0, "Exp MoveTo Mul Neg MoveTo Add", False),
        (1, "Exp MoveTo Mul MoveTo Neg Add", False),
        (2, "Exp MoveTo Mul MoveTo Neg Add", False),
        (3, "Exp MoveTo Mul MoveTo Neg Add", True),  # Add is the sixth launch, with the copies, and the fourth without
        (4, "Exp MoveTo Mul MoveTo Neg Add", True),
        (5, "Exp MoveTo Mul Neg MoveTo Add", False),
    ],
)
def test_a_copy_waits_for_the_kernel_so_far_ahead_and_behind_all_kernels_for_what_it_copies(
    prefetch: int, order: str, underflows: bool
) -> None:
    graph = graph_of(*COPIED, READ)
    found = launched(graph, prefetch)
    assert " ".join(graph.primitive[node] for node in found.order) == order
    assert found.stops.underflows == ({0} if underflows else set())


@pytest.mark.parametrize(("prefetch", "underflows"), [(1, False), (2, True), (3, True), (4, False)])
def test_fused_kernels_count_once(prefetch: int, underflows: bool) -> None:
    """As MindSpore looks at its last graph: here Mul and Neg are one launch."""
    found = launched(graph_of(*COPIED, READ, cluster=(-1, -1, -1, 7, 7, -1, -1)), prefetch)
    assert found.stops.underflows == ({0} if underflows else set())


def conditioned() -> LaunchGraph:
    """As above, but with a condition behind the third kernel, which hands that on as it is, or its sine."""
    return graph_of(
        *COPIED,
        ("Greater", (4,)),
        ("ConditionSwitch", (6, 4)),
        (ITEM, (7, NO_NODE)),
        ("Sin", (8,)),
        ("ConditionGather", (9, 8)),
        (ITEM, (10, NO_NODE)),
        ("Add", (11, BACK)),
        items={8: 0, 11: 0},
    )


def test_in_front_of_the_inlining_a_condition_is_two_branches_and_a_switch() -> None:
    graph = conditioned()
    found, first, second, switch = branched(graph), 7, len(graph), 10
    assert found.branches == {first, second}
    assert [found.graph.primitive[node] for node in (first, second)] == ["PartialInline"] * 2
    assert [found.graph.inputs[node] for node in (first, second, switch)] == [(4,), (4,), (6, first, second)]
    assert found.graph.inputs[12] == (switch, BACK)
    assert found.first == {first: Place(7, 1), second: Place(7, 1), switch: Place(7, 0)}
    assert turns(found.graph) == [0, 1, 3, 4, BACK, 6, first, second, switch, 12]


def test_a_branch_that_is_handed_nothing_waits_for_nothing() -> None:
    """Nor does one of a condition in another one matter."""
    graph = graph_of(
        ("Exp", (-1,)),
        ("ConditionSwitch", (0, 0)),
        (ITEM, (1, NO_NODE)),
        ("ConditionSwitch", (2, 2)),
        (ITEM, (3, NO_NODE)),
        ("ConditionGather", (4, -1)),
        ("ConditionGather", (5, -1)),
        items={2: 0, 4: 0},
    )
    found = branched(graph)
    outer = found.graph.inputs[6]
    assert outer[:2] == (0, 1)
    assert found.graph.inputs[outer[2]] == ()
    assert found.first[outer[2]] == Place(1, 2)
    assert set(turns(found.graph)) == {0, *outer, 6}


def test_a_condition_whose_outputs_come_from_two_is_left_alone() -> None:
    graph = graph_of(
        ("ConditionSwitch", (-1, -1)),
        ("ConditionSwitch", (-1, -1)),
        (ITEM, (0, NO_NODE)),
        (ITEM, (1, NO_NODE)),
        ("ConditionGather", (2, 3)),
        items={2: 0, 3: 0},
    )
    assert branched(graph).graph.primitive == graph.primitive


@pytest.mark.parametrize(
    ("prefetch", "stranded"),  # in front of the Add stand the Switch, both branches and the comparison
    [(0, False), (1, True), (2, True), (3, False), (4, False)],
)
def test_a_copy_that_waits_for_a_branch_is_stranded(prefetch: int, stranded: bool) -> None:
    assert launched(conditioned(), prefetch).stops.stranded == ({0} if stranded else set())


@pytest.mark.parametrize(
    ("prefetch", "order"),
    [
        (0, "Exp MoveTo Mul Neg Greater ConditionSwitch Sin ConditionGather MoveTo Add"),
        (3, "Exp MoveTo Mul Neg Greater MoveTo ConditionSwitch Sin ConditionGather Add"),  # a branch waits for it
    ],
)
def test_a_copy_is_never_inside_a_condition(prefetch: int, order: str) -> None:
    graph = conditioned()
    assert " ".join(graph.primitive[node] for node in launched(graph, prefetch).order) == order


def test_a_kernel_that_reads_nothing_cannot_wait() -> None:
    """MindSpore warns of it; the copy waits for the kernel in front of that all the same."""
    rows = [*COPIED[:3], ("Neg", (2,)), ("Zeros", ()), COPIED[BACK], ("Add", (3, 4, BACK))]
    nodes = Nodes(graph_of(*rows))
    prefetched(nodes, np.array([1]), {BACK: 0})
    assert nodes.inputs[4] == []
    (waited,) = nodes.inputs[BACK]
    assert nodes.inputs[waited] == [1, 3]
