"""Tables for a terminal or a pipe."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table


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
