"""Every page of docs/evidence opens with its result: two sentences at most, and a table of ten rows at most."""

from __future__ import annotations

import re
from pathlib import Path

import evidence_page
import pytest

from tests.helpers import ROOT

PAGES = sorted((ROOT / "docs/evidence").glob("*.md"))
NOT_YET = {"pynative"}  # its script has the older form
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])")


def parts(page: Path) -> list[str]:
    """Title, result, table and what follows."""
    text = re.sub(r"\A<!--.*?-->\n", "", page.read_text(encoding="utf-8"))
    return text.split("\n\n")


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in NOT_YET], ids=lambda page: page.stem)
def test_a_page_opens_with_its_result_in_two_sentences_and_a_short_table(page: Path) -> None:
    title, result, table, *_ = parts(page)
    assert title.startswith("# ")
    assert len(_SENTENCE.split(result)) <= 2
    assert re.search(r"\d", result), "a result has a figure"
    rows = table.splitlines()
    assert all(row.startswith("|") for row in rows)
    assert len(rows) - 2 <= evidence_page.MOST_ROWS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_history_is_the_end_of_a_page(page: Path) -> None:
    _, _, behind = page.read_text(encoding="utf-8").partition(f"\n{evidence_page.HISTORY}\n")
    assert "\n## " not in behind


def test_a_table_of_more_rows_is_no_opening() -> None:
    with pytest.raises(ValueError, match="11 rows"):
        list(evidence_page.opening("Title", "1 of 1.", ("a",), [("1",)] * 11))


def test_what_was_written_by_hand_is_kept_when_a_page_is_made_again(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert list(evidence_page.kept(page)) == []
    page.write_text("# Title\n\n## History\n\nSeed 7 came first.\n", encoding="utf-8")
    assert list(evidence_page.kept(page)) == ["", "## History", "", "Seed 7 came first."]
