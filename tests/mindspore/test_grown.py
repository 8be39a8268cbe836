"""A real folded run that is kept: what-if and memory read the trace that is grown from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapconf.trace import trace_folder
from swapconf.trace.launch_order import reproduces
from tests.helpers import ROOT
from tests.mindspore.support.command import swapconf

pytestmark = [pytest.mark.mindspore, pytest.mark.thorough]

EXAMPLE = ROOT / "configs/llama2_7b/example1_default_swap.yaml"
SHAPE = ("hidden_size=64", "num_heads=4", "num_layers=10", "seq_length=64", "vocab_size=128", "multiple_of=16")
MODEL = [word for item in SHAPE for word in ("--set", f"model.model_config.{item}")]
GROWN = "grown from dry runs of 4 and 6 layers"


def test_memory_and_what_if_of_ten_layers_of_which_four_and_six_were_run(tmp_path: Path) -> None:
    words = [*MODEL, "--set", "swap_config.swap=false"]
    (report,) = swapconf(
        "dryrun", str(EXAMPLE), "--ranks", "0", "--jobs", "1", "--no-cache", "--fold", "--keep", str(tmp_path), *words
    )
    assert (report["folded"], report["grown"]) == ([4, 6], GROWN)
    trace = trace_folder.read(tmp_path / "rank_0", 0)
    small = trace_folder.read(tmp_path / "rank_0" / "layers_4", 0)
    big = trace_folder.read(tmp_path / "rank_0" / "layers_6", 0)
    assert len(trace.kernels) == len(big.kernels) + 2 * (len(big.kernels) - len(small.kernels))
    assert trace.launch_graph is not None, report["fold_note"]
    assert reproduces(trace.launch_graph, trace.step)
    (memory,) = swapconf("memory", str(tmp_path / "rank_0"))
    assert GROWN in memory["origin"]
    assert memory["used_peak_bytes"] == pytest.approx(report["used_peak_bytes"], rel=0.001)
    found = swapconf(
        "whatif",
        str(tmp_path / "rank_0"),
        "--config",
        str(EXAMPLE),
        *MODEL,
        "--set",
        'swap_config={"swap": true, "layer_swap": [{"backward_prefetch": 10, "layers": true}]}',
    )
    assert GROWN in found["origin"]
    assert found["baseline_used_peak_bytes"] == memory["used_peak_bytes"]
    assert found["moved_bytes_per_step"] > 0
    assert found["order_of_launches"]["order"] == "mindspore"


PIPELINE = (
    "model.model_config.num_layers=16",
    "parallel_config.pipeline_stage=2",
    "parallel_config.data_parallel=2",
    "parallel_config.model_parallel=2",
    "parallel_config.micro_batch_num=3",
    "runner_config.gradient_accumulation_steps=1",
)


def test_a_last_stage_is_grown_from_two_and_three_layers_and_has_the_fragments_of_the_grown_trace(
    tmp_path: Path,
) -> None:
    words = [*MODEL, *(word for item in PIPELINE for word in ("--set", item)), "--set", "swap_config.swap=false"]
    (report,) = swapconf(
        "dryrun", str(EXAMPLE), "--ranks", "4", "--jobs", "1", "--no-cache", "--fold", "--keep", str(tmp_path), *words
    )
    assert report["grown"] == "grown from dry runs of 2 and 3 layers"
    trace = trace_folder.read(tmp_path / "rank_4", 4)
    assert trace.used_peak_bytes == pytest.approx(report["used_peak_bytes"], rel=0.001)
    assert (
        report["with_fragments_peak_bytes"] - report["used_peak_bytes"]
        == trace.with_fragments_peak_bytes - trace.used_peak_bytes
    )


def test_a_run_with_fewer_layers_in_other_stages_keeps_its_graph_with_the_names_of_the_whole_model(
    tmp_path: Path,
) -> None:
    shape = ("model.model_config.num_layers=6", *PIPELINE[1:])
    words = [*MODEL, *(word for item in shape for word in ("--set", item)), "--set", "swap_config.swap=false"]
    (report,) = swapconf(
        "dryrun", str(EXAMPLE), "--ranks", "4", "--jobs", "1", "--no-cache", "--fold", "--keep", str(tmp_path), *words
    )
    assert report["grown"] == "the trace of a smaller dry run"
    trace = trace_folder.read(tmp_path / "rank_4", 4)
    assert trace.launch_graph is not None
    assert reproduces(trace.launch_graph, trace.step)
    named = {name.partition("layers-CellList/")[2][:1] for name in trace.launch_graph.name} - {""}
    assert named == {"3", "4", "5"}
