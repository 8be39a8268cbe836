"""What-if on the golden traces: the bare training cell of a two-layer Llama, without and with swap and recompute."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.memory.memory_view import EntryTotal
from swapconf.models import own_layers
from swapconf.report.sweep_chart import chart
from swapconf.study.study import Study
from swapconf.trace.blocks import Blocks
from swapconf.trace.lifetimes import TICKS
from swapconf.trace.trace import Trace
from swapconf.upstream.primitives import VIEWS
from swapconf.upstream.scopes import in_layer
from swapconf.whatif.bound import safe_peak_bytes
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.predict import predict, schedule
from swapconf.whatif.prediction import Prediction
from swapconf.whatif.prepare import _layers, prepare
from swapconf.whatif.question import Mismatch, Question, _findings, with_prefetch
from swapconf.whatif.sweep import Point
from swapconf.words.findings import Origin, Severity
from tests.helpers import AS_WRITTEN, TRACES, golden, study_of

CONFIG = str(TRACES / "llama.yaml")
OFF = "swap_config={swap: False}"


def study(*changes: str) -> Study:
    return study_of(CONFIG, "model.model_config.num_layers=2", *changes, settings=AS_WRITTEN)


@cache
def baseline() -> PlacedBaseline:
    network = study().network
    assert network is not None
    return placed(prepare(golden("llama_l2_none")), network)


def asked(*changes: str) -> Prediction:
    strategy = study(*changes).strategy
    assert strategy is not None
    return predict(baseline(), strategy)


def layer_swap(prefetch: int, layers: str = "True") -> str:
    return f"swap_config={{swap: True, layer_swap: [{{backward_prefetch: {prefetch}, layers: {layers}}}]}}"


def op_swap(name: str, prefetch: int = 1) -> str:
    return f"swap_config={{swap: True, op_swap: [{{op_name: '{name}', backward_prefetch: {prefetch}, layers: True}}]}}"


def moved(found: Prediction, layer: str = "0") -> set[str]:
    return {found.moves.sites[site][1] for site in found.moves.site if found.moves.sites[site][0] == layer}


def test_nothing_asked_for_leaves_the_trace_as_it_is() -> None:
    found, known = asked(OFF), baseline().baseline.blocks
    assert found.used_peak_bytes == golden("llama_l2_none").used_peak_bytes
    assert np.array_equal(found.device.start, known.start)
    assert np.array_equal(found.device.end, known.end)
    assert found.moved_bytes == found.recomputed == 0


def test_layer_swap_moves_what_the_true_run_moved() -> None:
    found, true = asked(layer_swap(1)), golden("llama_l2_layerswap_n1")
    assert len(found.moves) == sum(kernel.copies_to_host for kernel in true.step)
    assert found.moves.host.peak_bytes == true.host_peak_bytes
    sizes = sorted(block.size_bytes for block in true.blocks if block.on_host)
    assert sorted(found.moves.host_bytes.tolist()) == sizes


def test_layer_swap_peak_is_within_three_percent_of_the_true_run() -> None:
    """The true run makes the causal mask at another moment, and this trace has its peak there."""
    found, true = asked(layer_swap(1)), golden("llama_l2_layerswap_n1").used_peak_bytes
    assert true <= found.used_peak_bytes <= 1.03 * true


def test_full_recompute_is_within_a_ten_thousandth_of_the_true_run() -> None:
    found, true = asked(OFF, "recompute_config.recompute=True"), golden("llama_l2_recompute")
    assert found.used_peak_bytes == pytest.approx(true.used_peak_bytes, rel=1e-4)


def test_full_recompute_runs_the_kernels_again_that_the_true_run_did() -> None:
    true, before = (
        sum(task.is_kernel and task.primitive not in VIEWS for task in golden(name).tasks)
        for name in ("llama_l2_recompute", "llama_l2_none")
    )
    added = true - before
    found = asked(OFF, "recompute_config.recompute=True")
    assert found.recomputed == pytest.approx(added, abs=0.1 * added)


def test_what_gathers_a_weight_from_its_shards_never_runs_again_and_is_held_for_what_casts_it() -> None:
    """As with the parallel optimizer, one stage and one micro-batch: ``recompute`` takes no notice of the gather."""
    plain, again = baseline(), study(op_swap("attention"), "recompute_config.select_recompute={feed_forward: True}")
    known = plain.baseline
    cells = known.kernels.cell
    casts = np.flatnonzero(known.of_weights & (known.kernels.primitives == "Cast"))
    cast = next(int(node) for node in casts if cells[node].startswith("feed_forward"))
    primitives = list(known.kernels.primitive)
    primitives[cast] = "AllGather"
    gathered = replace(known, kernels=replace(known.kernels, primitive=tuple(primitives)))
    assert again.strategy is not None
    assert again.strategy.lazy_inline
    before = schedule(plain, again.strategy).program
    program = schedule(placed(gathered, plain.network), again.strategy).program
    assert cast in before.copies
    assert cast not in program.copies
    assert len(program.copies) == len(before.copies) - 1
    held = np.isin(program.block, known.made[cast]) & known.kernels.backward[program.reader]
    assert held.any()


def test_the_share_of_a_linear_is_its_own() -> None:
    """``attention.wq`` reads the norm through a Reshape of its own, though wk and wv share it in the graph."""
    found = asked(op_swap(r"attention\.wk"))
    assert moved(found) == {"attention.wk.reshape", "attention.wk.cast"}


def test_a_device_copy_stays_while_others_read_it() -> None:
    """wq and wk still read the norm's output from the device when only wv, the first, reads it from the host."""
    alone, together = asked(op_swap(r"attention\.wv")), asked(op_swap("attention"))
    largest = alone.moves.size_bytes.argmax()
    same = together.moves.copied == alone.moves.copied[largest]
    assert np.all(together.moves.released[same] < together.moves.returned[same])
    assert alone.moves.released[largest] > alone.moves.returned[largest]


def test_recompute_wins_over_swap_at_a_primitive() -> None:
    found = asked(layer_swap(1), "recompute_config.recompute=[1]")
    assert moved(found, "1") == set()
    assert moved(found, "0")


def test_a_recomputed_consumer_makes_its_input_a_saved_tensor_that_moves() -> None:
    swapped = asked(op_swap("ffn_norm"))
    mixed = asked(op_swap("ffn_norm"), "recompute_config.select_recompute={feed_forward: [0, 1]}")
    assert "ffn_norm.rcast" in moved(mixed) - moved(swapped)
    assert mixed.used_peak_bytes < swapped.used_peak_bytes


def test_a_large_prefetch_keeps_two_copies() -> None:
    near, far = asked(layer_swap(1)), asked(layer_swap(200))
    assert not near.moves.twice.any()
    assert far.moves.twice.any()
    assert far.used_peak_bytes > near.used_peak_bytes


def test_lifetimes_are_in_order_and_end_after_they_start() -> None:
    for found in (asked(layer_swap(20)), asked(OFF, "recompute_config.recompute=True")):
        assert np.all(np.diff(found.device.start) >= 0)
        assert np.all(found.device.end > found.device.start)
        assert len(found.device.names) > found.device.name.max()


def test_the_bound_is_not_below_the_true_runs() -> None:
    for name, changes in (
        ("llama_l2_layerswap_n1", (layer_swap(1),)),
        ("llama_l2_recompute", (OFF, "recompute_config.recompute=True")),
    ):
        strategy = study(*changes).strategy
        assert strategy is not None
        assert safe_peak_bytes(baseline(), strategy) >= golden(name).used_peak_bytes


@pytest.mark.parametrize(
    ("name", "words"), [("llama_l2_layerswap_n1", "swaps already"), ("llama_l2_recompute", "recomputes already")]
)
def test_a_trace_with_a_strategy_is_refused(name: str, words: str) -> None:
    with pytest.raises(Mismatch, match=words) as refused:
        Question(TRACES / name, study())
    assert "swapconf dryrun" in str(refused.value)


def test_a_trace_of_another_model_is_refused() -> None:
    with pytest.raises(Mismatch, match="layers 0 to 1"):
        Question(TRACES / "llama_l2_none", study("model.model_config.num_layers=4"))


def test_a_trace_without_a_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="no graph"):
        prepare(replace(golden("llama_l2_none"), tasks=()))


def test_an_entry_that_saves_nothing_is_found() -> None:
    question = Question(TRACES / "llama_l2_none", study(op_swap(r"feed_forward\.mul")))
    answer = question.answer()
    assert [(finding.rule, finding.severity) for finding in answer.findings] == [
        ("entry-saves-nothing", Severity.WARNING)
    ]


@pytest.mark.parametrize(
    ("entry", "names_a_prefetch"),
    [("layer_swap", True), ("op_swap recompute", True), ("recompute", False), ("select_recompute mlp", False)],
)
def test_where_recompute_raises_the_peak_no_prefetch_is_named(entry: str, names_a_prefetch: bool) -> None:
    total = EntryTotal(origin=Origin(file="x.yaml"), text=entry, saved_bytes=-512, moved_bytes=0, recomputed=1)
    (found,) = _findings(total)
    assert found.rule == "entry-costs-memory"
    assert ("backward_prefetch" in found.hint) == names_a_prefetch


def test_what_an_entry_saves_is_the_peak_without_it() -> None:
    given = study(layer_swap(1))
    answer = Question(TRACES / "llama_l2_none", given).answer()
    assert answer.entries[0].saved_bytes == golden("llama_l2_none").used_peak_bytes - answer.prediction.used_peak_bytes
    assert not answer.findings


def test_what_the_micro_batches_hold_that_a_trace_lacks_counts_in_each_answer(tmp_path: Path) -> None:
    few = shutil.copytree(TRACES / "llama_l2_none", tmp_path / "rank_0")
    facts = {"micro_batches": 2, "of_micro_batches": 12, "used_peak_bytes_of_a_micro_batch": 1536}
    (few / "run.json").write_text(json.dumps({"grown": facts}))
    for given in (study(layer_swap(1)), study(OFF)):
        whole, asked_of_few = (Question(folder, given).answer() for folder in (TRACES / "llama_l2_none", few))
        more = 10 * 1536
        assert asked_of_few.prediction.used_peak_bytes == whole.prediction.used_peak_bytes + more
        assert asked_of_few.prediction.moved_bytes == whole.prediction.moved_bytes
        assert asked_of_few.baseline_peak_bytes == whole.baseline_peak_bytes + more
        assert asked_of_few.safe_bytes == whole.safe_bytes + more
        assert asked_of_few.placement.mapped_bytes == whole.placement.mapped_bytes + more


def test_a_sweep_changes_every_prefetch() -> None:
    given = study(layer_swap(7))
    assert with_prefetch(given.config, 9) == study(layer_swap(9)).config
    points = Question(TRACES / "llama_l2_none", given).sweep((1, 200))
    assert [point.prefetch for point in points] == [1, 200]
    assert points[0].twice_bytes == 0 < points[1].twice_bytes


def test_the_chart_marks_where_two_copies_live() -> None:
    lines = chart([Point(prefetch=1, peak_bytes=10, twice_bytes=0), Point(prefetch=2, peak_bytes=20, twice_bytes=5)])
    assert lines[-2].strip() == "+-!"
    assert "lowest 10B at 1" in lines[-1]


def test_the_command_prints_json_with_the_keys_that_replay_has() -> None:
    run = CliRunner().invoke(
        main,
        [
            "whatif",
            str(TRACES / "llama_l2_none"),
            "--config",
            CONFIG,
            "--format",
            "json",
            "--set",
            "model.model_config.num_layers=2",
            "--set",
            layer_swap(1),
            "--sweep",
            "backward_prefetch=1..3",
        ],
    )
    assert run.exit_code == 0, run.output
    record = json.loads(run.stdout)
    assert record["used_peak_bytes"] == asked(layer_swap(1)).used_peak_bytes
    assert sum(record["categories"].values()) == record["used_peak_bytes"]
    assert {"with_fragments_peak_bytes", "reserved_bytes"} <= record.keys()
    assert [point["backward_prefetch"] for point in record["sweep"]] == [1, 2, 3]


@pytest.mark.parametrize("sweep", ["backward_prefetch=0..4", "backward_prefetch=4..1", "layers=1..2"])
def test_a_sweep_that_makes_no_sense_is_refused(sweep: str) -> None:
    run = CliRunner().invoke(
        main,
        [
            "whatif",
            str(TRACES / "llama_l2_none"),
            "--config",
            CONFIG,
            "--sweep",
            sweep,
            "--set",
            "model.model_config.num_layers=2",
        ],
    )
    assert run.exit_code == 2
    assert "backward_prefetch=1..400" in run.output


def test_the_command_says_what_to_run_for_a_trace_that_swaps() -> None:
    run = CliRunner().invoke(main, ["whatif", str(TRACES / "llama_l2_layerswap_n1"), "--config", CONFIG])
    assert run.exit_code == 2
    assert "swapconf dryrun" in run.output


def test_layers_of_multi_token_prediction_are_counted_behind_the_decoder_layers() -> None:
    scopes = (
        "Default/model-M/decoder-B/layers-CellList/1-Layer/mlp-MLP",
        "Default/lm_head-Linear",
        "Default/model-M/mtp-B/layers-CellList/0-Layer",
    )
    layers, rows = _layers(list(map(in_layer, scopes)))
    assert (layers.names, layers.is_extra.tolist()) == (("0", "1", "mtp0"), [False, False, True])
    assert [layers.name(row) for row in rows.tolist()] == ["1", "", "mtp0"]


def test_communication_that_is_not_to_run_again_does_not() -> None:
    full = asked(OFF, "recompute_config.recompute=True")
    quiet = asked(OFF, "recompute_config.recompute=True", "recompute_config.mp_comm_recompute=False")
    kernels = [kernel for kernel in golden("llama_l2_none").kernels if not kernel.is_event]
    sent = sum(
        kernel.primitive == "AllReduce" and "wo-Linear" in kernel.name and "Gradients" not in kernel.name
        for kernel in kernels
    )
    assert full.recomputed - quiet.recomputed >= sent > 0


def test_without_communication_no_reshape_runs_again_and_what_it_shows_is_kept() -> None:
    """The output of w3 is seen through a Reshape alone; the gradient of the SiLU reads that of w1 itself. A Transpose
    of one head is launched as a Reshape, and is none."""
    prepared = baseline()
    again: dict[bool, set[str]] = {}
    for comm in (True, False):
        strategy = study(OFF, "recompute_config.recompute=True", f"recompute_config.mp_comm_recompute={comm}").strategy
        assert strategy is not None
        copies = schedule(prepared, strategy).program.copies
        again[comm] = {
            f"{prepared.baseline.kernels.cell[copy]} {prepared.baseline.kernels.primitive[copy]}" for copy in copies
        }
        if not comm:
            views = {copy for copy in copies if prepared.baseline.kernels.primitive[copy] == "Reshape"}
            assert views <= prepared.baseline.turned
    assert {"feed_forward.w3 MatMul", "feed_forward.w1 MatMul", "feed_forward.w3 Reshape"} <= again[True]
    assert "feed_forward.w1 MatMul" in again[False]
    assert "feed_forward.w3 MatMul" not in again[False]


UNKNOWN = ("model.model_config.type=MyConfig", "model.arch.type=MyModel")


def of_own(place: Path) -> Path:
    """The trace, as a dry run of a model leaves it that the catalog does not know."""
    folder = Path(shutil.copytree(TRACES / "llama_l2_none", place / "rank_0"))
    network = study().network
    assert network is not None
    templates = {layer.index: layer.template for layer in network.layers}
    own_layers.write(own_layers.OwnLayers(templates=templates), folder / own_layers.FILE)
    return folder


def test_a_model_is_refused_that_neither_the_catalog_nor_its_trace_knows() -> None:
    with pytest.raises(Mismatch, match=r"catalog does not know.*swapconf dryrun"):
        Question(TRACES / "llama_l2_none", study(*UNKNOWN))


@pytest.mark.parametrize("strategy", [layer_swap(1), op_swap(r"attention\.wq"), "recompute_config.recompute=True"])
def test_a_model_that_the_catalog_does_not_know_is_predicted_by_the_layers_that_its_run_has_read(
    strategy: str, tmp_path: Path
) -> None:
    found = Question(of_own(tmp_path), study(*UNKNOWN, strategy)).answer().prediction
    known = asked(strategy)
    assert (found.used_peak_bytes, found.moved_bytes, found.recomputed) == (
        known.used_peak_bytes,
        known.moved_bytes,
        known.recomputed,
    )
    assert found.moved_bytes or found.recomputed


def test_a_name_that_the_layers_of_the_run_lack_is_told_with_the_answer(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(Path(CONFIG).read_text())
    changes = [f"--set={change}" for change in ("model.model_config.num_layers=2", *UNKNOWN, op_swap(r"attention\.wx"))]
    words = ["whatif", str(of_own(tmp_path)), "--config", str(tmp_path / "train.yaml"), *changes]
    told = CliRunner().invoke(main, words)
    assert "op-no-match" in told.output
    assert "unknown-family" not in told.output


def accumulated(trace: Trace) -> Trace:
    """The same forward and backward passes for a second micro-batch: all that kernels make is made once more."""
    made = {output for task in trace.tasks if task.is_kernel for output in task.outputs if output not in task.inputs}
    later = 10 + max(block.end or block.start for block in trace.blocks)

    def shifted(tensors: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(tensor + later * (tensor in made) for tensor in tensors)

    def renamed(name: str) -> str:
        return re.sub(r"-op(\d+)$", lambda match: f"-op{int(match[1]) + 5000}", name)

    blocks = [
        replace(block, start=block.start + later, end=None if block.end is None else block.end + later)
        for block in trace.blocks
        if block.start in made
    ]
    tasks = [
        replace(
            task,
            name=renamed(task.name),
            event=task.event + later,
            inputs=shifted(task.inputs),
            outputs=shifted(task.outputs),
        )
        for task in trace.tasks
        if task.is_kernel
    ]
    kernels = [replace(kernel, name=renamed(kernel.name)) for kernel in trace.kernels if not kernel.is_event]
    return replace(
        trace,
        blocks=Blocks.of([*trace.blocks, *blocks]),
        tasks=(*trace.tasks, *tasks),
        kernels=(*trace.kernels, *kernels),
    )


def test_casts_of_weights_that_move_run_at_the_start_of_later_micro_batches() -> None:
    given, network = study(op_swap(r"feed_forward\.w1")), study().network
    assert given.strategy is not None
    assert network is not None
    prepared = placed(prepare(accumulated(golden("llama_l2_none"))), network)
    kernels = prepared.baseline.kernels
    found = predict(prepared, given.strategy).moves
    casts = [index for index, site in enumerate(found.site.tolist()) if found.sites[site][1] == "feed_forward.w1.cast"]
    norms = [
        index
        for index, name in enumerate(kernels.name)
        if "0-LLamaDecodeLayer/attention_norm" in name and kernels.primitive[index] == "RmsNorm"
    ]
    begins = [int(kernels.before[index]) * TICKS for index in norms]
    assert len(begins) == 2
    copied = sorted(found.copied[casts].tolist())
    assert [sum(time > begin for begin in begins) for time in copied] == [1, 1, 1, 1]
    assert begins[1] - copied[2] < (begins[1] - begins[0]) / 20


def test_the_first_micro_batch_casts_where_it_needs_them() -> None:
    found = asked(op_swap(r"feed_forward\.w1")).moves
    casts = [index for index, site in enumerate(found.site.tolist()) if found.sites[site][1] == "feed_forward.w1.cast"]
    assert np.ptp(found.copied[casts]) > 100 * TICKS


def test_the_page_shows_before_and_after_with_the_entries(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run = CliRunner().invoke(
        main,
        [
            "whatif",
            str(TRACES / "llama_l2_none"),
            "--config",
            CONFIG,
            "--format",
            "json",
            "--set",
            "model.model_config.num_layers=2",
            "--html",
            str(page),
        ],
    )
    assert run.exit_code == 0, run.output
    text = page.read_text(encoding="utf-8")
    assert "without swap and recompute" in text
    assert "saved at the peak" in text
    assert "what-if from a dry run level 1 (operator workspace excluded)" in text


def test_the_environment_chooses_the_allocator_of_a_prediction() -> None:
    def fragments(environment: dict[str, str]) -> int:
        run = CliRunner().invoke(
            main,
            [
                "whatif",
                str(TRACES / "llama_l2_none"),
                "--config",
                CONFIG,
                "--format",
                "json",
                "--set",
                "model.model_config.num_layers=2",
            ],
            env=environment,
        )
        found = json.loads(run.stdout)["with_fragments_peak_bytes"]
        assert isinstance(found, int)
        return found

    assert fragments({"MEMORY_FRAGMENTATION": "1"}) < fragments({"MEMORY_FRAGMENTATION": "0"})
