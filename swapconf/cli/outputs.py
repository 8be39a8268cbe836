"""The files that a command is told to write: what stands in the way of one is told before the work is done."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from swapconf.cli.common import writing
from swapconf.files.writing import check_writable
from swapconf.words import extras

if TYPE_CHECKING:
    from swapconf.report.next_steps import Asked

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


_HOW_SHOWN = frozenset({"html", "form", "only_diff", "write", "confirm", "frontier"})
_OF_THE_YAML = frozenset({"file", "changes", "removed", "register_path"})


def asked_again() -> Asked:
    """The command line as it was given, but for how the answer is shown: what a next step asks is the same question."""
    from swapconf.report.next_steps import Asked

    context = click.get_current_context()
    told = {
        param.name: list(_words(param, context.params[param.name]))
        for param in context.command.params
        if param.name is not None and context.get_parameter_source(param.name) is click.core.ParameterSource.COMMANDLINE
    }
    again = [word for name, words in told.items() if name not in _HOW_SHOWN for word in words]
    yaml = [word for name, words in told.items() if name in _OF_THE_YAML for word in words]
    return Asked(
        again=shlex.join(["swapconf", context.info_name or "", *again]),
        dry_run=shlex.join(["swapconf", "dryrun", *yaml]),
    )


def _words(param: click.Parameter, value: Any) -> Iterator[str]:
    """What says the value of a parameter on the command line."""
    if isinstance(param, click.Option) and param.is_flag:
        yield param.opts[0] if value else param.secondary_opts[0]
        return
    for each in value if isinstance(value, tuple) else (value,):
        yield from (param.opts[0], str(each)) if isinstance(param, click.Option) else (str(each),)
