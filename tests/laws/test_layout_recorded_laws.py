"""`swapconf layout` on a recorded trace under budgets from tight to roomy: laws of what it answers."""

from __future__ import annotations

import json
import shutil
from math import inf
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swapconf.cli import laying_out
from swapconf.cli.main import main
from tests.helpers import TRACES
from tests.unit.layouts import FIXED, RECORDED, Recorded

BUDGETS = ("318MB", "322MB", "326MB", "330MB", "338MB", "346MB", "64GB")
HOW = ("--hardware", "ascend_910b2", "--effort", "0.05", "--format", "json")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(laying_out, "reports", Recorded())
    return Path(shutil.copy(TRACES / "llama.yaml", tmp_path / "train.yaml"))


def answer(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, [*words, *HOW])
    assert result.exit_code in (0, 3), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def layouts(config: Path, budget: str, *more: str) -> list[dict[str, Any]]:
    keep = str(config.parent / "kept")
    words = ("layout", str(config), "--cards", "8", "--budget", budget, "--keep", keep, *FIXED, *more)
    rows: list[dict[str, Any]] = answer(*words)["layouts"]
    return rows


def step_us(rows: list[dict[str, Any]]) -> float:
    """Of the best that fits."""
    return min((row["step_us"] for row in rows if row["fits"]), default=inf)


def test_a_larger_budget_is_never_slower(config: Path) -> None:
    found = [step_us(layouts(config, budget)) for budget in BUDGETS]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1] > 0  # there is something to be won


@pytest.mark.parametrize("budget", BUDGETS)
def test_what_is_found_is_never_slower_than_the_plan_of_the_yamls_own_layout(config: Path, budget: str) -> None:
    own = answer("plan", str(config), "--budget", budget, "--from", str(RECORDED))
    assert own["fits"]
    assert step_us(layouts(config, budget)) <= own["step_us"]["plan_slower_link"]  # by which both choose


def test_more_may_be_varied_and_it_is_never_slower(config: Path) -> None:
    for budget in ("322MB", "338MB"):
        few = step_us(layouts(config, budget, "--fix", "enable_parallel_optimizer", "--fix", "batch_size"))
        assert step_us(layouts(config, budget)) <= few
