r"""version-not-measured: a version of MindSpore or mindformers that swapconf was never measured with.

What was measured with the newest earlier version is taken to hold; swapconf then says what it takes, not what it knows.
Which versions were measured stands in docs/evidence/generations.md.

Reported: ``--mindspore-version 2.11.0``. Passes: ``--mindspore-version 2.10.0``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import EVERY_DIALECT, Case, finding
from swapconf.upstream.facts import MEASURED_MINDFORMERS, MEASURED_MINDSPORE
from swapconf.upstream.versions import reached, release, same
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "version-not-measured"
DIALECTS = EVERY_DIALECT


def check(case: Case) -> Iterator[Finding]:
    if not case.asks_for_anything:
        return
    for package, version, measured in (
        ("MindSpore", case.versions.mindspore, MEASURED_MINDSPORE),
        ("mindformers", case.versions.mindformers, MEASURED_MINDFORMERS),
    ):
        if any(same(version, one) for one in measured):
            continue
        before = [one for one in measured if release(version) is not None and reached(version, one)]
        message = (
            phrase(
                "{package} {version} was never measured; what holds for {taken} is taken to hold",
                package=package,
                version=version,
                taken=before[-1],
            )
            if before and before[-1] != measured[-1]
            else phrase(
                "{package} {version} is newer than any that was measured; what holds for {taken} is taken to hold",
                package=package,
                version=version,
                taken=measured[-1],
            )
            if before or release(version) is None
            else phrase(
                "{package} {version} is older than any that was measured; what is documented is taken to hold",
                package=package,
                version=version,
            )
        )
        yield finding(
            RULE,
            Severity.NOTE,
            case.asked_at,
            message,
            phrase("a dry run shows what this version does: `swapconf dryrun`"),
        )
