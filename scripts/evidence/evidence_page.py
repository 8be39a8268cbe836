"""RESULT -> the opening of a page of evidence: what was found, in at most two sentences and ten rows.

How it was made, each single case and the history of the page come after it, in this order.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST_ROWS = 10
WIDTH = 120
HISTORY = "## History"


def opening(
    title: str, result: str, head: Sequence[str], rows: Sequence[Sequence[str]], comment: str = ""
) -> Iterator[str]:
    """Lines. ``result``: at most two sentences. ``comment``: who makes the page, for whoever edits it.

    Raises:
        ValueError: the table is no summary.
    """
    if len(rows) > MOST_ROWS:
        raise ValueError(f"{title}: {len(rows)} rows, where a page opens with {MOST_ROWS} at most")
    if comment:
        yield f"<!-- {comment} -->"
    yield from (f"# {title}", "", *paragraph(result), *table(head, rows))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines, with an empty one behind them."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def paragraph(text: str, indent: str = "") -> Iterator[str]:
    """Lines, with an empty one behind them. ``indent``: of all but the first."""
    yield from textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    yield ""


def kept(page: Path, heading: str = HISTORY) -> list[str]:
    """Lines of the page from this heading on, behind an empty one: written by hand, so they stay. None where it has no
    such heading."""
    lines = page.read_text(encoding="utf-8").rstrip().splitlines() if page.exists() else []
    return ["", *lines[lines.index(heading) :]] if heading in lines else []


def put(page: Path, heading: str, text: str) -> None:
    """The section of this heading, in place of the one that the page has, or behind all others."""
    before = page.read_text(encoding="utf-8").rstrip()
    old = "\n".join(section(page, heading)).rstrip()
    after = before.replace(old, text.rstrip()) if old else f"{before}\n\n{text}"
    page.write_text(after.rstrip() + "\n", encoding="utf-8")


def section(page: Path, heading: str) -> list[str]:
    """Lines of the page from this heading to the next one; none where it has no such heading."""
    lines = kept(page, heading)[1:]
    return lines[: next((place for place, line in enumerate(lines) if place and line.startswith("## ")), len(lines))]
