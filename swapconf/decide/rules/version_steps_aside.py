r"""version-steps-aside: a mindformers under which `swapconf run` leaves everything to mindformers.

swapconf takes the place of mindformers' layer setting where it finds every name that it needs, else nowhere; it then
says so, and the run goes on as plain mindformers. That is so with mindformers 1.6.0. What plain mindformers refuses or
reads otherwise then is so in the run, too.

Fails: ``--mindformers-version 1.6.0``. Passes: ``--mindformers-version 1.7.0``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "version-steps-aside"


def check(case: Case) -> Iterator[Finding]:
    fact = case.versions.fact("run_steps_aside")
    if fact.value and case.asks_for_anything:
        yield finding(
            RULE,
            Severity.WARNING,
            case.asked_at,
            phrase(
                "`swapconf run` cannot apply this with mindformers {version} and leaves it to mindformers ({source})",
                version=case.versions.mindformers,
                source=fact.source,
            ),
            phrase("train with mindformers 1.7.0 or later"),
        )
