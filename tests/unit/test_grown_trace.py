"""What a folded run leaves in ``--keep DIR``: a trace of the whole model, which every command tells as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.dryrun.child import Ran
from swapconf.dryrun.fold import folded as module
from swapconf.dryrun.fold import grown_trace
from swapconf.dryrun.fold.folded import dry_run
from swapconf.dryrun.fold.micro_batches import micro_batches
from swapconf.dryrun.growing.layers import layer_in
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.memory import addresses
from swapconf.memory.allocators import mindspore
from swapconf.study.study import Study
from swapconf.trace import grown_trace_writer, launch_graph, run_record, trace_folder
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.launch_order import reproduces
from swapconf.trace.trace import Trace, WorkerLog
from tests.helpers import TRACES, packed
from tests.unit.test_folding import document
from tests.unit.toy_graph import toy_graph
from tests.unit.toy_steps import toy

NONE = {"swap_config.swap": False}


def _put_toy(
    patch: pytest.MonkeyPatch,
    spoiled: list[int],
    trace_of: Callable[[int, int], Trace] = toy,
    graph_of: Callable[[int], LaunchGraph] | None = None,
) -> None:
    """A toy of MindSpore in the child's place. Its last launch does something else with each of these numbers of
    layers. ``graph_of``: the graph that it leaves, by layers."""

    def run(order: RankOrder, study: Study, part: str = "") -> Ran:
        layers = study.config.model.num_layers or 0
        if order.keep is not None:
            (order.keep / "rank_0" / part).mkdir(parents=True, exist_ok=True)
            if graph_of is not None:
                launch_graph.write(graph_of(layers), order.keep / "rank_0" / part / launch_graph.FILE)
        trace = trace_of(layers, micro_batches(order.document, study.config.pipeline).count)
        report = RankReport(
            file=order.document.file, rank=order.rank, stage=0, level=order.level, outcome=RankOutcome.COMPLETED
        )
        return Ran(
            report=report,
            log=WorkerLog(),
            reserved_bytes=2 << 30,
            trace=_without_last(trace) if layers in spoiled else trace,
        )

    patch.setattr(module, "run", run)


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of layers with which the toy does something else; a test adds to them."""
    found: list[int] = []
    _put_toy(monkeypatch, found)
    return found


def _without_last(trace: Trace) -> Trace:
    """One stream more."""
    return replace(
        trace,
        kernels=tuple(
            replace(kernel, stream=7) if kernel.name == trace.kernels[-1].name else kernel for kernel in trace.kernels
        ),
    )


def order(keep: Path, settings: dict[str, Any] | None = None, layers: int = 16) -> RankOrder:
    return RankOrder(document=document({**NONE, **(settings or {})}, layers), rank=0, fold=True, keep=keep)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a rank whose trace is grown, to be read only."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        _put_toy(patch, [])
        dry_run(order(folder))
    return folder / "rank_0"


def test_a_folded_run_leaves_a_trace_of_the_whole_model(kept: Path) -> None:
    trace = trace_folder.read(kept, 0)
    assert trace.used_peak_bytes == toy(16, 2).used_peak_bytes
    assert len(trace.kernels) == len(toy(16, 2).kernels)


def _recorded(layers: int, count: int) -> Trace:
    assert count == 2
    return packed(TRACES / "growing" / f"layers_{layers}")


def _recorded_graph(layers: int) -> LaunchGraph:
    graph = _recorded(layers, 2).launch_graph
    assert graph is not None
    return graph


def test_a_graph_that_is_grown_is_kept_with_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put_toy(monkeypatch, [], _recorded, _recorded_graph)
    report = dry_run(order(tmp_path))
    assert report.grown == "grown from dry runs of 4 and 6 layers"
    assert "graph was not grown" not in report.fold_note
    trace = trace_folder.read(tmp_path / "rank_0", 0)
    assert trace.launch_graph is not None
    assert reproduces(trace.launch_graph, trace.kernels)
    assert {layer_in(name) for name in trace.launch_graph.name} - {-1} == set(range(16))


def test_why_a_graph_is_not_grown_is_told_and_the_trace_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put_toy(monkeypatch, [], graph_of=lambda layers: toy_graph(range(layers), 2))
    report = dry_run(order(tmp_path, layers=18))
    assert report.grown == "grown from dry runs of 4 and 6 layers"
    assert (
        "; MindSpore's graph was not grown with the trace: the repeated graph does not have the kernels of the "
        "repeated step" in report.fold_note
    )
    assert trace_folder.read(tmp_path / "rank_0", 0).launch_graph is None


def test_a_few_layers_are_run_for_a_graph_that_is_not_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of GLM-4-9B, of which the middle stages take what they saved in a way that alternates with the layers."""
    _put_toy(monkeypatch, [], graph_of=lambda layers: toy_graph(range(layers), 2))
    report = dry_run(order(tmp_path))
    assert report.grown == "the trace of a dry run with all layers"
    assert "graph was not grown" not in report.fold_note
    trace = trace_folder.read(tmp_path / "rank_0", 0)
    assert trace.used_peak_bytes == toy(16, 2).used_peak_bytes
    assert trace.launch_graph is not None
    assert {layer_in(name) for name in trace.launch_graph.name} - {-1} == set(range(16))


def test_the_record_tells_from_what_the_trace_was_grown(kept: Path) -> None:
    found = run_record.report(kept)
    assert run_record.grown(found) == "grown from dry runs of 4 and 6 layers"
    assert str(run_record.origin(found)).endswith(
        "(fragments are those of a grown trace), grown from dry runs of 4 and 6 layers"
    )
    assert run_record.read(kept)["grown"] == {
        "layers": [4, 6],
        "of_layers": 16,
        "micro_batches": 2,
        "of_micro_batches": 2,
        "used_peak_bytes_of_a_micro_batch": 0,
    }


def test_micro_batches_that_the_trace_does_not_have_are_told_with_what_each_adds(
    spoiled: list[int], tmp_path: Path
) -> None:
    report = dry_run(order(tmp_path, {"runner_config.gradient_accumulation_steps": 64}, layers=40))
    facts = run_record.read(tmp_path / "rank_0")["grown"]
    assert facts["of_micro_batches"] == 64 > facts["micro_batches"]
    assert f"with {facts['micro_batches']} of 64 micro-batches in its step (each more adds" in report.grown
    assert trace_folder.read(tmp_path / "rank_0", 0).used_peak_bytes == toy(40, facts["micro_batches"]).used_peak_bytes


def test_where_no_trace_can_be_grown_the_reason_is_told_and_an_older_one_is_gone(
    spoiled: list[int], tmp_path: Path
) -> None:
    dry_run(order(tmp_path, layers=40))
    spoiled.extend([6, 10])
    report = dry_run(order(tmp_path, layers=40))
    assert report.grown == ""
    assert (
        "no trace of the whole model was made of it: the step with more layers is not that with fewer"
        in report.fold_note
    )
    assert not (tmp_path / "rank_0" / "memory_block.csv").exists()


def test_where_no_trace_can_be_grown_one_with_all_layers_is_made_if_these_are_not_many(
    spoiled: list[int], tmp_path: Path
) -> None:
    spoiled.extend([6, 10])
    report = dry_run(order(tmp_path, {"runner_config.gradient_accumulation_steps": 64}))
    assert report.grown.startswith("the trace of a dry run with all layers, with ")
    facts = run_record.read(tmp_path / "rank_0")["grown"]
    assert facts["layers"] == [16]
    trace, truth = trace_folder.read(tmp_path / "rank_0", 0), toy(16, facts["micro_batches"])
    assert [kernel.name for kernel in trace.kernels] == [kernel.name for kernel in truth.kernels]
    assert trace.used_peak_bytes == truth.used_peak_bytes
    assert "(fragments are those of a grown trace)" in report.fold_note


def test_where_the_smallest_runs_do_not_show_what_repeats_itself_larger_ones_are_made(
    spoiled: list[int], tmp_path: Path
) -> None:
    spoiled.append(4)
    report = dry_run(order(tmp_path))
    assert report.grown == "grown from dry runs of 6 and 8 layers"
    assert trace_folder.read(tmp_path / "rank_0", 0).used_peak_bytes == toy(16, 2).used_peak_bytes


def test_where_the_order_alternates_with_the_layers_runs_differ_by_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of the last stages of Qwen3-MoE; each run has a layer of the other stage, too."""
    _put_toy(monkeypatch, [4, 6], lambda layers, count: toy(layers - 1, count))
    stages = {"parallel_config.pipeline_stage": 2, "parallel_config.micro_batch_num": 2}
    report = dry_run(order(tmp_path, stages, layers=40))
    assert report.grown == "grown from dry runs of 4 and 6 layers"
    assert not (tmp_path / "rank_0" / "layers_5").exists()
    assert trace_folder.read(tmp_path / "rank_0", 0).used_peak_bytes == toy(20, 2).used_peak_bytes


def test_a_trace_is_grown_from_the_third_run_that_a_far_prefetch_asks_for(spoiled: list[int], tmp_path: Path) -> None:
    far = {"swap_config.swap": True, "swap_config.layer_swap": [{"layers": [*range(16)], "backward_prefetch": 100}]}
    report = dry_run(order(tmp_path, far))
    assert "confirmed with 8 layers because a prefetch reaches over several layers" in report.fold_note
    assert report.grown == "grown from dry runs of 6 and 8 layers"
    trace, truth = trace_folder.read(tmp_path / "rank_0", 0), toy(16, 2)
    assert trace.used_peak_bytes == truth.used_peak_bytes
    assert trace.with_fragments_peak_bytes == report.with_fragments_peak_bytes


def test_without_keep_no_run_is_made_for_a_trace_alone(spoiled: list[int], tmp_path: Path) -> None:
    spoiled.append(4)
    report = dry_run(replace(order(tmp_path), keep=None))
    assert "(fragments are estimated)" in report.fold_note


@pytest.mark.parametrize("is_kept", [True, False])
def test_fragments_of_a_folded_run_are_those_of_the_grown_trace_and_say_so(
    spoiled: list[int], tmp_path: Path, is_kept: bool
) -> None:
    asked = order(tmp_path)
    report = dry_run(asked if is_kept else replace(asked, keep=None))
    dry_run(asked)
    trace = trace_folder.read(tmp_path / "rank_0", 0)
    assert report.with_fragments_peak_bytes == trace.with_fragments_peak_bytes
    assert "(fragments are those of a grown trace)" in report.fold_note


@pytest.mark.parametrize("recomputed", [16, 20])
def test_two_rows_of_layers_are_grown_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recomputed: int
) -> None:
    """With 20 of 40 both rows lack equally many layers, and two runs more are made for the trace."""
    ran: list[tuple[int, int]] = []

    def run(order: RankOrder, study: Study, part: str = "") -> Ran:
        (tmp_path / "rank_0" / part).mkdir(parents=True, exist_ok=True)
        assert study.strategy is not None
        plans = [entry.plan.actions() for entry in study.strategy.layers]
        first = plans.index(plans[-1])
        ran.append((first, len(plans) - first))
        report = RankReport(
            file=order.document.file, rank=order.rank, stage=0, level=order.level, outcome=RankOutcome.COMPLETED
        )
        trace = toy(len(plans), longer=first)
        return Ran(report=report, log=WorkerLog(), trace=trace, reserved_bytes=2 << 30)

    monkeypatch.setattr(module, "run", run)
    report = dry_run(order(tmp_path, {"recompute_config.recompute": [recomputed]}, 40))
    assert "no trace of the whole model" not in report.fold_note
    assert report.grown == "grown from dry runs of 4 + 4 and 6 + 4 and 4 + 6 and 6 + 6 layers"
    truth = toy(40, longer=recomputed)
    trace = trace_folder.read(tmp_path / "rank_0", 0)
    assert trace.used_peak_bytes == truth.used_peak_bytes
    assert [kernel.primitive for kernel in trace.kernels] == [kernel.primitive for kernel in truth.kernels]
    assert sorted(trace.blocks.size_bytes) == sorted(truth.blocks.size_bytes)
    assert {(4, 4), (6, 4), (4, 6), (6, 6)} <= {*ran}


@pytest.mark.parametrize(
    ("settings", "layers", "is_placed", "outcome"),
    [
        ({}, 16, True, RankOutcome.DOES_NOT_FIT),
        ({}, 16, False, RankOutcome.COMPLETED),  # what the pool does is not known where its rules do not hold
        ({"runner_config.gradient_accumulation_steps": 64}, 40, True, RankOutcome.COMPLETED),  # those it lacks add some
    ],
)
def test_fragments_of_a_grown_trace_refuse_a_rank_as_those_of_a_whole_run_do(
    spoiled: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    layers: int,
    is_placed: bool,
    outcome: RankOutcome,
) -> None:
    run = module.run  # type: ignore[attr-defined]

    def with_addresses(*asked: Any) -> Ran:
        done: Ran = run(*asked)
        assert done.trace is not None
        live = addresses.unnamed(done.trace.blocks)
        blocks = addresses.with_addresses(done.trace.blocks, live, mindspore.place(live, mindspore.Pool()))
        return replace(done, trace=replace(done.trace, blocks=blocks))

    if is_placed:
        monkeypatch.setattr(module, "run", with_addresses)
    free = dry_run(order(tmp_path, settings, layers))
    assert free.with_fragments_peak_bytes is not None
    limit = free.with_fragments_peak_bytes - 1
    assert free.used_peak_bytes is not None
    assert free.used_peak_bytes <= limit
    tight = dry_run(order(tmp_path, {**settings, "context.max_device_memory": f"{limit}B"}, layers))
    assert "does-not-fit" in {finding.rule for finding in tight.findings}
    assert tight.outcome is outcome


def test_a_trace_that_cannot_be_grown_for_whatever_reason_costs_no_report(
    spoiled: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*_: object) -> Trace:
        raise KeyError("a constant of 512 bytes")

    monkeypatch.setattr(grown_trace, "with_graph", odd)
    report = dry_run(order(tmp_path))
    assert report.outcome is RankOutcome.COMPLETED
    assert "a constant of 512 bytes" in report.fold_note


def test_without_keep_nothing_is_grown(spoiled: list[int]) -> None:
    spoiled.append(6)
    report = dry_run(replace(order(Path()), keep=None))
    assert report.grown == ""
    assert "no trace" not in report.fold_note


@pytest.mark.parametrize("command", ["memory", "fragmentation", "timeline"])
def test_every_command_that_reads_the_trace_says_from_what_it_was_grown(command: str, kept: Path) -> None:
    told = CliRunner().invoke(main, [command, str(kept)])
    assert "grown from dry runs of 4 and 6 layers" in told.output
    found = json.loads(CliRunner().invoke(main, [command, str(kept), "--format", "json"]).output)
    assert "grown from dry runs of 4 and 6 layers" in json.dumps(found)


def test_a_timeline_adds_the_micro_batches_that_the_trace_does_not_have(tmp_path: Path) -> None:
    told = timeline(tmp_path, toy(4, 3), {"grown": {"micro_batches": 3, "of_micro_batches": 8}, "settings": {}})
    assert told["micro_batches"]["step_us"] == pytest.approx(timeline(tmp_path, toy(4, 8), {})["step_us"], rel=0.001)
    assert told["micro_batches"]["step_us"] > told["step_us"]
    timeline(tmp_path, toy(4, 3), {"grown": {"micro_batches": 3, "of_micro_batches": 8}})
    assert "with all 8 a step takes" in CliRunner().invoke(main, ["timeline", str(tmp_path)]).output


def timeline(folder: Path, trace: Trace, record: dict[str, Any]) -> dict[str, Any]:
    grown_trace_writer.write(trace, folder)
    (folder / run_record.FILE).write_text(json.dumps(record))
    found: dict[str, Any] = json.loads(CliRunner().invoke(main, ["timeline", str(folder), "--format", "json"]).output)
    return found


def test_a_timeline_of_all_micro_batches_adds_none(kept: Path) -> None:
    assert (
        json.loads(CliRunner().invoke(main, ["timeline", str(kept), "--format", "json"]).output)["micro_batches"]
        is None
    )


def test_micro_batches_of_an_interleaved_pipeline_are_not_added_one_by_one(tmp_path: Path) -> None:
    facts = {"grown": {"micro_batches": 6, "of_micro_batches": 64}}
    for settings, told in (({}, (6, 64)), ({"parallel": {"pipeline_config": {"pipeline_interleave": True}}}, (0, 0))):
        (tmp_path / run_record.FILE).write_text(json.dumps({**facts, "settings": settings}))
        assert run_record.micro_batches(tmp_path) == told


def test_a_comparison_says_of_a_grown_trace_that_it_is_one(kept: Path) -> None:
    told = CliRunner().invoke(main, ["compare", str(kept)]).output
    assert "grown from dry runs of 4 and 6 layers" in " ".join(told.split())


def test_a_what_if_says_that_its_baseline_was_grown(tmp_path: Path) -> None:
    for file in Path("tests/traces/llama_l2_none").glob("*.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    report = {"rank": 0, "grown": "grown from dry runs of 4 and 6 layers"}
    (tmp_path / run_record.FILE).write_text(json.dumps({"report": report}))
    words = ["whatif", str(tmp_path), "--config", "tests/traces/llama.yaml"]
    told = CliRunner().invoke(main, words).output
    assert "what-if from a dry run level 1 (operator workspace excluded), grown from dry runs of 4 and 6 layers" in told
    found = json.loads(CliRunner().invoke(main, [*words, "--format", "json"]).stdout)
    assert "grown from dry runs of 4 and 6 layers; memory in the order of launches of the run" in found["origin"]
    assert "as no run has the graph of the whole model" in found["origin"]
