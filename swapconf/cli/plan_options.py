"""The options of commands that plan: what may be held, and how plans are judged and searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from swapconf.cli.numbers import Number

F = TypeVar("F", bound=Callable[..., Any])
_MOST_EFFORT = 100


def budget_options(function: F) -> F:
    """``--budget``, ``--host-budget`` and ``--beside``."""
    for option in reversed(_BUDGET):
        function = option(function)
    return function


def judging_options(function: F) -> F:
    """``--slower-link``, ``--max-entries`` and ``--effort``."""
    for option in reversed(_JUDGING):
        function = option(function)
    return function


_BUDGET = (
    click.option("--budget", required=True, metavar="54GB", help="What each card may hold."),
    click.option("--host-budget", metavar="200GB", help="What each host may pin for copies (default: no limit)."),
    click.option(
        "--beside",
        metavar="4GB",
        help="What a card holds beside MindSpore's pool: driver, communication buffers. It counts in --budget. "
        "(default: what it holds at most, as far as --budget reaches into that.)",
    ),
)
_JUDGING = (
    click.option(
        "--slower-link",
        type=Number(0.0, 0.9),
        default=0.3,
        show_default=True,
        metavar="SHARE",
        help="Plans are judged with a host link that is slower by this share, because figures of cards are estimates.",
    ),
    click.option(
        "--max-entries", type=click.IntRange(1, 64), default=6, show_default=True, help="Entries of the YAML."
    ),
    click.option(
        "--effort",
        type=Number(0.05, _MOST_EFFORT),
        default=1.0,
        show_default=True,
        metavar="FACTOR",
        help="How many plans are tried, as a factor of the usual number.",
    ),
)
