"""Tables for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from swapconf.report.findings_text import printable

_NO_LIMIT = 10_000


def print_rows(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    in_words: Collection[str],
    *,
    styles: Iterable[str] | None = None,
    title: str | None = None,
) -> None:
    """Rows under a head. ``in_words``: the names of the columns that hold words; the others hold figures and stand on
    the right. ``styles``: one for each row. No cell is read as markup, and none commands the terminal. On a terminal as
    wide as it is; in a pipe no line is folded and none ends in spaces."""
    names, cells = [printable(name) for name in head], [[printable(cell) for cell in row] for row in rows]
    console = Console()
    room = console.width if console.is_terminal else _NO_LIMIT
    gap, widths = _layout([list(column) for column in zip(names, *cells, strict=True)], room)
    table = Table(
        title=title and printable(title), title_justify="left", box=None, pad_edge=False, padding=(0, gap, 0, 0)
    )
    for name, shown, width in zip(head, names, widths, strict=True):
        table.add_column(Text(shown), overflow="fold", width=width, justify="left" if name in in_words else "right")
    for row, style in zip(cells, styles if styles is not None else [""] * len(cells), strict=True):
        table.add_row(*(Text(cell, style=style) for cell in row))
    if console.is_terminal:
        console.print(table)
        return
    wide = Console(width=_NO_LIMIT)
    with wide.capture() as captured:
        wide.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _layout(columns: Sequence[Sequence[str]], room: int) -> tuple[int, Sequence[int | None]]:
    """The blanks between columns, and how wide each is: cells are broken between words as long as that suffices."""
    full = [max(map(cell_len, column)) for column in columns]
    least = [max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    for gap in (2, 1):
        spare = room - sum(least) - gap * (len(columns) - 1)
        if spare >= 0:
            widths: list[int | None] = list(least)
            for index in sorted(range(len(columns)), key=lambda index: full[index] - least[index]):
                more = min(spare, full[index] - least[index])
                widths[index], spare = least[index] + more, spare - more
            return gap, widths
    return 1, [None] * len(columns)
