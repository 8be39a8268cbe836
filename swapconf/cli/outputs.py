"""The files that a command is told to write: what stands in the way of one is told before the work is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from swapconf.cli.common import writing
from swapconf.files.writing import check_writable
from swapconf.words import extras

F = TypeVar("F", bound=Callable[..., Any])


class OutFile(click.Path):
    """A file to write; one that could not be written is refused while the command line is read."""

    def __init__(self, *, path_type: type = str) -> None:
        super().__init__(path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        with writing(value):
            check_writable(Path(value))
        return super().convert(value, param, ctx)


class Page(OutFile):
    """A page of HTML, which needs an extra."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if lacking := extras.missing("report", "--html"):
            raise click.ClickException(lacking)
        return super().convert(value, param, ctx)


OUT_FILE = OutFile(path_type=Path)


def html_option(what: str) -> Callable[[F], F]:
    """``--html``. ``what``: the page shows, for the help."""
    return click.option(
        "--html", type=Page(), metavar="FILE", help=f"Write one page with {what}; it opens without a network."
    )
