"""scripts/evidence/plan_exhaustive.py runs, and on two layers the search finds what trying all plans finds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers import TRACES


def test_of_two_layers_the_search_finds_the_best_plan_with_either_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import plan_exhaustive

    (tmp_path / "rank_0").symlink_to(TRACES / "llama_l2_none")
    line = ["plan_exhaustive.py", str(tmp_path), str(TRACES / "llama.yaml"), "--set", "swap_config.swap=False"]
    monkeypatch.setattr(sys, "argv", [*line, "--modes", "3", "--budgets", "3", "--most", "60"])
    plan_exhaustive.main()
    told = capsys.readouterr().out
    assert told.count("9 plans (") == 2
    assert told.count("equal on 3 of 3 budgets, worst gap 0.00 points") == 2
