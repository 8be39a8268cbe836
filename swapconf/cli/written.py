"""PLAN -> YAML: what was planned as text of the YAML, shown and written; shared by the commands that plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swapconf.cli.common import say
from swapconf.words.phrases import phrase
from swapconf.words.units import show_bytes

if TYPE_CHECKING:
    from swapconf.plan.confirmed import ConfirmedRank
    from swapconf.plan.frontier import AnyPlan, Frontier


@dataclass(frozen=True, kw_only=True)
class Written:
    """The YAML ``before`` and ``after`` a plan; after it "" where it cannot be rewritten, and ``why_not`` tells.
    ``confirmed``: by rank, where there were true runs of it."""

    before: str
    after: str
    why_not: str = ""
    confirmed: tuple[ConfirmedRank, ...] = ()

    @property
    def is_refuted(self) -> bool:
        """Whether a true run needs more than is allowed."""
        return not all(rank.fits for rank in self.confirmed)


def print_difference(file: str, made: Written) -> None:
    from swapconf.cli import fixing

    if made.after:
        fixing.print_difference(file, made.before, made.after)


def say_why_not(reason: str) -> None:
    """Nothing where there is none."""
    if reason:
        say(phrase("what was planned cannot be written into the YAML: {reason}", reason=reason), err=True)


def print_confirmed(made: Written) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report import plan_text

    if made.confirmed:
        say(phrase("confirmed by dry runs of all stages:"))
        print_rows(*plan_text.confirmation(made.confirmed))


def print_frontier(frontier: Frontier[AnyPlan]) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report.plan_chart import chart, points

    for line in chart(frontier):
        say(line)
    print_rows(*points(frontier))


def needs_more(found: Sequence[ConfirmedRank]) -> str:
    """Of the rank that is over by most."""
    worst = max(found, key=lambda one: one.pool_bytes - one.most_bytes)
    return phrase(
        "rank {rank}: the true run takes {true} with fragments where {predicted} was predicted, and may take {most}; "
        "planning again with that in mind",
        rank=worst.rank,
        true=show_bytes(worst.pool_bytes),
        predicted=show_bytes(worst.predicted_pool_bytes),
        most=show_bytes(worst.most_bytes),
    )


def write(file: str, made: Written, changes: Sequence[str] = ()) -> None:
    """Nothing where the file says it already, or cannot be rewritten. ``changes``: by which it was read, and which it
    may not say."""
    from swapconf.cli.fixing import write_text
    from swapconf.config import base_config, overrides

    if not made.after:
        return
    if made.after != made.before:
        write_text(file, made.after)
        say(phrase("written: {file}", file=file), err=True)
    if left := overrides.unsaid(base_config.of_text(made.after, file), changes):
        say(
            phrase(
                "the plan holds with what --set and --unset changed, which {file} does not say; write that into it, "
                "too: {changes}",
                file=file,
                changes=", ".join(left),
            ),
            err=True,
        )
