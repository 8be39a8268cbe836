"""Dry runs of the real MindSpore: peaks to the byte, and what moved against what was decided."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from demo import free_port

from swapconf.trace import trace_folder
from tests.helpers import ROOT
from tests.unit.trace_event_rules import loads, mistakes

pytestmark = pytest.mark.mindspore

EXAMPLE = ROOT / "configs/llama2_7b/example4_swap_with_recompute.yaml"
TINY = ("hidden_size=64", "num_heads=4", "num_layers=4", "seq_length=64", "vocab_size=128", "multiple_of=16")
STAGES = (
    "parallel_config.pipeline_stage=2",
    "parallel_config.data_parallel=2",
    "parallel_config.model_parallel=2",
    "parallel_config.micro_batch_num=2",
)


def changes() -> list[str]:
    settings = [*(f"model.model_config.{item}" for item in TINY), *STAGES]
    return [word for setting in settings for word in ("--set", setting)]


def dryrun(*words: str, timeout: int = 400) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "swapconf", "dryrun", str(EXAMPLE), "--no-cache", "--format", "json", *changes()]
    command += words
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def two_stages(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path, int]:
    keep = tmp_path_factory.mktemp("keep")
    done = dryrun("--keep", str(keep), "--html", str(keep / "cluster.html"))
    assert done.stdout, done.stderr
    (keep / "told").write_text(done.stderr)
    return json.loads(done.stdout), keep, done.returncode


def test_one_rank_for_each_stage_completes(two_stages: tuple[list[dict[str, Any]], Path, int]) -> None:
    reports, _, code = two_stages
    assert [(report["rank"], report["stage"], report["outcome"]) for report in reports] == [
        (0, 0, "completed"),
        (4, 1, "completed"),
    ]
    assert code == 0


def test_the_peak_is_mindspores_own_to_the_byte(two_stages: tuple[list[dict[str, Any]], Path, int]) -> None:
    reports, keep, _ = two_stages
    for report in reports:
        own = json.loads((keep / f"rank_{report['rank']}/result.json").read_text())
        assert report["used_peak_bytes"] == own["max_memory_allocated_bytes"]
        assert report["reserved_bytes"] == own["max_memory_reserved_bytes"]
        assert report["with_fragments_peak_bytes"] >= report["used_peak_bytes"]


def test_what_holds_each_peak_adds_up_and_stands_on_the_page(
    two_stages: tuple[list[dict[str, Any]], Path, int],
) -> None:
    reports, keep, _ = two_stages
    page = (keep / "cluster.html").read_text(encoding="utf-8")
    for report in reports:
        parts = {part["part"]: part["bytes"] for part in report["peak"]["at"]["parts"]}
        assert sum(parts.values()) == report["used_peak_bytes"] >= report["peak"]["rest"]["used_bytes"]
        assert parts["weights"] > 0
        assert report["peak"]["at"]["when"]
        assert f"stage {report['stage']} (rank {report['rank']})" in page


def test_a_child_tells_its_steps_and_who_waits_what_it_does(two_stages: tuple[list[dict[str, Any]], Path, int]) -> None:
    _, keep, _ = two_stages
    told = (keep / "told").read_text().splitlines()
    for rank in (0, 4):
        result = json.loads((keep / f"rank_{rank}/result.json").read_text())
        assert result["steps"] == trace_folder.read(keep / f"rank_{rank}", rank).num_steps
        assert result["is_trained"] is True
        assert "Status record: start optimize action" in (keep / f"rank_{rank}/worker.log").read_text(errors="replace")
        assert [line for line in told if line.startswith(f"rank {rank}: building the model")]
        assert [line for line in told if line.startswith(f"rank {rank}: compiling")]


def test_each_rank_moves_what_its_own_layers_decide(two_stages: tuple[list[dict[str, Any]], Path, int]) -> None:
    reports, _, _ = two_stages
    moved = [{move["layer"] for move in report["moved"] if move["tensors"]} for report in reports]
    assert moved == [{"0", "1"}, {"2", "3"}]
    assert all(report["host_bytes"] for report in reports)


def test_trace_files_and_record_are_kept(two_stages: tuple[list[dict[str, Any]], Path, int]) -> None:
    _, keep, _ = two_stages
    for rank in (0, 4):
        names = {path.name for path in (keep / f"rank_{rank}").iterdir()}
        assert names >= {
            "memory_block.csv",
            "task.csv",
            "tracker_graph.ir",
            "execute_order.csv",
            "worker.log",
            "run.json",
        }
    record = json.loads((keep / "rank_0/run.json").read_text())
    assert record["report"]["outcome"] == "completed"
    assert record["environment"]["mindspore"]


@pytest.mark.thorough
def test_compare_takes_the_kept_run_and_makes_the_other_one(
    two_stages: tuple[list[dict[str, Any]], Path, int], tmp_path: Path
) -> None:
    """The kept run is example 4 itself; only example 2 is dry-run here."""
    reports, keep, _ = two_stages
    (tmp_path / EXAMPLE.stem).symlink_to(keep, target_is_directory=True)
    other = EXAMPLE.with_name("example2_layer_swap.yaml")
    command = [
        sys.executable,
        "-m",
        "swapconf",
        "compare",
        str(EXAMPLE),
        str(other),
        "--keep",
        str(tmp_path),
        "--format",
        "json",
        "--html",
        str(tmp_path / "compare.html"),
        *changes(),
    ]
    before = (keep / "rank_0/run.json").stat().st_mtime_ns
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout, done.stderr
    first, second = json.loads(done.stdout)
    assert (keep / "rank_0/run.json").stat().st_mtime_ns == before
    assert [rank["figures"]["used_peak_bytes"] for rank in first["ranks"]] == [
        report["used_peak_bytes"] for report in reports
    ]
    for found in (first, second):
        assert (found["pipeline"]["stages"], found["pipeline"]["micro_batches"]) == (2, 2)
        figures = [rank["figures"] for rank in found["ranks"]]
        assert all(0 < rank["bubble_us"] < rank["step_us"] for rank in figures)
        assert all(rank["moved_bytes"] > 0 for rank in figures)
    assert first["overall"]["figures"]["recomputed_operations"] > second["overall"]["figures"]["recomputed_operations"]
    assert "step-1" in (tmp_path / "compare.html").read_text(encoding="utf-8")


def test_the_documented_lines_stand_in_the_log(two_stages: tuple[list[dict[str, Any]], Path, int]) -> None:
    reports, _, _ = two_stages
    assert reports[0]["strategy_lines"][:2] == [
        "Set select recompute at layer 0: feed_forward",
        "Set op_swap at layer 0: .attention, value=20",
    ]


@pytest.mark.thorough
def test_a_model_that_cannot_be_built_is_quoted_at_level_0_and_a_right_one_compiles() -> None:
    right = dryrun("--level", "0", "--ranks", "0")
    assert [report["outcome"] for report in json.loads(right.stdout)] == ["compiled"]
    wrong = dryrun("--level", "0", "--ranks", "0", "--set", "model.model_config.hidden_size=66")
    (report,) = json.loads(wrong.stdout)
    assert report["outcome"] == "stopped with an error"
    assert "Error" in report["detail"]
    assert wrong.returncode == 1


def test_heads_that_the_ranks_cannot_share_out_are_told_before_a_run_which_stops_in_the_foreseen_words() -> None:
    heads = ("--level", "0", "--ranks", "0", "--set", "parallel_config.model_parallel=8")
    told = dryrun(*heads)
    assert (told.returncode, told.stdout) == (1, "")
    assert "[tensor-parallel]" in told.stderr
    plain = dryrun(*heads, "--plain")
    (report,) = json.loads(plain.stdout)
    assert report["outcome"] == "stopped with an error"
    assert "must be a multiple of" in report["detail"]


FOLDED = (
    "model.model_config.hidden_size=64",
    "model.model_config.num_heads=4",
    "model.model_config.num_layers=14",
    "model.model_config.seq_length=64",
    "model.model_config.vocab_size=128",
    "model.model_config.multiple_of=16",
    "swap_config.swap=False",
    "recompute_config.select_recompute=False",
    "recompute_config.recompute=[1, 0]",
    "parallel_config.data_parallel=1",
    "parallel_config.model_parallel=1",
    "parallel_config.pipeline_stage=2",
    "parallel_config.micro_batch_num=10",
)


@pytest.mark.thorough
def test_layers_and_micro_batches_from_fewer_of_both() -> None:
    """Every figure is known from the whole model, too: 14 layers in 2 stages, 10 micro-batches."""
    words = [word for setting in FOLDED for word in ("--set", setting)]
    base = [sys.executable, "-m", "swapconf", "dryrun", str(EXAMPLE), "--ranks", "0", "--no-cache", "--format", "json"]
    started = [
        subprocess.Popen([*base, *words, *more], stdout=subprocess.PIPE, text=True)
        for more in (["--fold", "--jobs", "1"], ["--no-fold"])
    ]
    (folded,), (whole,) = (json.loads(process.communicate(timeout=600)[0]) for process in started)
    assert folded["folded"][:3] == [4, 5, 4]
    assert "3 and 4 of 10 micro-batches" in folded["fold_note"]
    assert whole["folded"] is None
    assert folded["used_peak_bytes"] == pytest.approx(whole["used_peak_bytes"], rel=0.001)
    for same in ("host_bytes", "moved", "recomputed", "strategy_lines"):
        assert folded[same] == whole[same]


@pytest.mark.thorough
def test_level_3_without_cann_is_level_1_with_estimates(
    two_stages: tuple[list[dict[str, Any]], Path, int], tmp_path: Path
) -> None:
    """The same run once more: MindSpore's own files are those of level 1, and the estimates stand beside them."""
    reports, _, _ = two_stages
    done = dryrun("--level", "3", "--ranks", "0", "--hardware", "ascend_910b2", "--keep", str(tmp_path))
    (report,) = json.loads(done.stdout)
    own = json.loads((tmp_path / "rank_0/result.json").read_text())
    assert own["max_memory_allocated_bytes"] == reports[0]["used_peak_bytes"] < report["used_peak_bytes"]
    assert report["origin"] == "dry run level 3, workspace estimated, times for Ascend 910B2"
    assert report["moved"] == reports[0]["moved"]
    assert trace_folder.read(tmp_path / "rank_0/level_2", rank=0).used_peak_bytes == report["used_peak_bytes"]
    (view,) = (tmp_path / "rank_0/level_3").glob("*_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json")
    assert mistakes(loads(view.read_text())) == []


@pytest.mark.thorough
def test_the_documented_launch_is_a_dry_run_where_the_environment_says_so_also_without_the_data(tmp_path: Path) -> None:
    words = [f"--model.model_config.{item}" for item in TINY]
    command = f"run_mindformer.py --config {EXAMPLE} --run_mode train --use_parallel True {' '.join(words)}"
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / "msrun_launcher.sh"), command, "8", str(free_port()), "log", "True", "300"],
        cwd=tmp_path,
        env={**os.environ, "MS_SIMULATION_LEVEL": "1", "RANK_ID": "0", "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    log = (tmp_path / "log" / "worker_0.log").read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, done.stdout + done.stderr + log[-3000:]
    assert "Used peak memory usage" in log
