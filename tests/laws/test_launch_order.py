"""Any graph: what leads to its end is launched once, behind what it reads; a file gives back what it holds."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swapconf.trace import launch_graph, launch_graph_text
from swapconf.trace.launch_graph import COMMUNICATION, NO_NODE, RETURN, SAME_VALUE, LaunchGraph
from swapconf.trace.launch_order import launched
from swapconf.words.findings import SwapconfError
from tests.unit.graph_texts import printed

PRIMITIVES = ("AllReduce", "Assign", "Cast", "Depend", "Load", "MakeTuple", "MatMul", "Mul", "Send", "TupleGetItem")
texts = st.sampled_from(["", "1", "größe", "Default/Mul-op0", 'a"b', "\ud800"])


@st.composite
def graphs(draw: st.DrawFn) -> LaunchGraph:
    """The nodes stand in any order: a graph that was changed has its new ones last."""
    count = draw(st.integers(1, 30))
    place = draw(st.permutations(range(count + 1)))
    primitive, inputs = [""] * (count + 1), [()] * (count + 1)
    for node in range(count):
        primitive[place[node]] = draw(st.sampled_from(PRIMITIVES))
        given_to = draw(st.lists(st.integers(NO_NODE, node - 1), max_size=4))
        inputs[place[node]] = tuple(NO_NODE if item == NO_NODE else place[item] for item in given_to)  # type: ignore[assignment]
    primitive[place[count]], inputs[place[count]] = RETURN, (place[count - 1],)  # type: ignore[assignment]
    column = st.lists(texts, min_size=count + 1, max_size=count + 1)
    groups = st.sampled_from([None, "", "one", "two"])
    return LaunchGraph(
        name=tuple(draw(column)),
        primitive=tuple(primitive),
        inputs=tuple(inputs),
        item=np.array([draw(st.integers(0, 3)) if one == "TupleGetItem" else -1 for one in primitive], dtype=np.int64),
        unique=tuple(draw(column)),
        forward_unique=tuple(draw(column)),
        fused=tuple(draw(groups) if one in COMMUNICATION else None for one in primitive),
        end=place[count],
    )


def behind(graph: LaunchGraph, node: int, *, read: bool = False) -> set[int]:
    """All nodes that lead to one. ``read``: not those that are only waited for."""
    found, waiting = set[int](), [node]
    while waiting:
        one = waiting.pop()
        given = graph.inputs[one][:1] if read and graph.primitive[one] in SAME_VALUE else graph.inputs[one]
        new = {item for item in given if item != NO_NODE} - found
        found |= new
        waiting += new
    return found


@given(graphs())
def test_each_kernel_that_leads_to_the_end_is_launched_once_behind_what_leads_to_it(graph: LaunchGraph) -> None:
    """But for casts of parameters, which MindSpore moves behind what only waits for them."""
    order = launched(graph)
    kernels = {node for node in behind(graph, graph.end) if graph.is_kernel[node]}
    assert len(order) == len(kernels)
    assert set(order) == kernels
    done = set[int]()
    for node in order:
        later = behind(graph, node) & kernels - done
        assert all(graph.primitive[one] == "Cast" for one in later)
        assert not later & behind(graph, node, read=True)
        done.add(node)


@given(graphs())
def test_a_file_gives_back_the_graph(graph: LaunchGraph) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / launch_graph.FILE
        launch_graph.write(graph, path)
        read = launch_graph.read(path)
    assert read.item.tolist() == graph.item.tolist()
    for column in ("name", "primitive", "inputs", "unique", "forward_unique", "fused", "end"):
        assert getattr(read, column) == getattr(graph, column)


TEXT = printed().encode()
cuts = st.integers(0, len(TEXT))
pieces = st.sampled_from(
    [b"", b"%1", b"(", b")", b'"', b"\n", b"}\n", b"  Return(%0)\n", b"\0", b"\xff", b"  %9(a) = B(%0)\n", b"9" * 30]
)


@given(st.lists(st.tuples(cuts, cuts, pieces), max_size=4))
def test_whatever_is_wrong_with_a_text_it_is_a_graph_or_refused(changes: list[tuple[int, int, bytes]]) -> None:
    data = TEXT
    for start, stop, piece in changes:
        data = data[:start] + piece + data[max(start, stop) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph_build_0_1.ir"
        path.write_bytes(data)
        with suppress(SwapconfError):
            graph = launch_graph_text.read_ir(path)
            assert graph.primitive[graph.end] == RETURN
            launched(graph)
