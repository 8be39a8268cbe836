r"""catalog-version: the catalog has no operators of this mindformers; those of another one may differ from the run's.

The operators of each family were read from the cells of several releases (`swapconf families` lists them). For a
version that is not among them, the nearest earlier one answers: names of operators and what `explain` shows are those
of that release, and the run's own cells may have others.

Reported: a Qwen3 with ``--mindformers-version 3.0.0``. Passes: the same with 1.8.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.versions import same
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "catalog-version"


def check(case: Case) -> Iterator[Finding]:
    network, version = case.network, case.versions.mindformers
    if network is None or not network.family or not network.made_with or not case.asks_for_anything:
        return
    if not same(network.made_with, version):
        yield finding(
            RULE,
            Severity.NOTE,
            case.asked_at,
            phrase(
                "the operators of {family} are those of mindformers {made_with}; {difference}",
                family=network.family,
                made_with=network.made_with,
                difference=phrase("with those of {version} they were not compared", version=version),
            ),
            phrase("a dry run shows what the real cells do: `swapconf dryrun`"),
        )
