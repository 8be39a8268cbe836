"""``swapconf fragmentation`` as a user calls it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.memory.allocators import POLICIES, mindspore
from swapconf.memory.fragmentation import causes, study
from swapconf.memory.fragmentation_findings import COMMUNICATOR_BYTES, Device, findings
from swapconf.trace.lifetimes import NEVER
from swapconf.words.units import GIB, MIB
from tests.helpers import TRACES, columns, invoke
from tests.unit.test_policies import blocks

RECOMPUTE = TRACES / "llama_l2_recompute"
CONFIG = Path(__file__).parents[2] / "configs/llama2_7b/example1_default_swap.yaml"


def run(*words: str | Path, environment: dict[str, str] | None = None) -> Result:
    return invoke("fragmentation", *words, environment=environment)


def record(*words: str | Path) -> dict[str, Any]:
    result = run(RECOMPUTE, "--format", "json", *words)
    (row,) = json.loads(result.stdout)
    assert isinstance(row, dict)
    return row


def test_all_policies_and_the_lower_bound_are_shown() -> None:
    result = run(RECOMPUTE)
    assert result.exit_code == 0
    first = [line.split()[0] for line in result.output.splitlines() if line]
    assert [name for name in first if name in (*POLICIES, "lower")] == [*POLICIES, "lower"]
    assert "mindspore (in use)" in result.output


def test_memory_fragmentation_makes_lifetime_the_policy_in_use() -> None:
    assert "lifetime (in use)" in run(RECOMPUTE, environment={"MEMORY_FRAGMENTATION": "1"}).output


def test_json_has_the_figures_of_the_replay() -> None:
    row = record()
    assert row["replay"]["exact"]
    found = {entry["policy"]: entry for entry in row["policies"]}
    assert found["mindspore"]["mapped_bytes"] == mindspore.place(columns("llama_l2_recompute")).mapped_bytes
    assert all(entry["gap_bytes"] == entry["mapped_bytes"] - row["lower_bound_bytes"] for entry in found.values())
    assert len(row["causes"]) == 5
    assert row["confirmed"] is None


def test_the_folder_above_the_only_rank_will_do(tmp_path: Path) -> None:
    shutil.copytree(RECOMPUTE, tmp_path / "rank_3")
    (tmp_path / "rank_3" / "run.json").write_text(json.dumps({"report": {"rank": 3}}))
    (row,) = json.loads(run(tmp_path, "--format", "json").stdout)
    assert row["rank"] == 3
    shutil.copytree(RECOMPUTE, tmp_path / "rank_7")
    result = run(tmp_path)
    assert result.exit_code == 2
    assert f"name one of {tmp_path}/rank_3, {tmp_path}/rank_7" in result.stderr


def test_a_folder_without_a_trace(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "has no memory_block.csv" in result.stderr


def test_an_unknown_pool_is_told(tmp_path: Path) -> None:
    target = tmp_path / "rank_0"
    shutil.copytree(RECOMPUTE, target)
    lines = (target / "memory_block.csv").read_text().splitlines()
    cells = lines[600].split(",")
    cells[2] = hex(int(cells[2], 16) + 512)
    (target / "memory_block.csv").write_text("\n".join([*lines[:600], ",".join(cells), *lines[601:], ""]))
    result = run(target)
    assert result.exit_code == 1
    assert "only 907 of 908 addresses" in result.output
    assert "no setting is recommended" in result.output
    (row,) = json.loads(run(target, "--format", "json").stdout)
    assert (row["best_block_gib"], row["mapped_bytes_by_block_gib"], row["findings"]) == (None, {}, [])


def test_a_yaml_that_has_no_place_for_the_setting(tmp_path: Path) -> None:
    bare = tmp_path / "bare.yaml"
    bare.write_text("model: {}\n")
    result = run(RECOMPUTE, "--confirm", bare)
    assert result.exit_code == 2
    assert "the file has no section `context`" in result.stderr


def test_nothing_is_confirmed_where_nothing_is_recommended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_an_unknown_pool_is_told(tmp_path)
    monkeypatch.setattr("swapconf.dryrun.fold.folded.dry_run", lambda order: pytest.fail("a dry run"))
    result = run(tmp_path / "rank_0", "--confirm", CONFIG)
    assert result.exit_code == 1
    assert "mempool_block_size" not in result.output


@pytest.mark.parametrize(("found_more", "exit_code"), [(0, 0), (512, 1)])
def test_confirm_dry_runs_the_recommended_block_size(
    monkeypatch: pytest.MonkeyPatch, found_more: int, exit_code: int
) -> None:
    predicted = mindspore.place(columns("llama_l2_recompute")).mapped_bytes
    asked = []

    def dry_run(order: Any) -> RankReport:
        asked.append(order)
        return RankReport(
            file="",
            rank=0,
            stage=0,
            level=1,
            outcome=RankOutcome.COMPLETED,
            with_fragments_peak_bytes=predicted + found_more,
        )

    monkeypatch.setattr("swapconf.dryrun.fold.folded.dry_run", dry_run)
    result = run(RECOMPUTE, "--confirm", CONFIG)
    assert result.exit_code == exit_code
    (order,) = asked
    assert order.document.root.get("context").get("mempool_block_size").scalar == "1GB"


# --- what is worth saying -------------------------------------------------------------------------------------------


def test_a_gap_of_a_gib_has_a_remedy() -> None:
    """Two tensors of 1.25 GiB are in pieces of 2 GiB each, so that one of 2.5 GiB does not fit when both are gone."""
    result = study(blocks((1, 3, 1280 * MIB), (2, 4, 1280 * MIB), (5, 6, 2560 * MIB)))
    assert result.placements["mindspore"].gap_bytes == 2560 * MIB
    assert result.best_block_gib == 4
    (finding,) = findings(result, "mindspore", Device(), "trace")
    assert finding.rule == "fragmentation-gap"
    assert "context.mempool_block_size to 4GB" in finding.hint
    assert "2.50G less" in finding.hint
    assert "MEMORY_FRAGMENTATION=1" in finding.hint


def test_a_gap_that_no_block_size_closes() -> None:
    """A small block above the hole keeps it from joining what is free above."""
    result = study(blocks((1, 4, 1536 * MIB), (2, NEVER, 256 * MIB), (5, 6, 1792 * MIB)))
    assert result.placements["mindspore"].gap_bytes == 1536 * MIB > GIB
    (finding,) = findings(result, "mindspore", Device(), "trace")
    assert "mempool_block_size" not in finding.hint
    assert "enable_vmm" in finding.hint


def test_a_small_gap_is_not_worth_a_finding() -> None:
    assert not list(findings(study(columns("llama_l2_recompute")), "mindspore", Device(), "trace"))


def test_the_collective_library_needs_its_part() -> None:
    result = study(columns("llama_l2_recompute"))
    tight = Device(device_bytes=64 * GIB, limit_bytes=64 * GIB - COMMUNICATOR_BYTES, num_communicators=2)
    (finding,) = findings(result, "lifetime", tight, "trace")
    assert finding.rule == "collectives-starved"
    assert "63GB" in finding.hint
    assert not list(findings(result, "mindspore", tight, "trace"))  # it takes what it needs
    assert not list(findings(result, "lifetime", Device(num_communicators=2), "trace"))


def test_the_block_above_a_hole_is_its_cause() -> None:
    live = blocks((1, 4, 20 * MIB), (2, NEVER, MIB), (5, 6, 25 * MIB))
    (cause,) = causes(live, mindspore.place(live))  # in the second piece; the first holds nothing
    assert (cause.hole_bytes, cause.size_bytes) == (20 * MIB, MIB)
    assert causes(blocks(), mindspore.place(blocks())) == ()
