"""A strategy that nobody chose, a new one with every commit: explain, cells, graph and log must agree.

What `whatif` predicts for it is told at the end of the test run, and fails nothing. A failure names the case:
``python scripts/evidence/agreement.py --case S:I --folder DIR`` runs it again.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from agreement import verdicts
from agreement_cases import cases
from agreement_page import WORST, line

from tests.conftest import TOLD
from tests.helpers import ROOT

pytestmark = pytest.mark.mindspore
CASES = 1
TIMEOUT_SECONDS = 600.0


def commit_seed() -> int:
    """Of the commit that is tested; outside of git always the same."""
    asked = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(asked.stdout.strip() or "1", 16)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    seed = commit_seed()
    return list(verdicts(cases(seed, CASES), tmp_path_factory.mktemp("agreement"), TIMEOUT_SECONDS))


def test_explain_cells_graph_and_log_agree(found: list[Any], record_property: Callable[[str, object], None]) -> None:
    assert len(found) == CASES
    for verdict in found:
        figures = verdict.figures
        off = figures is not None and max(abs(figures.error), abs(figures.inside_error)) > WORST
        record_property(TOLD, f"{line(verdict)}{f'  <-- more than {WORST:.0f} % off' if off else ''}")
    assert {f"{verdict.case.seed}:{verdict.case.number}": verdict.disagreements for verdict in found} == {
        f"{verdict.case.seed}:{verdict.case.number}": () for verdict in found
    }


def test_something_was_decided_in_every_case(found: list[Any]) -> None:
    for verdict in found:
        strategy = verdict.case.study.strategy
        assert any(outcome.sites for entry in strategy.layers for outcome in entry.plan.outcomes)
