"""What-if in MindSpore's own order with fused kernels (jit_level O1): against true dry runs, and rule by rule.

Each folder of `tests/traces/fused_in_order` holds the trace of a run without swap and recompute (MindSpore 2.9.0, level
1) with its graph and what is inside its fused kernels, and of true runs with a strategy the peaks, the copies, and the
hash of their launches, as `told` tells them, but for experts, of which the order is not exact yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from swapconf.trace.launch_graph import NO_NODE
from swapconf.trace.launch_order import launched, reproduces
from swapconf.upstream.primitives import CAST, VIEWS
from swapconf.whatif.graph.asked import Asked, Part
from swapconf.whatif.graph.gates import Gates
from swapconf.whatif.graph.memory import lives
from swapconf.whatif.graph.nodes import MOVE
from swapconf.whatif.graph.predict import GraphedBaseline
from swapconf.whatif.graph.strategy_graph import StrategyGraph, strategy_graph, unchanged
from swapconf.whatif.placed import placed
from swapconf.whatif.predict import predict, schedule
from swapconf.whatif.prepare import prepare
from swapconf.whatif.unfused import unfused
from tests.helpers import TRACES, packed, study_of
from tests.unit.test_whatif_in_order import strategy

FOLDERS = sorted((TRACES / "fused_in_order").iterdir())
RUNS = [
    pytest.param(folder, run, id=f"{folder.name}-{number}")
    for folder in FOLDERS
    for number, run in enumerate(json.loads((folder / "strategies.json").read_text()))
]
UNORDERED = {f"{family}-{number}" for family in ("deepseek_v3", "qwen3_moe") for number in range(3)}  # experts
UNORDERED.add("llama_casts_kept-0")  # nine launches too many, of casts
UNORDERED.add("qwen3_gathered_behind_a_view-2")  # tables that queries and keys make again, each for itself
CLOSE = 0.0005  # as a share of the true peak
CONSTANTS = 16 * 512  # of a model whose peak is 4.5 MB


@cache
def graphed(folder: Path) -> GraphedBaseline:
    trace = unfused(packed(folder))
    network = study_of(folder / "model.yaml").network
    assert network is not None
    return GraphedBaseline.of(placed(prepare(trace), network), trace.launch_graph)


def asked_of(folder: Path, run: Mapping[str, Any]) -> StrategyGraph:
    baseline = graphed(folder)
    assert baseline.run is not None
    plan = schedule(baseline.prepared, strategy(folder, run))
    return strategy_graph(Asked(prepared=baseline.prepared, run=baseline.run, plan=plan))


def operators(graph: StrategyGraph) -> list[list[int]]:
    """Of each launch."""
    found: list[list[int]] = []
    cluster = graph.nodes.cluster
    for node in lives(graph).order:
        if found and cluster[node] != NO_NODE and cluster[node] == cluster[found[-1][-1]]:
            found[-1].append(node)
        else:
            found.append([node])
    return found


def told(graph: StrategyGraph) -> list[str]:
    """What each launch computes, but for views, of which MindSpore makes one or two."""
    launches = ("+".join(sorted(graph.nodes.primitive[node] for node in nodes)) for nodes in operators(graph))
    return [launch for launch in launches if launch not in VIEWS]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_graph_of_operators_is_launched_as_the_run_was(folder: Path) -> None:
    """Launch for launch, with one node for each fused kernel."""
    whole = packed(folder)
    graph, opened = whole.launch_graph, unfused(whole)
    assert graph is not None
    assert opened.launch_graph is not None
    assert reproduces(graph, whole.kernels)
    assert reproduces(opened.launch_graph, opened.kernels)
    assert len(opened.launch_graph) > len(graph)
    alone = replace(opened.launch_graph, cluster=(), given=())
    assert launched(alone) != launched(opened.launch_graph)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_run_itself_is_predicted_to_the_byte(folder: Path) -> None:
    baseline = graphed(folder)
    without = {"swap_config": {"swap": False}, "recompute_config": {"recompute": False}}
    assert baseline.run is not None
    found = baseline.predict(strategy(folder, without))
    assert found.used_peak_bytes == baseline.prepared.baseline.blocks.used_peak_bytes
    assert told(unchanged(baseline.run)) == told(asked_of(folder, without))


@pytest.mark.parametrize(("folder", "run"), [one for one in RUNS if one.id not in UNORDERED])
def test_another_run_is_launched_in_its_order(folder: Path, run: Mapping[str, Any]) -> None:
    found = "\n".join(told(asked_of(folder, run)))
    assert hashlib.sha256(found.encode()).hexdigest() == run["launches"]


@pytest.mark.parametrize(("folder", "run"), RUNS)
def test_another_run_is_predicted(folder: Path, run: Mapping[str, Any]) -> None:
    asked = strategy(folder, run)
    found = graphed(folder).predict(asked)
    assert found.used_peak_bytes == pytest.approx(run["used_peak_bytes"], rel=CLOSE, abs=CONSTANTS)
    assert len(found.moves) // found.steps == run["moves"]
    assert (found.moves.host.peak_bytes if len(found.moves) else 0) == run["host_peak_bytes"]
    assert graphed(folder).safe_peak_bytes(asked, found) >= run["used_peak_bytes"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_casts_that_are_launched_alone_have_the_cells_that_they_lost(folder: Path) -> None:
    trace = packed(folder)
    closed, opened = ({kernel.name for kernel in one.step} for one in (trace, trace.opened.trace))
    lost = [name for name in closed if name.startswith("Default/Cast-op")]
    assert len([name for name in lost if name in opened]) < len(lost) / 4


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_weight_that_a_fused_kernel_writes_keeps_its_name(folder: Path) -> None:
    trace = packed(folder)
    closed, opened = ([block.node for block in one.blocks if block.kind == "Weight"] for one in (trace, unfused(trace)))
    assert opened == closed


def test_what_runs_again_is_fused_with_the_gradient_that_reads_it() -> None:
    """A recomputed product of the network of Qwen3, with that of its gradient; other copies are fused as before."""
    run, _ = json.loads((TRACES / "fused_in_order/qwen3/strategies.json").read_text())
    graph = asked_of(TRACES / "fused_in_order/qwen3", run)
    kinds = [{node in graph.again for node in nodes} for nodes in operators(graph)]
    mixed = [nodes for nodes, kind in zip(operators(graph), kinds, strict=True) if len(kind) > 1]
    assert [sorted(graph.nodes.primitive[node] for node in nodes) for nodes in mixed] == [["Mul", "Mul", "SiLU"]] * 2
    assert sum(len(nodes) > 1 and kind == {True} for nodes, kind in zip(operators(graph), kinds, strict=True)) > 4


def test_what_a_reader_waits_for_parts_the_kernel_of_both() -> None:
    """The network of Qwen3 multiplies what its activation makes in one kernel, but for the layer whose activation is
    copied to the host: the product waits for that."""
    _, run = json.loads((TRACES / "fused_in_order/qwen3/strategies.json").read_text())
    baseline = graphed(TRACES / "fused_in_order/qwen3").run
    assert baseline is not None
    before, now = told(unchanged(baseline)), told(asked_of(TRACES / "fused_in_order/qwen3", run))
    assert (before.count("Mul+SiLU"), before.count("SiLU")) == (4, 0)
    assert (now.count("Mul+SiLU"), now.count("SiLU")) == (2, 2)
    assert now.count(MOVE) == 112


def test_what_no_gradient_reads_any_more_is_fused_with_what_reads_it() -> None:
    """The denominator of the scores of experts whose network runs again: in the forward pass with each of both
    divisions, in two layers and two micro-batches. No kernel goes on behind a sum, but for casts."""
    folder = TRACES / "fused_in_order/deepseek_v3"
    baseline, run = graphed(folder).run, json.loads((folder / "strategies.json").read_text())[2]
    assert baseline is not None
    graph = asked_of(folder, run)
    before, now = told(unchanged(baseline)), told(graph)
    for product in ("Div+Mul", "Div+ReduceSum"):
        assert (before.count(product), now.count(product)) == (4, 0)
        assert (before.count(f"AddExt+{product}"), now.count(f"AddExt+{product}")) == (0, 4)
    sums = {node for node, primitive in enumerate(graph.nodes.primitive) if primitive in {"ReduceSum", "SumExt"}}
    for nodes in operators(graph):
        going_on = (node for node in nodes if graph.nodes.primitive[node] != CAST)
        assert sums.intersection(nodes).isdisjoint(given for node in going_on for given in graph.nodes.inputs[node])


def test_a_cast_that_fusion_puts_behind_a_sum_is_no_operator() -> None:
    """It rounds what is summed of the experts; no strategy marks it, whatever casts the layer has besides."""
    baseline = graphed(TRACES / "fused_in_order/deepseek_v3")
    kernels, sites = baseline.prepared.baseline.kernels, baseline.prepared.sites
    behind, read = baseline.prepared.baseline.edges
    rounds = (kernels.primitives == "Cast") & ~kernels.is_fused & kernels.is_lost
    sums = kernels.is_fused & (kernels.primitives == "ReduceSum") & (kernels.passing >= 0)
    found = behind[rounds[behind] & sums[read]]
    assert len(found)
    assert (sites.of_node[found] == -1).all()


def test_what_is_handed_on_inside_a_fused_kernel_takes_no_memory() -> None:
    """What runs again, and is joined with its reader, takes none, although it does in the forward pass."""
    run, _ = json.loads((TRACES / "fused_in_order/qwen3/strategies.json").read_text())
    graph = asked_of(TRACES / "fused_in_order/qwen3", run)
    found, blocks = lives(graph), graph.run.baseline.blocks
    without = [made for made, size in zip(found.made, found.size_bytes, strict=True) if size == 0]
    joined = [made for made in without if blocks.size_bytes[made.row] > 0]
    assert [graph.nodes.primitive[made.node] for made in joined] == ["SiLU"] * 2
    assert all(made.node in graph.again for made in joined)
    assert len(without) > len(joined)


def test_all_that_a_recomputed_layer_does_with_what_it_is_given_waits_for_the_copy() -> None:
    """MindSpore hands it to the call of the layer, so its norm is not fused with the sum of the layer in front."""
    recompute = {"recompute": [1], "select_recompute": False, "mp_comm_recompute": True}
    swap = {"swap": True, "layer_swap": [{"backward_prefetch": 1, "layers": [0]}]}
    graph = asked_of(TRACES / "fused_in_order/deepseek_v3", {"swap_config": swap, "recompute_config": recompute})
    nodes, kernels = graph.nodes, graph.run.baseline.kernels
    waiting = []
    for copy in graph.out:
        value = nodes.inputs[copy][0]
        kernel = graph.run.kernel_of.get(value, -1)
        if kernel >= 0 and kernels.primitive[kernel] == "AddExt" and not kernels.cell[kernel]:
            ties = [tie for tie in range(len(nodes)) if nodes.inputs[tie][:2] == [value, copy]]
            waiting.append([nodes.primitive[node] for node in range(len(nodes)) if {*ties} & {*nodes.inputs[node]}])
    assert waiting == [["Cast", "AddExt"]] * 2


def test_the_view_in_place_of_a_product_with_1_moves_where_no_layer_scales_it_again() -> None:
    """In a layer that does, it is not copied (89748654:9: one layer recomputed, others swapped)."""
    prepared = graphed(TRACES / "fused_in_order" / "qwen3_gathered_behind_a_view").prepared
    sites, baseline = prepared.sites, prepared.baseline
    again = np.zeros(len(sites.names) + 1, dtype=np.bool_)
    assert len(sites.scaled) == baseline.steps
    for view, scaling in sites.scaled:
        assert sites.names[scaling[0]] == ("0", "self_attention.apply_rotary_pos_emb.mul_mscale")
        assert sites.under(baseline, again, again & False).of_moved[view] == scaling[0]
    again[sites.scaled[0][1][-1]] = True
    assert all(sites.under(baseline, again, again & False).of_moved[view] == -1 for view, _ in sites.scaled)


@pytest.mark.parametrize(("prefetch", "used_peak_bytes"), [(332, None), (430, 116_162_048)])
def test_a_prefetch_that_reaches_back_before_the_step_does_so_in_launches(
    prefetch: int, used_peak_bytes: int | None
) -> None:
    """SIGSEGV with 332, this peak with 430; counted in operators it is the other way round."""
    folder = TRACES / "fused_in_order" / "llama"
    swap = {"swap": True, "layer_swap": [{"backward_prefetch": prefetch, "layers": [0]}]}
    asked = strategy(folder, {"swap_config": swap, "recompute_config": {"recompute": False}})
    baseline = graphed(folder)
    found = baseline.predict(asked)
    assert found.crashes is bool(found.moves.underflows.any()) is (used_peak_bytes is None)
    assert found.crashes or found.used_peak_bytes == pytest.approx(used_peak_bytes, rel=CLOSE)
    assert predict(baseline.prepared, asked).crashes is not found.crashes


def test_a_reshape_between_two_others_is_the_reduction_that_it_was() -> None:
    """Of the shares of tokens that a router's loss averages over one rank."""
    prepared = graphed(TRACES / "fused_in_order/deepseek_v3").prepared
    sites, kernels = prepared.sites, prepared.baseline.kernels
    shown = [
        (kernels.primitive[node], sites.names[site][0])
        for node, site in enumerate(sites.of_node)
        if site >= 0 and sites.names[site][1] == "mlp.router.reduce_mean_sp"
    ]
    assert set(shown) == {("Reshape", "1"), ("Reshape", "2")}


def test_a_recomputed_layer_has_a_view_of_its_own_in_place_of_a_product_with_1() -> None:
    """In front of its tables, of what it is given (89748654:24)."""
    folder = TRACES / "fused_in_order" / "qwen3_gathered_behind_a_view"
    graph = asked_of(folder, {"swap_config": {"swap": False}, "recompute_config": {"recompute": [1]}})
    tables = [node for node in graph.again if graph.nodes.primitive[node] in ("Cos", "Sin")]
    read = [graph.nodes.inputs[table][0] for table in tables]
    assert tables
    assert {graph.nodes.primitive[view] for view in read} == {"Reshape"}
    assert min(read) >= graph.nodes.count


@pytest.mark.parametrize("is_rounded", [True, False])
def test_what_fusion_rounds_a_sum_to_is_what_a_recomputed_layer_leaves(is_rounded: bool) -> None:
    """Of the last sum over experts (0), which a Cast (1) rounds for the next layer (2): that Cast has no gradient."""
    kernels = SimpleNamespace(backward=[False] * 3, passing=[7, 7, 8], primitive=["ReduceSum", "Cast", "AddExt"])
    baseline = SimpleNamespace(kernels=kernels, followers=lambda node: [[1], [2], []][node])
    prepared = SimpleNamespace(baseline=baseline, rounding=frozenset({1} if is_rounded else ()))
    gates = object.__new__(Gates)
    gates.__dict__.update(
        asked=SimpleNamespace(prepared=prepared, baseline=baseline, is_under=lambda cell, node: node < 2)
    )
    assert gates._is_output(0, Part(7, 0)) is is_rounded


def test_what_changes_the_layout_of_what_tables_read_is_parted_with_them() -> None:
    """Of layers of one pass, one of which moves its tables: a true Qwen3 (random strategies, seed 34055107) has two."""
    folder, recompute = TRACES / "fused_in_order" / "qwen3", {"recompute": False, "select_recompute": False}
    one_layer = {"swap": True, "layer_swap": [{"backward_prefetch": 3, "layers": [3]}]}
    baseline, graph = graphed(folder).run, asked_of(folder, {"swap_config": one_layer, "recompute_config": recompute})
    assert baseline is not None
    tables = [node for node in baseline.node_of if baseline.graph.primitive[node] in ("Sin", "Cos")]
    (before,) = {baseline.graph.inputs[node][0] for node in tables} & baseline.kernel_of.keys()
    nodes = graph.nodes
    read = {nodes.inputs[node][0] for node in lives(graph).order if nodes.primitive[node] in ("Sin", "Cos")}
    views = {node for node in read if nodes.name[node] == nodes.name[before]}
    assert len(views) == 2
    assert len({tuple(nodes.inputs[node]) for node in views}) == 1
