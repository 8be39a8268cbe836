r"""op-unescaped-dot: a path written with plain dots (or slashes), which matches nothing.

mindformers splits a pattern at backslash-dot; a plain dot is a wildcard inside one name. Quotes: in YAML, write
'attention\.flash_attention' (single quotes) or "attention\\.flash_attention" (double quotes).

Fails: ``op_name: attention.flash_attention``. Passes: ``op_name: 'attention\.flash_attention'``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.patterns import unescaped_dot
from swapconf.decide.rules.case import Case, finding, matched, usable
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "op-unescaped-dot"


def check(case: Case) -> Iterator[Finding]:
    for entry in case.patterns():
        if not usable(entry.pattern) or matched(entry.pattern, case.templates):
            continue
        repaired = next(filter(None, (unescaped_dot(entry.pattern, template) for template in case.templates)), None)
        if repaired:
            yield finding(
                RULE,
                Severity.ERROR,
                entry.origin,
                phrase(
                    r"'{pattern}' matches nothing: names are separated by \. (backslash, dot)", pattern=entry.pattern
                ),
                phrase("write '{pattern}'", pattern=repaired),
            )
