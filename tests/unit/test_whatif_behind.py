"""A step that a condition parts into several graphs: what is launched behind the one that is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, RETURN, TUPLE, LaunchGraph
from swapconf.trace.launch_order import launched
from swapconf.whatif.graph.behind import let_states_wait, with_behind
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.predict import GraphedBaseline
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.prepare import prepare
from tests.helpers import AS_WRITTEN, RECORDED_WITH, TRACES, packed, study_of, study_of_values

# of the recorded graphs some that launch the same where they end with the last gradient
FOLDERS = [TRACES / "in_order" / name for name in ("llama_alone_among_replicas", "qwen3_moe_view_of_a_router")]


def baseline(folder: Path) -> PlacedBaseline:
    network = study_of(folder / "model.yaml").network
    assert network is not None
    return placed(prepare(packed(folder)), network)


def graph_of(folder: Path) -> LaunchGraph:
    graph = packed(folder).launch_graph
    assert graph is not None
    return graph


def first_part(run: RunGraph) -> LaunchGraph:
    """The graph up to the last gradient, which hands on what is read behind it."""
    graph, order = run.graph, launched(run.graph)
    last = max((node for node in run.node_of if graph.name[node].startswith("Gradients")), key=order.index)
    gone = {*order[order.index(last) + 1 :], graph.end}
    while more := {node for node, read in enumerate(graph.inputs) if not gone.isdisjoint(read)} - gone:
        gone |= more
    handed = dict.fromkeys(read for node in sorted(gone) for read in graph.inputs[node] if read != NO_NODE)
    kept = [node for node in range(len(graph)) if node not in gone]
    return with_end(graph, kept, [node for node in handed if node not in gone])


def with_end(graph: LaunchGraph, kept: Sequence[int], handed: Sequence[int]) -> LaunchGraph:
    """These nodes alone, and what they hand on."""
    place = {node: index for index, node in enumerate(kept)} | {NO_NODE: NO_NODE}
    inputs = (tuple(place[read] for read in graph.inputs[node]) for node in kept)
    return LaunchGraph(
        name=(*(graph.name[node] for node in kept), "", ""),
        primitive=(*(graph.primitive[node] for node in kept), TUPLE, RETURN),
        inputs=(*inputs, tuple(place[read] for read in handed), (len(kept),)),
        item=np.array([*graph.item[[*kept]].tolist(), NO_NODE, NO_NODE], dtype=np.int64),
        unique=(*(graph.unique[node] for node in kept), "", ""),
        forward_unique=(*(graph.forward_unique[node] for node in kept), "", ""),
        fused=(*(graph.fused[node] for node in kept), None, None),
        end=len(kept) + 1,
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_is_launched_behind_the_graph_does_not_change_what_is_predicted(folder: Path) -> None:
    prepared = baseline(folder)
    whole = GraphedBaseline.of(prepared, graph_of(folder))
    assert whole.run is not None
    parted = GraphedBaseline.of(prepared, first_part(whole.run))
    assert parted.run is not None
    assert 100 < len(parted.run.graph.behind) < parted.run.count
    assert [parted.run.graph.name[node] for node in parted.run.node_of] == [
        whole.run.graph.name[node] for node in whole.run.node_of
    ]
    for asked in json.loads((folder / "strategies.json").read_text()):
        plain = study_of(folder / "model.yaml").document.root.plain()
        assert isinstance(plain, dict)
        values = {**plain, **{key: asked[key] for key in ("swap_config", "recompute_config")}}
        strategy = study_of_values(values, versions=RECORDED_WITH, settings=AS_WRITTEN).strategy
        assert strategy is not None
        found = [each.predict(strategy) for each in (parted, whole)]
        assert found[0].order is found[1].order
        assert found[0].used_peak_bytes == found[1].used_peak_bytes


def test_a_graph_of_other_kernels_is_left_as_it_is() -> None:
    prepared, graph = baseline(FOLDERS[0]).baseline, graph_of(FOLDERS[1])
    assert with_behind(graph, prepared, launched(graph)) is graph
    assert RunGraph.of(prepared, graph) is None


@pytest.mark.parametrize(("weight", "returned", "unreturned"), [(0, 6, set()), (2, 2, {3})])
def test_a_weight_that_waits_for_a_gradient_is_returned_for_the_gradient_of_its_norm(
    weight: int, returned: int, unreturned: set[int]
) -> None:
    """0 loads the weight, 2 lets it wait for the product 1; all outputs of the norm's gradient 3 are returned."""
    inputs = ((NO_NODE,), (NO_NODE,), (0, 1), (1, weight), (3,), (3,), (4, 5), (6, 1), (7,))
    nodes = Nodes(
        LaunchGraph(
            name=("",) * len(inputs),
            primitive=(LOAD, "MatMul", DEPEND, "RmsNormGrad", ITEM, ITEM, TUPLE, TUPLE, RETURN),
            inputs=inputs,
            item=np.array([-1, -1, -1, -1, 0, 1, -1, -1, -1], dtype=np.int64),
            unique=("",) * len(inputs),
            forward_unique=("",) * len(inputs),
            fused=(None,) * len(inputs),
            end=len(inputs) - 1,
        )
    )
    assert let_states_wait(nodes) == unreturned
    assert nodes.inputs[7] == [returned, 1]
