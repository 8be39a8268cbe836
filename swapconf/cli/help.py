"""The class of every command, and what ``--help`` prints: in the language in use, as wide as characters are shown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from swapconf.cli import language
from swapconf.cli.common import EXIT_UNREADABLE, print_findings
from swapconf.words import docstrings, phrases
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import mark, phrase, show, translated

HEADINGS = (mark("Options:"), mark("Commands:"))  # as click writes them
_USAGE = mark("Usage:")
OF_HELP = "Show this message and exit."

_RAW = "\b"  # the line by which click knows a paragraph that stays as it is
# a word, or a character of a script without blanks; a line neither begins with what closes nor ends with what opens
_PIECE = r"\s+|[（《“]*(?:[\x21-\x7e]+|\S)[，。；：、）》”！？]*"


def paragraphs(text: str | None) -> Iterator[str]:
    """Of a help text: prose as one line each, other blocks as they are, after a line with ``\\b``."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        if part:
            yield part if part.startswith(_RAW) else " ".join(part.split())


def summary(command: click.Command) -> str:
    """One sentence in English."""
    return next(paragraphs(command.help), "")


def texts(command: click.Command) -> Iterator[str]:
    """All that can be translated of a command, in English."""
    yield from (part for part in paragraphs(command.help) if not part.startswith(_RAW))
    yield from (option.help for option in command.params if isinstance(option, click.Option) and option.help)
    yield OF_HELP


class Formatter(click.HelpFormatter):
    """click's own in English. It counts every character as one column and breaks lines at blanks, which other
    languages do not have."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, translated(_USAGE) + " " if prefix is None else prefix)

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{translated(f'{heading}:')}\n")

    def write_text(self, text: str) -> None:
        if phrases.in_use() == phrases.ENGLISH:
            super().write_text(text)
            return
        indent = " " * self.current_indent
        parts = (
            part.split("\n")[1:] if part.startswith(_RAW) else wrapped(translated(part), self.width - len(indent))
            for part in paragraphs(text)
        )
        self.write("\n\n".join("\n".join(f"{indent}{line}" for line in lines) for lines in parts) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        listed = list(rows)
        if phrases.in_use() == phrases.ENGLISH:
            super().write_dl(listed, col_max, col_spacing)
            return
        column = min(max(len(term) for term, _ in listed), col_max) + col_spacing
        indent, margin = " " * self.current_indent, " " * (self.current_indent + column)
        for term, text in listed:
            lines = wrapped(_with_extra(text), max(self.width - len(margin), 10))
            if len(term) > column - col_spacing:
                self.write(f"{indent}{term}\n")
                self.write("".join(f"{margin}{line}\n" for line in lines))
            else:
                self.write(f"{indent}{term:<{column}}" + f"\n{margin}".join(lines) + "\n")


def _with_extra(text: str) -> str:
    """The help of an option, with what click adds to it: ``[default: text; required]``."""
    said, bracket, extra = ("", "[", text[1:]) if text.startswith("[") else text.partition("  [")
    if not bracket:
        return translated(text)
    parts = []
    for part in extra.removesuffix("]").split("; "):
        word, colon, value = part.partition(": ")
        parts.append(
            show(phrase("default: {value}", value=value))
            if colon and word == "default"
            else show(phrase("required"))
            if part == "required"
            else part
        )
    return f"{translated(said)}  [{'; '.join(parts)}]".lstrip()


def wrapped(text: str, width: int) -> Sequence[str]:
    """Lines of at most ``width`` columns, if no word is longer."""
    from rich.cells import cell_len  # English needs nothing of it

    lines = [""]
    for piece in re.findall(_PIECE, text):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] = (lines[-1] + piece).lstrip()
    return [line.rstrip() for line in lines]


class Context(click.Context):
    formatter_class = Formatter


class PassingOn(click.Command):
    """A command whose arguments are another program's."""

    context_class = Context

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if self.help is None and self.callback is not None:  # Python was asked to drop docstrings
            self.help = docstrings.of(self.callback)


class Command(PassingOn):
    """A command with ``--lang``."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.append(language.option())

    def invoke(self, context: click.Context) -> Any:
        """Where a command cannot go on, what is wrong is said here, whichever command it is."""
        try:
            return super().invoke(context)
        except SwapconfError as error:
            if not error.findings:
                raise click.ClickException(str(error)) from None
            print_findings(error.findings, err=True)
            raise SystemExit(EXIT_UNREADABLE) from None

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(context, help_last(args, self.get_help_option_names(context)))


def help_last(args: Sequence[str], names: Iterable[str]) -> list[str]:
    """So that `--help --lang zh` is in that language: click prints as soon as it meets ``--help``."""
    wanted = set(names)
    end = args.index("--") if "--" in args else len(args)
    return [*sorted(args[:end], key=wanted.__contains__), *args[end:]]
