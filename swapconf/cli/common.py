"""What several commands share: the version options and printing findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from swapconf.files.writing import write_named
from swapconf.report import findings_text as report
from swapconf.upstream.versions import BadVersion, checked
from swapconf.words.findings import Finding
from swapconf.words.phrases import phrase, show, with_values

if TYPE_CHECKING:
    from swapconf.study.study import Study

F = TypeVar("F", bound=Callable[..., Any])

EXIT_ERRORS = 1
EXIT_UNREADABLE = 2


def version_options(function: F) -> F:
    """``--mindspore-version`` and ``--mindformers-version``: what the run will use, if not what is installed here."""
    function = click.option(
        "--mindformers-version",
        metavar="V",
        callback=_version,
        help="mindformers of the run (default: the installed one, else 1.9.0).",
    )(function)
    return click.option(
        "--mindspore-version",
        metavar="V",
        callback=_version,
        help="MindSpore of the run (default: the installed one, else 2.9.0).",
    )(function)


def _version(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        return checked(str(parameter.name).removesuffix("_version"), value)
    except BadVersion as error:
        raise click.BadParameter(str(error)) from None


def set_option(function: F) -> F:
    """``--set`` and ``--unset``: what holds instead of the file, for one call; both as ``changes``."""

    @wraps(function)
    def command(*arguments: Any, changes: tuple[str, ...], removed: tuple[str, ...], **options: Any) -> Any:
        return function(*arguments, changes=(*changes, *(f"{name}=" for name in removed)), **options)

    chosen = click.option(
        "--unset",
        "removed",
        multiple=True,
        metavar="A.B.C",
        help="Leave out a key, as `--set A.B.C=` does; repeatable.",
    )(command)
    return cast(
        F,
        click.option(
            "--set",
            "changes",
            multiple=True,
            metavar="A.B.C=VALUE",
            help="Override a key of every YAML given; repeatable.",
        )(chosen),
    )


def format_option(text: str | None = None) -> Callable[[F], F]:
    """``--format``, as ``form``: text, or JSON for programs."""
    return click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help=text
    )


def as_one(name: str, kind: type[Any]) -> Callable[[F], F]:
    """The options that are named like the fields of a dataclass come to the command as one value of it."""
    names = [field.name for field in fields(kind)]

    def wrap(function: F) -> F:
        @wraps(function)
        def command(*arguments: Any, **options: Any) -> Any:
            one = kind(**{each: options.pop(each) for each in names if each in options})
            return function(*arguments, **options, **{name: one})

        return cast(F, command)

    return wrap


def register_option(function: F) -> F:
    """``--register-path``: as that of mindformers' own script; a relative path means the folder of the command."""
    return click.option(
        "--register-path",
        metavar="DIR",
        envvar="REGISTER_PATH",
        type=click.Path(file_okay=False, resolve_path=True),
        help="Folder with the code of `auto_register` (default: the variable REGISTER_PATH).",
    )(function)


def go_on(studied: Study, told: Iterable[Finding] = ()) -> None:
    """Say what is wrong with a YAML; end here where nothing may be started or predicted with it. ``told``: what was
    said already of another form of it, in which lines may be others."""
    said = {(finding.rule, finding.origin.path, finding.message) for finding in told}
    fresh = [one for one in studied.findings if (one.rule, one.origin.path, one.message) not in said]
    print_findings(fresh, err=True)
    if studied.is_refused:
        _start_nothing()
    needs_training(studied)


def stop(found: Sequence[Finding]) -> None:
    """Say why nothing is started, and end here, where something is found."""
    if found:
        print_findings(found, err=True)
        _start_nothing()


def _start_nothing() -> NoReturn:
    say(phrase("swapconf: nothing was started; correct the errors first"), err=True)
    raise SystemExit(EXIT_ERRORS)


def needs_training(studied: Study) -> None:
    """End here where one training is needed and the file is for something else; the message says what to name."""
    if studied.why_no_training:
        raise click.ClickException(studied.why_no_training)


def environment() -> dict[str, str]:
    return dict(os.environ)


def say(text: str, *, err: bool = False, fg: str | None = None, bold: bool = False) -> None:
    """Lines for a person. What names and files hold cannot command the terminal, or fail to be written."""
    click.secho(neutral(text), err=err, fg=fg, bold=bold)


def neutral(text: str) -> str:
    """The same lines with every character made visible; a line break in a name is none of them."""
    return "\n".join(map(report.printable, show(with_values(text, report.printable)).split("\n")))


def print_findings(findings: Sequence[Finding], *, err: bool = False) -> None:
    """One line each, coloured on a terminal."""
    for line, style in report.as_lines(findings):
        words = style.split()
        click.secho(line, fg=words[-1], bold="bold" in words, err=err)


def write_out(file: str | Path, text: str) -> None:
    """Write a file that the user named, whole or not at all, and say so."""
    with writing(file):
        write_named(Path(file), text)
    say(phrase("Wrote {file}", file=file), err=True)


@contextmanager
def writing(file: str | Path) -> Iterator[None]:
    """While a file is written that the user named; the message of a ClickException says why it cannot be."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(
            phrase("{file} cannot be written ({reason})", file=file, reason=error.strerror or error)
        ) from None
