"""Tables for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from swapconf.report.findings import printable


def print_rows(head: Sequence[str], rows: Iterable[Sequence[str]], in_words: Collection[str], *,
               styles: Iterable[str] | None = None, title: str | None = None) -> None:
    """Rows under a head. ``in_words``: the names of the columns that hold words; the others hold figures and stand on
    the right. ``styles``: one for each row. No cell is read as
    markup, and none commands the terminal."""
    table = Table(title=title and printable(title), title_justify="left", box=None, pad_edge=False)
    for name in head:
        table.add_column(Text(printable(name)), overflow="fold", justify="left" if name in in_words else "right")
    cells = list(rows)
    for row, style in zip(cells, styles if styles is not None else [""] * len(cells), strict=True):
        table.add_row(*(Text(printable(cell), style=style) for cell in row))
    print_table(table)


def print_table(table: Table) -> None:
    """On a terminal as wide as it is; in a pipe no line is folded and none ends in spaces."""
    console = Console()
    if console.is_terminal:
        console.print(table)
        return
    wide = Console(width=10_000)
    with wide.capture() as captured:
        wide.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
