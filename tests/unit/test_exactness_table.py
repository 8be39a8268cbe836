"""docs/evidence/exactness.md takes new cases without the traces of the old ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.helpers import ROOT


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, on a copy of the page."""
    import exactness_table

    page = tmp_path / "exactness.md"
    page.write_text((ROOT / "docs/evidence/exactness.md").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(exactness_table, "PAGE", page)
    return exactness_table


def add(table: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "argv", ["exactness_table.py", str(folder), "--add"])
    with pytest.raises(SystemExit) as ended:
        table.main()
    return ended.value.code


def test_without_new_cases_the_page_stays(table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = table.PAGE.read_text(encoding="utf-8")
    assert not add(table, tmp_path, monkeypatch)
    assert table.PAGE.read_text(encoding="utf-8") == before


def test_a_case_takes_the_place_of_its_row(table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "llama512-l2.none"
    place.mkdir()
    (place / "run.json").write_text(
        json.dumps({"report": {"used_peak_bytes": 1001, "with_fragments_peak_bytes": 2000, "moved": []}})
    )
    (place / "result.json").write_text(json.dumps({"max_memory_allocated_bytes": 1000}))
    count = len(table.kept())
    assert add(table, tmp_path, monkeypatch)  # a byte differs
    text = table.PAGE.read_text(encoding="utf-8")
    assert "| llama512-l2 | none | 0 | 1,001 | 1,000 | 1 | 2,000 | 0 |" in text
    assert f"{count - 1} of {count} equal to the byte." in text
    assert len(table.kept()) == count
