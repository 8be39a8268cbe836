"""Levels 2 and 3 without a CANN: `swapconf dryrun` with a recorded trace in the child's place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.dryrun import environment, fan_out, report_cache
from swapconf.dryrun.child import Ran, kept
from swapconf.dryrun.fold import folded
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.memory.beside_of_trace import communication_part
from swapconf.memory.with_workspace import grow
from swapconf.profile import profiler_folder
from swapconf.study.study import Study
from swapconf.trace import trace_folder, trace_writer
from swapconf.trace.lifetimes import PoolRecord
from swapconf.trace.trace import Trace, WorkerLog
from swapconf.words.units import GIB, MIB
from tests.helpers import ROOT
from tests.unit.trace_event_rules import loads, mistakes

CONFIG = ROOT / "configs/small/example1_default_swap.yaml"
RECORDED = ROOT / "tests/traces/llama_l2_layerswap_n1"


@pytest.fixture
def recorded() -> Trace:
    return trace_folder.read(RECORDED, rank=0)


@pytest.fixture(autouse=True)
def mindspore(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: Trace) -> list[Trace]:
    """Puts a recorded trace into the child's place; the list may be changed to hold another one."""
    held = [recorded]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(order: RankOrder, study: Study, part: str = "") -> Ran:
        if order.keep is not None:
            kept(order.keep, order, part).mkdir(parents=True)
            for file in RECORDED.iterdir():
                shutil.copy(file, kept(order.keep, order, part))
        report = RankReport(file=order.document.file, rank=order.rank, stage=0, level=1, outcome=RankOutcome.COMPLETED)
        return Ran(report=report, log=WorkerLog(usable_bytes=60 * GIB), trace=held[0], reserved_bytes=2 * GIB)

    def in_this_process(orders: Sequence[RankOrder], jobs: int, dask: str | None = None) -> Iterator[RankReport]:
        yield from map(folded.dry_run, orders)

    monkeypatch.setattr(folded, "run", run)
    monkeypatch.setattr(fan_out, "dry_run_all", in_this_process)
    monkeypatch.setattr(environment, "prepare", lambda *_: None)
    return held


def dryrun(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["dryrun", str(CONFIG), "--ranks", "0", *map(str, words)])


def record(*words: str | Path) -> dict[str, Any]:
    result = dryrun("--format", "json", *words)
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_level_1_is_as_it_was(recorded: Trace) -> None:
    found = record("--level", "1")
    assert (found["used_peak_bytes"], found["reserved_bytes"]) == (recorded.used_peak_bytes, 2 * GIB)
    assert found["origin"] == "dry run level 1 (operator workspace excluded)"
    assert (found["workspace"], found["step_us"]) == ("", None)


def test_level_2_adds_workspace_and_says_that_it_is_estimated(recorded: Trace) -> None:
    found, expected = record("--level", "2"), grow(recorded, PoolRecord(reserved_bytes=2 * GIB))
    assert found["level"] == 2
    assert found["origin"] == "dry run level 2, workspace estimated"
    assert found["used_peak_bytes"] == expected.trace.used_peak_bytes > recorded.used_peak_bytes
    assert found["with_fragments_peak_bytes"] == expected.trace.with_fragments_peak_bytes
    assert found["reserved_bytes"] == expected.reserved_bytes == 2 * GIB  # as the run itself grew
    assert found["workspace_bytes"] == expected.workspace.size_bytes.max()
    assert found["workspace_kernel"] == "FlashAttentionScoreGrad"
    assert found["moved"] == record("--level", "1")["moved"]


def test_the_table_tells_what_is_not_in_it() -> None:
    text = dryrun("--level", "2").stdout
    assert "dry run level 2, workspace estimated; the largest is" in text
    assert "HCCL takes" in text
    assert "operator workspace is not included" not in text


def test_what_is_estimated_is_kept_apart_from_what_mindspore_wrote(tmp_path: Path, recorded: Trace) -> None:
    found = record("--level", "2", "--keep", tmp_path)
    original = tmp_path / "rank_0"
    assert (original / "memory_block.csv").read_bytes() == (RECORDED / "memory_block.csv").read_bytes()
    records = [json.loads((folder / "run.json").read_text()) for folder in (original, original / "level_2")]
    assert [item["level"] for item in records] == [1, 2]
    told = [item["report"] for item in records]
    assert [item["origin"] for item in told] == [
        "dry run level 1 (operator workspace excluded)",
        "dry run level 2, workspace estimated",
    ]
    assert [item["used_peak_bytes"] for item in told] == [recorded.used_peak_bytes, found["used_peak_bytes"]]
    shown = CliRunner().invoke(main, ["memory", str(original / "level_2"), "--format", "json"])
    (memory,) = json.loads(shown.stdout)
    assert memory["used_peak_bytes"] == found["used_peak_bytes"]
    assert memory["origin"] == "dry run level 2, workspace estimated"
    assert memory["categories"]["workspace"] > 0
    (plain,) = json.loads(CliRunner().invoke(main, ["memory", str(tmp_path), "--format", "json"]).stdout)
    assert plain["used_peak_bytes"] == recorded.used_peak_bytes


def test_level_3_adds_times_in_the_profilers_files(tmp_path: Path) -> None:
    found = record("--level", "3", "--hardware", "ascend_910b2", "--keep", tmp_path)
    assert found["origin"] == "dry run level 3, workspace estimated, times for Ascend 910B2"
    (output,) = (tmp_path / "rank_0" / "level_3").glob("*_ascend_ms/ASCEND_PROFILER_OUTPUT")
    assert mistakes(loads((output / "trace_view.json").read_text())) == []
    timeline = CliRunner().invoke(
        main, ["timeline", str(tmp_path / "rank_0" / "level_2"), "--hardware", "ascend_910b2", "--format", "json"]
    )
    assert json.loads(timeline.stdout)["step_us"] == pytest.approx(found["step_us"], abs=0.001)
    assert profiler_folder.read(output).kernels
    again = record("--level", "3", "--measured", output)
    assert again["step_us"] == pytest.approx(found["step_us"], rel=1e-4)  # as measured, whatever the card
    assert record("--level", "3")["step_us"] != pytest.approx(found["step_us"], rel=1e-2)


def test_workspace_that_cann_told_is_not_estimated(mindspore: list[Trace], recorded: Trace, tmp_path: Path) -> None:
    mindspore[0] = grow(recorded).trace
    found = record("--level", "2", "--keep", tmp_path)
    assert found["origin"] == "dry run level 2, workspace recorded"
    assert found["used_peak_bytes"] == mindspore[0].used_peak_bytes
    assert not (tmp_path / "rank_0" / "level_2").exists()


def test_without_a_graph_the_level_is_not_reached(mindspore: list[Trace], recorded: Trace) -> None:
    mindspore[0] = replace(recorded, tasks=())
    found = record("--level", "3")
    assert found["level"] == 1
    assert found["used_peak_bytes"] == recorded.used_peak_bytes
    assert "level-not-reached" in {item["rule"] for item in found["findings"]}


def test_a_budget_counts_workspace(recorded: Trace) -> None:
    budget = str(recorded.with_fragments_peak_bytes)
    assert dryrun("--level", "1", "--budget", budget).exit_code == 0
    assert dryrun("--level", "2", "--budget", budget).exit_code == 3


def test_levels_and_cards_are_cached_apart() -> None:
    first = record("--level", "2")
    assert not first["cached"]
    assert {**record("--level", "2"), "cached": False, "seconds": 0} == {**first, "seconds": 0}
    assert not record("--level", "1")["cached"]
    assert not record("--level", "3", "--hardware", "ascend_910b2")["cached"]
    assert record("--level", "3", "--hardware", "ascend_910b2")["cached"]
    assert not record("--level", "3", "--hardware", "ascend_910b3")["cached"]
    assert len(list(report_cache.folder().iterdir())) == 4


def test_a_folder_that_cannot_be_written_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace_writer, "write", full)
    result = dryrun("--level", "2", "--keep", tmp_path, "--format", "json")
    (found,) = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["outcome"] == RankOutcome.NO_SPACE.value


@pytest.mark.parametrize(("told", "buffer_mib"), [(None, 200), ("64", 64), ("many", 200)])
def test_hccl_takes_two_buffers_for_each_group(recorded: Trace, told: str | None, buffer_mib: int) -> None:
    groups = {kernel.group for kernel in recorded.step if kernel.group}
    assert len(groups) > 0
    variables = {} if told is None else {"HCCL_BUFFSIZE": told}
    assert communication_part(recorded, variables).most_bytes == 2 * buffer_mib * MIB * len(groups)


def test_a_card_that_does_not_exist_ends_with_2() -> None:
    assert dryrun("--level", "3", "--hardware", "nothing").exit_code == 2


@pytest.mark.parametrize(("level", "expected"), [(0, 0), (1, 1), (2, 1), (3, 1)])
def test_without_cann_mindspore_runs_at_level_1(monkeypatch: pytest.MonkeyPatch, level: int, expected: int) -> None:
    monkeypatch.setattr(environment, "find_cann", lambda _: None)
    assert environment.level_to_run({}, level) == expected


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_with_cann_mindspore_runs_at_the_level_that_was_asked_for(monkeypatch: pytest.MonkeyPatch, level: int) -> None:
    monkeypatch.setattr(environment, "find_cann", lambda _: "a real CANN")
    assert environment.level_to_run({}, level) == level


def test_workspace_is_that_of_the_card_its_cann_and_the_order_of_sums_and_says_so() -> None:
    large = record("--level", "2", "--hardware", "ascend_910b2")
    small = record("--level", "2", "--hardware", "ascend_910b4")
    assert small["workspace_bytes"] < large["workspace_bytes"]  # 20 and 24 cores
    assert large["workspace_for"].startswith("CANN 9.0, an Atlas A2 with 24 cube cores, ")
    assert small["workspace_for"].startswith("CANN 9.0, an Atlas A2 with 20 cube cores, ")
    free = record("--level", "2", "--set", "train_precision_sync=False")
    fixed = record("--level", "2", "--set", "train_precision_sync=True")
    assert free["workspace_bytes"] < fixed["workspace_bytes"]
    assert free["workspace_for"].endswith(", sums in any order")
    assert fixed["workspace_for"].endswith(", sums in a fixed order")
    assert "workspace is that of CANN 8.5, an Atlas A2 with 24" in dryrun("--level", "2", "--cann", "8.5").stdout
    assert dryrun("--level", "2", "--cann", "7.0").exit_code == 2


def test_level_2_of_another_card_or_cann_is_not_taken_from_the_cache() -> None:
    assert not record("--level", "2")["cached"]
    assert not record("--level", "2", "--hardware", "ascend_910b4")["cached"]
    assert not record("--level", "2", "--cann", "8.5")["cached"]
    assert record("--level", "2", "--cann", "8.5")["cached"]
    assert record("--level", "2", "--hardware", "ascend_910b1")["cached"]  # as many cores as the generic card


def test_a_budget_of_the_whole_card_counts_what_is_beside_the_pool_at_most(recorded: Trace) -> None:
    device = record("--level", "1")["device"]
    beside = device["most_bytes"] - device["parts"][0]["most_bytes"]
    assert device["card_bytes"] == 64 * GIB
    assert device["parts"][0]["most_bytes"] == recorded.with_fragments_peak_bytes
    assert 5 * GIB < beside < 10 * GIB
    assert dryrun("--level", "1", "--budget", "64GB").exit_code == 0


@pytest.mark.parametrize(("size", "code"), [(20, 0), (26, 3)])
def test_a_pool_that_leaves_too_little_of_the_card_is_over_any_budget_that_reaches_there(
    monkeypatch: pytest.MonkeyPatch, size: int, code: int
) -> None:
    monkeypatch.setattr(Trace, "with_fragments_peak_bytes", property(lambda self: size * GIB))
    small = ("--level", "1", "--hardware", "ascend_910b4", "--set", "context.max_device_memory=31GB")
    result = dryrun(*small, "--budget", "30GB")
    assert result.exit_code == code
    assert ("has left for MindSpore's pool" in result.stdout) == bool(code)
    assert dryrun(*small, "--budget", "30GB", "--hardware", "ascend_910b2").exit_code == 0


def test_what_is_beside_the_pool_is_told_and_comes_whole_from_the_cache() -> None:
    first, again = record("--level", "2"), record("--level", "2")
    assert again["cached"]
    assert first["device"] == again["device"]
    assert [part["part"] for part in first["device"]["parts"]] == [
        *("pool", "workspace", "communication", "idle", "runtime")
    ]
    assert "rank 0: a card holds " in dryrun("--level", "1").stdout


def test_level_3_tells_what_the_copies_ask_of_the_host() -> None:
    on = ("--level", "3", "--hardware", "ascend_910b2", "--set", "parallel_config.data_parallel=2")
    found = record(*on)
    assert found["host"]["pinned_bytes"] == found["host_bytes"]
    moved = sum(layer["bytes"] for layer in found["moved"])
    assert 0 < found["host"]["to_host_gbps"] >= moved / found["step_us"] / 1000
    assert found["host"]["cards"] == min(8, 2)
    assert record(*on) == {**found, "cached": True, "seconds": found["seconds"]}
    assert "rank 0: swap copies " in dryrun(*on).stdout
    assert record("--level", "2")["host"] is None


def test_without_copies_nothing_is_asked_of_the_host(mindspore: list[Trace]) -> None:
    mindspore[0] = trace_folder.read(ROOT / "tests/traces/llama_l2_none", rank=0)
    assert record("--level", "3")["host"] is None
