"""The pass that chooses what is fused (jit_level O1), against what MindSpore 2.9.0 chose on the same graphs.

`tests/traces/clusters` has, of four true dry runs, each func graph as MindSpore printed it before the pass
(``stage1_cluster_3``, without what it tells of source files and layouts), and the clusters that it printed behind it
(``--dump_as_text``): by graph the names of the nodes of each.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from swapconf.trace import func_graph_text
from swapconf.trace.func_graph_text import Argument, FuncGraph, FuncNode, Kind
from swapconf.trace.tensor import Tensor
from swapconf.upstream.clustered import clustered
from swapconf.whatif.passes.cluster import can_be_clustered, clusters
from tests.helpers import TRACES

FOLDER = TRACES / "clusters"
NAMES = tuple(path.name.removesuffix(".tar.xz") for path in sorted(FOLDER.glob("*.tar.xz")))
KNOWN = clustered("2.9.0") or frozenset()
F32 = Tensor("Float32", (8, 4))

Chosen = dict[str, Counter[tuple[str, ...]]]


@cache
def recorded(name: str) -> tuple[dict[str, FuncGraph], Chosen]:
    """By graph what it was before the pass, and its clusters."""
    with TemporaryDirectory() as place, tarfile.open(FOLDER / f"{name}.tar.xz") as files:
        graphs = {}
        for member in files.getmembers():
            content = files.extractfile(member)
            assert content is not None
            (Path(place) / member.name).write_bytes(content.read())
            if member.name.endswith(".ir"):
                found = func_graph_text.read(Path(place) / member.name)
                graphs[found.entry] = found.graphs[found.entry]
        chosen = json.loads((Path(place) / "clusters.json").read_text())
    return graphs, {graph: Counter(tuple(sorted(names)) for names in those) for graph, those in chosen.items()}


def found(name: str) -> Chosen:
    made = {}
    for entry, graph in recorded(name)[0].items():
        named = (tuple(sorted(graph.nodes[node].name for node in cluster)) for cluster in clusters(graph, KNOWN))
        made[entry] = Counter(named)
    return {entry: those for entry, those in made.items() if those}


@pytest.mark.parametrize("name", NAMES)
def test_each_cluster_is_the_one_that_mindspore_chose(name: str) -> None:
    chosen = recorded(name)[1]
    assert sum(those.total() for those in chosen.values()) > 200
    assert found(name) == chosen


def primitives(name: str) -> dict[str, Counter[tuple[str, ...]]]:
    """What is in each cluster, as two runs name a gradient of several operators after different ones."""
    return {
        entry: Counter(
            tuple(sorted(graph.nodes[node].primitive for node in cluster)) for cluster in clusters(graph, KNOWN)
        )
        for entry, graph in recorded(name)[0].items()
    }


def test_a_swap_changes_no_cluster() -> None:
    assert primitives("llama_swap") == primitives("llama")


def test_a_recompute_adds_copies_of_forward_clusters_to_the_backward_pass() -> None:
    plain, again = primitives("llama"), primitives("llama_recompute")
    changed = [entry for entry in plain if plain[entry] != again[entry]]
    assert len(changed) == 1
    assert again[changed[0]].total() - plain[changed[0]].total() == 12


def test_of_another_release_the_list_is_not_known() -> None:
    assert clustered("2.10.0") is None
    assert clustered("") is None


def node(primitive: str, *given: int, dtype: str = "Float32", **attributes: str) -> FuncNode:
    """Reads nodes by number; -1 is a parameter."""
    return FuncNode(
        name=primitive,
        primitive=primitive,
        callee="",
        arguments=tuple(Argument(Kind.NODE, item) if item >= 0 else Argument(Kind.PARAMETER, 0) for item in given),
        attributes=attributes,
        given=(F32,) * len(given),
        made=(Tensor(dtype, (8, 4)),),
    )


def of(*nodes: FuncNode) -> set[frozenset[int]]:
    end = node("Return", len(nodes) - 1)
    return set(clusters(FuncGraph(name="g", parameters=("p",), nodes=(*nodes, end)), KNOWN))


def test_what_would_wait_for_itself_is_left_out() -> None:
    """Mul is read by a MatMul whose result Add adds to it."""
    assert of(node("Mul", -1), node("MatMul", 0, -1), node("Add", 0, 1)) == {frozenset({0}), frozenset({2})}
    assert of(node("Mul", -1), node("MatMul", -1, -1), node("Add", 0, 1)) == {frozenset({0, 2})}


def test_no_cluster_waits_for_itself_by_way_of_another_one() -> None:
    """The first and the last node are one kernel, which waits for the Reshape of what the Sub makes; so the Neg, which
    needs the first one, is no part of the kernel of that."""
    nodes = (
        node("Mul", -1),  # 0
        node("MatMul", 0, -1),
        node("Reshape", 1),
        node("Neg", 2),
        node("Exp", -1),  # 4
        node("Add", 3, 4),
        node("Sub", 4, -1),
        node("Reshape", 6),
        node("Mul", 7, 0),  # 8
        node("MatMul", 5, 8),
    )
    assert of(*nodes) == {frozenset({0, 8}), frozenset({3, 5}), frozenset({4, 6})}


def test_nodes_that_nothing_needs_are_in_no_cluster() -> None:
    assert of(node("Mul", -1), node("MatMul", -1, -1)) == set()


@pytest.mark.parametrize(
    ("asked", "can"),
    [
        (node("Add", -1), True),
        (node("MatMul", -1, -1), False),
        (node("Add", -1, dtype="Int64"), False),
        (node("Cast", -1, dtype="Int64"), False),
        (node("Cast", -1, dtype="BFloat16"), True),
        (node("Transpose", -1, dtype="BFloat16"), False),
        (node("Equal", -1, -1, dtype="Bool"), True),
        (node("Add", -1, skip="Bool(1)"), False),
        (node("Add", -1, primitive_target="CPU"), False),
        (node("Add", -1, inplace_group="I64(1)"), False),
    ],
)
def test_what_can_be_clustered_follows_from_primitive_types_and_attributes(asked: FuncNode, can: bool) -> None:
    assert can_be_clustered(asked, KNOWN) is can
