r"""version-pair: MindSpore and mindformers in versions that were not released for each other.

Every mindformers is released for one MindSpore (VERSION_MAP.json in its package): 1.6.0 for 2.7.0, 1.7.0 for 2.7.1,
1.8.0 for 2.7.2, 1.9.0 for 2.9.0, 2.0.0 for 2.10.0, 2.1.0 for 2.11.0. Other pairs may work: those that swapconf was
measured with are a note (docs/evidence/generations.md), others are a warning. The pair is what is installed, or given
with ``--mindspore-version``, ``--mindformers-version`` or in ``.swapconf.toml``; where only one of the two is known,
nothing is said.

Fails: mindformers 1.9.0 with MindSpore 2.7.2. Passes: 1.9.0 with 2.9.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import EVERY_DIALECT, Case, finding
from swapconf.upstream.facts import MEASURED_PAIRS
from swapconf.upstream.versions import partner, same
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "version-pair"
DIALECTS = EVERY_DIALECT
_UNPUBLISHED = "2.11.0"  # PyPI has MindSpore up to 2.10.0 (November 2026)


def check(case: Case) -> Iterator[Finding]:
    mindspore, mindformers = case.versions.mindspore, case.versions.mindformers
    official = partner("mindformers", mindformers)
    if official is None or same(official, mindspore) or case.versions.assumed or not case.asks_for_anything:
        return
    message = phrase(
        "mindformers {mindformers} is released for MindSpore {official}, not {mindspore} (VERSION_MAP.json)",
        mindformers=mindformers,
        official=official,
        mindspore=mindspore,
    )
    if any(same(mindformers, one) and same(mindspore, other) for one, other in MEASURED_PAIRS):
        hint = (
            phrase(
                "nothing to do: PyPI does not have MindSpore {official}, and swapconf was measured with this pair",
                official=official,
            )
            if official == _UNPUBLISHED
            else phrase("nothing to do: swapconf was measured with this pair, too")
        )
        yield finding(RULE, Severity.NOTE, case.asked_at, message, hint)
    else:
        yield finding(
            RULE,
            Severity.WARNING,
            case.asked_at,
            message,
            phrase(
                "install the official pair, or name the versions of the run with --mindspore-version and "
                "--mindformers-version"
            ),
        )
