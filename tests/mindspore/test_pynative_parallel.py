"""Dry runs of parallel PyNative trainings, in an environment of mindformers 2.1.0 with the stand-in for hyper_parallel.

`scripts/generations.sh pynative` makes it. Each case is one rank of a small model.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from typing import Any

import pytest

from swapconf.dryrun.by_step import STEPS
from swapconf.files import cache_folder
from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import trace_folder
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.trace.marked_passes import Pass
from swapconf.trace.marks import NO_LAYER, Moment
from swapconf.trace.trace import Trace
from tests.helpers import ROOT, scratch

NEWER = cache_folder.place("generations", os.environ) / "environments" / "2.1.0+2.10.0" / "bin" / "python"
pytestmark = [
    pytest.mark.pynative,
    pytest.mark.skipif(
        not NEWER.exists(),
        reason="there is no environment with mindformers 2.1.0: scripts/generations.sh pynative makes one",
    ),
]
QWEN = (
    "model.hidden_size=64",
    "model.intermediate_size=128",
    "model.head_dim=16",
    "model.vocab_size=128",
    "model.seq_length=64",
    "model.max_position_embeddings=64",
)
LONG = (
    *QWEN[:-2],
    "model.seq_length=2048",
    "model.max_position_embeddings=2048",
    "model.use_attn_mask_compression=True",
)
DEEPSEEK = (
    "model.num_hidden_layers=4",
    "model.vocab_size=128",
    "model.seq_length=64",
    "model.num_nextn_predict_layers=0",
)
TP = ("parallelism.tensor_parallel=2", "parallelism.sequence_parallel=True")
CASES: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "one card": ("qwen3", 0, QWEN),
    "tensor": ("qwen3", 1, (*QWEN, *TP, "parallelism.data_parallel_shard=2", "training.global_batch_size=2")),
    "copies": (
        "qwen3",
        3,
        (
            *QWEN,
            "parallelism.data_parallel_shard=4",
            "parallelism.dense_fsdp_shard_size=2",
            "training.global_batch_size=8",
        ),
    ),
    "context": ("qwen3", 0, (*LONG, "parallelism.context_parallel=2", "parallelism.context_parallel_method=ulysses")),
    "experts": (
        "deepseek_v3",
        1,
        (
            *DEEPSEEK,
            "parallelism.expert_parallel=2",
            "parallelism.data_parallel_shard=4",
            "training.global_batch_size=4",
            "optimizer={type: Muon, weight_decay: 0.1, matched_adamw_rms: 0.2, momentum: 0.95, nesterov: True, "
            "adamw_betas: [0.9, 0.95], adamw_eps: 1.e-8, comm_strategy: allgather_deredundency}",
        ),
    ),
    "pipeline": (
        "deepseek_v3",
        2,  # the first of the second stage
        (
            *DEEPSEEK,
            *TP,
            "parallelism.pipeline_parallel=2",
            "parallelism.pipeline_parallel_interleave_num=2",
            "training.global_batch_size=4",
            "recompute={mode: full, full_recompute_layer: ['0-1']}",
        ),
    ),
}
EXPERTS = (
    *("model.num_hidden_layers=2", "model.vocab_size=128", "model.num_nextn_predict_layers=0"),
    *("parallelism.expert_parallel=2", "parallelism.data_parallel_shard=2", "training.global_batch_size=2"),
)
PARALLEL = [case for case in CASES if case != "one card"]
BLOCKING = ("parallelism.data_parallel_shard=2", "training.global_batch_size=2")
ONE = (
    *("tensor_parallel", "context_parallel", "pipeline_parallel", "expert_parallel"),
    "pipeline_parallel_interleave_num",
)
LOADS = {"even experts": "even", "experts of a file": "{folder}/even.yaml", "full experts": "2"}
CASES |= dict.fromkeys(LOADS, ("deepseek_v3", 0, EXPERTS))
LOADS |= {"experts": "1.5"}
CASES["shards"] = CASES["shards that race"] = ("qwen3", 0, (*QWEN, *BLOCKING))
CASES["whole parameters"] = (
    "deepseek_v4",  # some of whose parameters four ranks do not divide
    0,
    (
        *("model.vocab_size=128", "model.num_hidden_layers=3", "model.num_nextn_predict_layers=0"),
        *("model.compress_ratios=[0,4,128]", "model.num_hash_layers=1"),
        *("parallelism.data_parallel_shard=4", "training.global_batch_size=8"),
    ),
)
CASES["degrees of one"] = (
    "qwen3",
    0,
    (
        *(*QWEN, *BLOCKING, "parallelism.dense_fsdp_shard_size=2", "parallelism.sequence_parallel=True"),
        *(f"parallelism.{key}=1" for key in ONE),
    ),
)


@cache
def dryrun(case: str) -> tuple[dict[str, Any], Trace, int]:
    """(report, trace, MindSpore's own max_memory_allocated)."""
    model, rank, settings = CASES[case]
    folder = scratch("pynative-parallel")
    keep = folder / case.replace(" ", "-")
    (folder / "even.yaml").write_text("".join(f"{expert}: 7\n" for expert in range(8)), encoding="utf-8")
    command = [str(NEWER), "-m", "swapconf", "dryrun", str(ROOT / f"configs/pynative/{model}.yaml"), "--no-cache"]
    done = subprocess.run(
        [
            *command,
            *("--format", "json", "--keep", str(keep), "--ranks", str(rank)),
            *["--launch-blocking"] * (case in ("shards", "degrees of one") or case in LOADS),
            *(["--expert-load", LOADS[case].format(folder=folder)] if case in LOADS else []),
            *(word for setting in settings for word in ("--set", setting)),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = json.loads(done.stdout)
    place = keep / f"rank_{rank}"
    told = json.loads((place / "result.json").read_text(encoding="utf-8"))
    return report, trace_folder.read(place, rank), told["max_memory_allocated_bytes"]


@pytest.mark.parametrize("case", PARALLEL)
def test_each_dimension_is_dry_run_and_replayed_to_the_byte(case: str) -> None:
    report, trace, told = dryrun(case)
    assert report["outcome"] == "completed"
    assert report["findings"] == []
    assert trace.used_peak_bytes == report["used_peak_bytes"] == told
    assert replay(trace, lifetimes(trace)).is_exact


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        ("tensor", "tensor_parallel 2"),
        ("context", "context_parallel 2"),
        ("pipeline", "tensor_parallel 2, pipeline_parallel 2"),
    ],
)
def test_the_report_says_the_layout(case: str, layout: str) -> None:
    report, _, _ = dryrun(case)
    assert report["layout"] == layout
    assert layout in report["origin"]


def test_the_report_says_how_tokens_were_spread() -> None:
    report, _, _ = dryrun("experts")
    assert (report["expert_load"], report["expert_ranks"], report["expert_times"]) == ("1.5", 2, 0.5)
    assert "of 2 ranks that share out the experts this one gets 0.5 times its even share" in report["origin"]


def test_a_run_whose_launches_block_tells_between_what_the_peak_of_a_card_lies() -> None:
    report, _, _ = dryrun("shards")
    least, ahead, most = (report[key] for key in ("least_used_peak_bytes", "ahead_used_peak_bytes", "used_peak_bytes"))
    assert 0 < least < ahead <= most


@pytest.mark.thorough
def test_whole_parameters_are_summed_over_ranks_with_the_last_micro_batch() -> None:
    report, trace, told = dryrun("whole parameters")
    assert (report["outcome"], trace.used_peak_bytes) == ("completed", told)
    sums = [task.event for task in trace.tasks if task.primitive == "DistCommAllReduce"]
    begins = [mark.event for mark in trace.marks if mark.moment is Moment.BACKWARD_PASS_BEGINS]
    ends = [mark.event for mark in trace.marks if mark.moment is Moment.BACKWARD_PASS_ENDS]
    found = [sum(begin < event < end for event in sums) for begin, end in zip(begins, ends, strict=True)]
    assert found == [0, found[1]] * STEPS
    assert found[1] > 0


@pytest.mark.thorough
def test_the_least_is_the_same_where_threads_race() -> None:
    (blocking, _, _), (raced, _, _) = dryrun("shards"), dryrun("shards that race")
    assert raced["least_used_peak_bytes"] == blocking["least_used_peak_bytes"] <= raced["used_peak_bytes"]
    assert raced["ahead_used_peak_bytes"] is None


def columns(case: str) -> list[list[int]]:
    _, trace, _ = dryrun(case)
    return [getattr(trace.blocks, column).tolist() for column in ("start", "end", "size_bytes")]


@pytest.mark.thorough
def test_equal_shares_of_a_file_change_no_byte() -> None:
    assert columns("even experts") == columns("experts of a file")


@pytest.mark.thorough
def test_a_rank_whose_experts_get_more_tokens_takes_more_memory_in_all() -> None:
    (*_, evenly), (*_, full) = columns("even experts"), columns("full experts")
    assert len(full) == len(evenly)
    assert sum(full) > sum(evenly)


def sizes(case: str, category: Category) -> list[int]:
    """Of the blocks at the peak of the second step; of gradients those that the last backward pass leaves."""
    _, trace, _ = dryrun(case)
    live = lifetimes(trace)
    time = live.used.peak_time
    if category is Category.GRADIENT:
        time = max(mark.event for mark in trace.marks if mark.moment is Moment.BACKWARD_PASS_ENDS)
    held = (live.category == CATEGORIES.index(category)) & (live.start <= time) & (live.end > time)
    return sorted(live.size_bytes[held].tolist())


@pytest.mark.parametrize(("case", "parts"), [("tensor", 4), ("copies", 2)])
@pytest.mark.parametrize("category", [Category.WEIGHT, Category.GRADIENT, Category.OPTIMIZER])
def test_a_rank_holds_exactly_what_the_layout_leaves_of_weights_gradients_and_optimizer_state(
    case: str, parts: int, category: Category
) -> None:
    padding = 512  # MindSpore's, behind each tensor; norms, which tensor parallelism leaves whole, fit into it
    shares = [max(size - padding, 0) // parts + padding for size in sizes("one card", category)]
    assert shares
    assert sizes(case, category) == sorted(shares)


@pytest.mark.thorough
def test_dimensions_of_one_rank_change_no_byte() -> None:
    assert columns("shards") == columns("degrees of one")


def test_a_stage_runs_its_layers_once_for_each_micro_batch_and_again_only_those_that_are_recomputed() -> None:
    report, trace, _ = dryrun("pipeline")
    assert {stretch.layer for stretch in trace.passes.stretches} - {NO_LAYER} == {1, 3}  # two stages of one layer each
    assert [item["layer"] for item in report["recomputed"]] == ["1"]
    begun = [mark for mark in trace.marks if mark.moment is Moment.FORWARD_BEGINS and mark.layer == 3]
    assert len(begun) == STEPS * 4
    passes = [stretch.what for stretch in trace.passes.stretches if stretch.layer == 1]
    assert passes.count(Pass.RECOMPUTED) >= STEPS * 4
    assert Pass.RECOMPUTED not in [stretch.what for stretch in trace.passes.stretches if stretch.layer == 3]
