"""The language that a person reads: ``--lang``, else SWAPCONF_LANG, else the locale."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO

import click

from swapconf.cli.common import environment
from swapconf.words import phrases

_VARIABLE = "SWAPCONF_LANG"
_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")  # POSIX: the first that is set and not empty decides


def choose(context: click.Context, _parameter: click.Parameter, asked: str | None) -> None:
    """For the option, which `swapconf` itself has and every command after it."""
    if asked is not None:
        phrases.use(asked)
    elif context.parent is None:
        phrases.use(of_environment(environment(), sys.stdout))


def of_environment(variables: Mapping[str, str], stream: TextIO | None) -> str:
    """SWAPCONF_LANG as it is, if it is a language; the locale's where the stream can show it."""
    asked = variables.get(_VARIABLE, "")
    if asked in phrases.LANGUAGES:
        return asked
    language = next((variables[name] for name in _LOCALE if variables.get(name)), "")[:2]
    return language if language in phrases.LANGUAGES and _shows_chinese(stream) else phrases.ENGLISH


def _shows_chinese(stream: TextIO | None) -> bool:
    try:
        "中文".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def option() -> click.Option:
    return click.Option(
        ["--lang"],
        type=click.Choice(phrases.LANGUAGES),
        expose_value=False,
        is_eager=True,
        callback=choose,
        help="Language of messages (default: SWAPCONF_LANG, else the locale).",
    )
