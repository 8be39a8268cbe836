"""The files that a command is told to write: what stands in the way of one is told before the work is done."""

from __future__ import annotations

import shlex
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


_HOW_SHOWN = frozenset({"html", "form", "only_diff", "write", "confirm", "keep", "frontier", "widely"})


def asked_again() -> str:
    """The command line as it was given, but for how the answer is shown: what a next step asks is the same question."""
    context = click.get_current_context()
    words = ["swapconf", context.info_name or ""]
    for param in context.command.params:
        if param.name is None or param.name in _HOW_SHOWN:
            continue
        if context.get_parameter_source(param.name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[param.name]
        if isinstance(param, click.Option) and param.is_flag:
            words.append(param.opts[0] if value else param.secondary_opts[0])
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [param.opts[0], str(each)] if isinstance(param, click.Option) else [str(each)]
    return shlex.join(words)
