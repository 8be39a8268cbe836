r"""catalog-version: the catalog's operators are those of another mindformers, and may differ from the run's.

The operators of each family were read from the cells of one version. For some other versions they were read again and
compared (upstream/facts.py): where nothing differs, nothing is said. Where something does, or nobody compared, names
of operators and what `explain` shows are those of the catalog, and the run's own cells may have others.

Reported: a Qwen3 with ``--mindformers-version 1.8.0``. Passes: a legacy Llama with that version.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.facts import catalog_difference
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "catalog-version"


def check(case: Case) -> Iterator[Finding]:
    network, version = case.network, case.versions.mindformers
    if network is None or not network.family or not network.made_with or not case.asks_for_anything:
        return
    difference = catalog_difference(network.family, network.made_with, version)
    if difference:
        yield finding(
            RULE,
            Severity.NOTE,
            case.asked_at,
            phrase(
                "the operators of {family} are those of mindformers {made_with}; {difference}",
                family=network.family,
                made_with=network.made_with,
                difference=difference,
            ),
            phrase("a dry run shows what the real cells do: `swapconf dryrun`"),
        )
