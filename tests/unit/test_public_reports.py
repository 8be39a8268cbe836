"""Public reports, rebuilt small in tests/reports/public, are answered as docs/evidence/public-reports.md tells."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.helpers import ROOT, invoke

FOLDER = ROOT / "tests" / "reports" / "public"
REPORTS = yaml.safe_load((FOLDER / "reports.yaml").read_text(encoding="utf-8"))


def told(report: dict[str, Any]) -> list[str]:
    folder = FOLDER / report["name"]
    if kept := report.get("kept"):
        return [(folder / name).read_text(encoding="utf-8") for name in kept]
    return [
        invoke(*(folder / word if (folder / word).exists() else word for word in words)).output
        for words in report["runs"]
    ]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["name"])
def test_a_public_report_is_answered_as_it_was_judged(report: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "400")
    lines = [line for text in told(report) for line in text.splitlines()]
    assert [part for part in report["says"] if not any(part in line for line in lines)] == []


def test_each_report_has_a_row_and_a_verdict_with_its_reason() -> None:
    page = (ROOT / "docs/evidence/public-reports.md").read_text(encoding="utf-8")
    for report in REPORTS:
        assert report["asked"] in page
        assert report["judged"] == "right" or report["note"]


def test_each_input_is_of_a_report() -> None:
    assert {folder.name for folder in FOLDER.iterdir() if folder.is_dir()} == {report["name"] for report in REPORTS}
