"""Dry runs of mindformers' PyNative trainer, in an environment of the second generation.

SWAPCONF_PYNATIVE_PYTHON names its interpreter (mindformers 2.0.0, MindSpore 2.10.0); `scripts/generations.sh pynative`
makes one, which is found where it keeps it, and one of mindformers 2.1.0. hyper_parallel is the stand-in where it is
not installed there.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from swapconf.files import cache_folder
from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import trace_folder
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.trace.marked_passes import Pass
from swapconf.trace.marks import Moment
from swapconf.trace.trace import Trace
from swapconf.words.units import GIB
from tests.helpers import ROOT, scratch

PAIR = "2.0.0+2.10.0"
VARIABLE = "SWAPCONF_PYNATIVE_PYTHON"
ENVIRONMENTS = cache_folder.place("generations", os.environ) / "environments"
PYTHON = Path(os.environ.get(VARIABLE) or ENVIRONMENTS / PAIR / "bin" / "python")
NEWER = ENVIRONMENTS / "2.1.0+2.10.0" / "bin" / "python"
pytestmark = [
    pytest.mark.pynative,
    pytest.mark.skipif(
        not PYTHON.exists(), reason=f"there is no environment with {PAIR}: scripts/generations.sh pynative makes one"
    ),
]
TINY = {
    "qwen3": (
        "hidden_size=64",
        "intermediate_size=128",
        "head_dim=16",
        "vocab_size=128",
        "seq_length=64",
        "max_position_embeddings=64",
    ),
    "deepseek_v3": ("num_hidden_layers=2", "vocab_size=128", "seq_length=64"),
}
FULL = "recompute={mode: full, full_recompute_layer: ['0-1']}"
SELECT = "recompute={mode: select, select_module: {mlp: ['1']}}"
SHARDS = ("--set", "parallelism.data_parallel_shard=8", "--set", "training.global_batch_size=8")
SWAP = "swap={enable: True, default_prefetch: 1, layer_swap: [{layers: ['0-2']}]}"


@cache
def dryrun(model: str, *words: str, python: Path = PYTHON) -> tuple[dict[str, Any], Trace, int]:
    """(report, trace, MindSpore's own max_memory_allocated)."""
    keep = scratch("pynative") / str(len(list(scratch("pynative").iterdir())))
    changes = [word for setting in TINY[model] for word in ("--set", f"model.{setting}")]
    command = [str(python), "-m", "swapconf", "dryrun", str(ROOT / f"configs/pynative/{model}.yaml"), "--no-cache"]
    done = subprocess.run(
        [*command, "--format", "json", "--keep", str(keep), *changes, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)
    place = keep / "rank_0"
    told = json.loads((place / "result.json").read_text(encoding="utf-8"))
    return report, trace_folder.read(place, 0), told["max_memory_allocated_bytes"]


CASES = {
    "none": ("qwen3",),
    "full": ("qwen3", "--as-parallel", "--set", FULL),
    "select": ("qwen3", "--as-parallel", "--set", SELECT),
    "swap": ("qwen3", "--as-parallel", "--set", SWAP),
    "experts": ("deepseek_v3",),
    "experts full": ("deepseek_v3", "--as-parallel", "--set", FULL),
    "shards": ("qwen3", *SHARDS),
    "shards full": ("qwen3", *SHARDS, "--set", FULL),
    "shards swap": ("qwen3", *SHARDS, "--set", SWAP),
    "shards experts": ("deepseek_v3", *SHARDS),
}
ALWAYS = ("full", "shards swap")  # also by CI


def cases(*names: str) -> list[Any]:
    return [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.thorough, id=name) for name in names]


@pytest.mark.parametrize("case", cases(*CASES))
def test_the_used_peak_is_max_memory_allocated_to_the_byte(case: str) -> None:
    report, trace, told = dryrun(*CASES[case])
    assert report["outcome"] == "completed"
    assert trace.used_peak_bytes == report["used_peak_bytes"] == told
    assert report["peak"]["at"]["used_bytes"] == told


@pytest.mark.parametrize("case", cases(*(name for name in CASES if name not in ("shards full", "shards experts"))))
def test_the_pool_puts_every_block_where_mindspore_put_it(case: str) -> None:
    _, trace, _ = dryrun(*CASES[case])
    assert replay(trace, lifetimes(trace)).is_exact


@pytest.mark.thorough
def test_two_runs_of_one_yaml_leave_the_same_blocks_with_no_word_of_where_python_was() -> None:
    _, first, _ = dryrun(*CASES["none"])
    _, second, _ = dryrun(*CASES["none"], "--timeout", "250")
    for column in ("start", "end", "size_bytes"):
        assert getattr(first.blocks, column).tolist() == getattr(second.blocks, column).tolist()
    for name in ("memory_block.csv", "tracker_graph.ir", "task.csv"):
        assert "Function:" not in (Path(first.folder) / name).read_text(encoding="utf-8")


def test_the_stand_in_is_named() -> None:
    report, _, _ = dryrun(*CASES["full"])
    assert report["hyper_parallel"] in report["origin"]
    assert report["hyper_parallel"]


def test_a_run_on_shards_says_whose_sharding_it_is() -> None:
    report, _, _ = dryrun(*CASES["shards swap"])
    assert report["shards"] == 8
    assert (
        f"hyper_parallel {report['hyper_parallel']}, which shares out the parameters over 8 ranks" in report["origin"]
    )


def collectives(trace: Trace, operator: str) -> int:
    """How often the second step runs one."""
    second = int(trace.passes.steps[1])
    return sum(task.primitive.startswith(operator) and task.event > second for task in trace.tasks)


def gathered_between_the_passes(trace: Trace) -> int:
    """Parameters that are whole when the backward pass of the second step begins."""
    live = lifetimes(trace)
    moment = [mark.event for mark in trace.marks if mark.moment is Moment.BACKWARD_PASS_BEGINS][-1]
    held = live.category == CATEGORIES.index(Category.COMMUNICATION)
    return int((held & (live.start <= moment) & (live.end > moment)).sum())


@pytest.mark.thorough
def test_parameters_are_whole_while_their_unit_runs_and_no_longer() -> None:
    _, trace, _ = dryrun(*CASES["shards"])
    parameters = collectives(trace, "DistCommReduceScatter")
    assert parameters > 20
    assert collectives(trace, "DistCommAllGather") == 2 * parameters - 1  # the head stays whole for the backward pass
    assert gathered_between_the_passes(trace) == 1
    _, kept, _ = dryrun("qwen3", *SHARDS, "--set", "parallelism.reshard_after_forward_policy=never")
    assert collectives(kept, "DistCommAllGather") < 2 * parameters - 1
    assert gathered_between_the_passes(kept) > 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("case", "layers"),
    [("none", []), ("full", [1, 0]), ("select", [1]), ("swap", []), ("shards full", [1, 0]), ("shards swap", [])],
)
def test_the_layers_that_run_again_are_those_that_were_asked_for(case: str, layers: list[int]) -> None:
    report, trace, _ = dryrun(*CASES[case])
    assert [int(item["layer"]) for item in report["recomputed"]] == layers
    again = [stretch.layer for stretch in trace.passes.stretches if stretch.what is Pass.RECOMPUTED]
    assert set(again) == set(layers)
    rules = {found["rule"] for found in report["findings"]}
    assert not [rule for rule in rules if rule.startswith(("recompute-not", "decision", "effect"))]


@pytest.mark.thorough
def test_recompute_and_swap_lower_the_activations() -> None:
    def activations(case: str) -> int:
        _, trace, _ = dryrun(*CASES[case])
        live = lifetimes(trace)
        held = live.category == CATEGORIES.index(Category.ACTIVATION)
        at_peak = (live.start <= live.used.peak_time) & (live.end > live.used.peak_time)
        return int(live.size_bytes[held & at_peak & (live.layer == 0)].sum())

    assert activations("full") < activations("none")
    assert activations("swap") < activations("none")
    assert activations("shards full") < activations("shards")
    assert activations("shards swap") < activations("shards")
    assert activations("select") == activations("none")  # layer 0 is not asked for


@pytest.mark.thorough
def test_what_is_swapped_leaves_and_comes_back() -> None:
    report, trace, _ = dryrun(*CASES["swap"])
    assert [item["layer"] for item in report["moved"]] == ["0", "1", "2"]
    each = {(item["tensors"], item["bytes"]) for item in report["moved"]}
    assert len(each) == 1  # the layers are alike
    assert report["host_bytes"] >= sum(item["bytes"] for item in report["moved"])
    live = lifetimes(trace)
    back = int((live.category == CATEGORIES.index(Category.SWAP)).sum())
    assert back == 2 * sum(item["tensors"] for item in report["moved"])  # in each of two steps


@pytest.mark.thorough
def test_on_one_card_nothing_of_it_happens_and_the_report_says_so() -> None:
    report, _, told = dryrun("qwen3", "--set", FULL, "--set", "training.global_batch_size=2")
    plain, _, without = dryrun("qwen3", "--set", "training.global_batch_size=2")
    assert report["recomputed"] == report["moved"] == []
    assert told == without
    assert [found["rule"] for found in report["findings"]] == ["pynative-one-card"]
    assert plain["findings"] == []


NEEDS_NEWER = pytest.mark.skipif(
    not NEWER.exists(),
    reason="there is no environment with mindformers 2.1.0: scripts/generations.sh pynative makes one",
)


@pytest.mark.thorough
@pytest.mark.parametrize("python", [PYTHON, pytest.param(NEWER, marks=NEEDS_NEWER)], ids=["2.0.0", "2.1.0"])
def test_float32_weights_of_the_optimizer_take_no_memory_of_the_host(python: Path) -> None:
    """MindSpore copies them through the host, 4 B for each parameter."""
    vocabulary = 8 << 20
    _, trace, _ = dryrun(
        "qwen3", "--set", f"model.vocab_size={vocabulary}", "--set", "model.params_dtype=bfloat16", python=python
    )
    most = max(block.size_bytes for block in trace.blocks)
    assert most >= 4 * 64 * vocabulary, "of the word embedding alone in float32"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10 < 3 * GIB


@pytest.mark.thorough
@pytest.mark.parametrize("python", [PYTHON, pytest.param(NEWER, marks=NEEDS_NEWER)], ids=["2.0.0", "2.1.0"])
def test_a_step_of_four_micro_batches_runs_four_and_each_is_of_one_sample(python: Path) -> None:
    four = ("--set", "training.global_batch_size=4")
    _, one_by_one, each = dryrun("qwen3", *four, python=python)
    _, together, at_once = dryrun("qwen3", *four, "--set", "training.local_batch_size=4", python=python)
    assert forward_passes(one_by_one) == [4, 4]
    assert forward_passes(together) == [1, 1]
    assert each < at_once


def forward_passes(trace: Trace) -> list[int]:
    """Of layer 0 in each step."""
    begun = [mark for mark in trace.marks if mark.moment is Moment.FORWARD_BEGINS and mark.layer == 0]
    steps = [mark.event for mark in trace.marks if mark.moment is Moment.STEP_BEGINS]
    counted = [sum(mark.event >= begin for mark in begun) for begin in steps]
    return [now - after for now, after in zip(counted, [*counted[1:], 0], strict=True)]
