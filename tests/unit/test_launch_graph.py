"""The graph on which MindSpore decides the order of the kernels: read from its text, kept in a file of its own."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapconf.trace import launch_graph, launch_graph_text, trace_folder
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.words.findings import Finding, SwapconfError
from tests.helpers import TRACES
from tests.unit.graph_texts import NODES, SOURCE, printed

KEPT = TRACES / "launch_order/llama_parallel_optimizer" / launch_graph.FILE


def of_text(folder: Path, text: str) -> LaunchGraph:
    (folder / "graph_build_0_1.ir").write_text(text, encoding="utf-8")
    return launch_graph_text.read_ir(folder / "graph_build_0_1.ir")


def refused(read: Callable[[], object]) -> Finding:
    with pytest.raises(SwapconfError) as caught:
        read()
    return caught.value.findings[0]


def same(one: LaunchGraph, other: LaunchGraph) -> bool:
    def columns(graph: LaunchGraph) -> dict[str, Any]:
        return {**vars(graph), "item": graph.item.tolist()}

    names = LaunchGraph.__dataclass_fields__
    return all(columns(one)[name] == columns(other)[name] for name in names)


def test_each_column_is_what_the_text_says(tmp_path: Path) -> None:
    graph = of_text(tmp_path, printed())
    assert graph.name == tuple(name for _, name in NODES)
    assert graph.primitive == ("Load", "Concat", "AllReduce", "AllGather", "MakeTuple", "TupleGetItem", "Return")
    assert graph.inputs == ((-1, -1), (0, -1, -1, -1), (1,), (1,), (2, 3, -1), (4, -1), (5,))
    assert graph.item.tolist() == [-1, -1, -1, -1, -1, 1, -1]
    assert graph.unique == ("", "316892", "", "", "", "", "")
    assert graph.forward_unique == ("", "", "129800", "", "", "", "")
    assert graph.fused == (None, None, "hccl_world_group", None, None, None, None)
    assert graph.end == 6
    assert np.flatnonzero(graph.is_kernel).tolist() == [1, 2, 3]
    assert np.flatnonzero(graph.is_communication).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "trace-header"),
        ("# IR entry: @kernel_graph0\n", "trace-header"),
        (printed(graphs=2), "trace-header"),
        (printed(count=8), "trace-truncated"),
        (printed(NODES[:-1]), "trace-truncated"),
        (printed().partition("  %5")[0], "trace-truncated"),
        (printed((*NODES, NODES[-1])), "trace-garbled"),
        (printed(NODES[1:]), "trace-garbled"),
        (printed((*NODES[:1], ("  %1(a) = PrimFunc_Add(%0, (I64(1)", ""), *NODES[2:])), "trace-garbled"),
        (printed((*NODES[:1], ("  %1(a) = (%0)", ""), *NODES[2:])), "trace-garbled"),
        (printed((*NODES[:1], ("  %1(a)", ""), *NODES[2:])), "trace-garbled"),
        (printed((*NODES[:1], NODES[0], *NODES[1:])), "trace-garbled"),
        (printed() + "cut", "trace-truncated"),
        (printed() + "\0\n", "trace-encoding"),
    ],
)
def test_what_is_not_the_text_of_one_whole_graph_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    assert refused(lambda: of_text(tmp_path, text)).rule == rule


def test_a_wrong_node_is_told_by_its_line(tmp_path: Path) -> None:
    text = printed((*NODES[:2], ("  %2(a) = AllReduce(%77)", ""), *NODES[3:]))
    finding = refused(lambda: of_text(tmp_path, text))
    assert finding.origin.line == text.partition("  %2(")[0].count("\n") + 1
    assert "'%77' is not a node before this one" in finding.message


def test_a_text_without_end_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_graph_text, "MAX_TEXT_BYTES", 500)
    assert "more than 500 bytes" in refused(lambda: of_text(tmp_path, printed())).message


def test_as_many_nodes_as_a_large_model_has_are_read_in_linear_time(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        nodes = [("  %0(a) = Load(%para1_weight)", "Default/Load-op0")]
        nodes += [
            (f"  %{node}(a) = PrimFunc_Add(%{node - 1}, I64(1))", f"Default/Add-op{node}") for node in range(1, count)
        ]
        text = printed((*nodes, (f"  Return(%{count - 1})", "")))
        start = time.process_time()
        assert len(of_text(tmp_path, text)) == count + 1
        return time.process_time() - start

    assert seconds(20_000) < 40 * max(seconds(2_000), 0.01)


@pytest.mark.parametrize(
    ("source", "expected"), [(SOURCE, {1}), (SOURCE[:1], set()), (SOURCE[::-1], set()), ((), set())]
)
def test_a_kernel_that_a_function_of_mindspore_calls_is_known_as_such(
    tmp_path: Path, source: tuple[str, ...], expected: set[int]
) -> None:
    """By the innermost call; nodes that are launched nowhere are none."""
    graph = of_text(tmp_path, printed(sources={1: source, 4: SOURCE}))
    launch_graph.write(graph, tmp_path / "kept")
    assert graph.of_function == launch_graph.read(tmp_path / "kept").of_function == expected


def test_a_file_gives_back_what_was_written_in_the_same_bytes(tmp_path: Path) -> None:
    graph = launch_graph.read(KEPT)
    launch_graph.write(graph, tmp_path / "one")
    launch_graph.write(launch_graph.read(tmp_path / "one"), tmp_path / "two")
    assert same(graph, launch_graph.read(tmp_path / "two"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


SMALL: dict[str, object] = {
    "form": 1,
    "name": [0],
    "primitive": [1],
    "inputs": [[]],
    "item": [-1],
    "unique": [0],
    "forward_unique": [0],
    "fused": [None],
    "end": 0,
    "texts": ["", "Return"],
}


def packed(columns: dict[str, object]) -> bytes:
    return gzip.compress(json.dumps(columns).encode(), mtime=0)


def test_the_smallest_graph_is_read(tmp_path: Path) -> None:
    (tmp_path / "graph").write_bytes(packed(SMALL))
    assert len(launch_graph.read(tmp_path / "graph")) == 1


WRONG: tuple[dict[str, object], ...] = (
    {"form": 0},
    {"name": 7},
    {"name": [2]},
    {"name": [True]},
    {"name": [0, 0]},
    {"name": [0.0]},
    {"primitive": [0]},
    {"inputs": [[1]]},
    {"inputs": [[-2]]},
    {"inputs": [7]},
    {"inputs": []},
    {"inputs": [[], []]},
    {"item": [10**30]},
    {"item": ["0"]},
    {"unique": None},
    {"fused": [-1]},
    {"fused": [None, None]},
    {"end": 1},
    {"end": -1},
    {"end": None},
    {"texts": ["", 7]},
    {"texts": "ab"},
)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not compressed",
        KEPT.read_bytes()[:-9],
        KEPT.read_bytes() + b"more",
        gzip.compress(b"[]", mtime=0),
        gzip.compress(b"{}", mtime=0),
        gzip.compress(b"\xff", mtime=0),
        gzip.compress(b"[" * 200_000, mtime=0),
        *(packed({**SMALL, **change}) for change in WRONG),
        packed({name: value for name, value in SMALL.items() if name != "name"}),
    ],
    ids=lambda data: f"{len(data)}_bytes",
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "graph").write_bytes(data)
    assert refused(lambda: launch_graph.read(tmp_path / "graph")).rule == "trace-garbled"


def test_a_graph_that_is_too_large_to_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = launch_graph.read(KEPT)
    monkeypatch.setattr(launch_graph, "MAX_NODES", len(graph) - 1)
    with pytest.raises(ValueError, match="too large"):
        launch_graph.write(graph, tmp_path / "graph")
    assert not list(tmp_path.iterdir())


def test_a_file_that_unpacks_to_more_than_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_graph, "MAX_DOCUMENT_BYTES", 60_000)
    assert KEPT.stat().st_size < 60_000
    assert refused(lambda: launch_graph.read(KEPT)).rule == "trace-garbled"


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing"):
        assert refused(lambda name=name: launch_graph.read(tmp_path / name)).rule == "file-not-found"  # type: ignore[misc]


def test_a_trace_has_the_graph_that_is_kept_beside_it(tmp_path: Path) -> None:
    for file in (TRACES / "llama_l2_none").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert trace_folder.read(tmp_path, 0).launch_graph is None
    launch_graph.copy(KEPT.parent, tmp_path)
    graph = trace_folder.read(tmp_path, 0).launch_graph
    assert graph is not None
    assert same(graph, launch_graph.read(KEPT))
    (tmp_path / launch_graph.FILE).write_bytes(b"damage")
    trace = trace_folder.read(tmp_path, 0)
    assert refused(lambda: trace.launch_graph).origin.file == str(tmp_path / launch_graph.FILE)
    launch_graph.copy(TRACES, tmp_path)
    assert not (tmp_path / launch_graph.FILE).exists()
