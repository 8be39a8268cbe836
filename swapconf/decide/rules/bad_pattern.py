r"""bad-pattern: an operator pattern that is not a usable regular expression.

Each element between two ``\.`` is a regular expression of its own. Fails: ``(attention``. Passes: ``attention``.
In single quotes YAML keeps every backslash, so one is enough: ``'attention\\.wq'`` fails, ``'attention\.wq'`` passes.
Patterns are bounded in length, repetitions and time, so that none can hang a check.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.patterns import BadPattern, compiled, matches, single_backslashes
from swapconf.decide.rules.case import Case, finding, usable
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "bad-pattern"


def check(case: Case) -> Iterator[Finding]:
    for entry in case.patterns():
        try:
            compiled(entry.pattern)
            for template in case.templates:
                matches(entry.pattern, template)
        except BadPattern as error:
            plain = single_backslashes(entry.pattern)
            hint = (
                phrase("a backslash too many: write '{pattern}' (in single quotes) instead", pattern=plain)
                if plain and usable(plain)
                else phrase("correct the pattern; brackets that belong to a name need a backslash")
            )
            yield finding(
                RULE,
                Severity.ERROR,
                entry.origin,
                phrase("'{pattern}' cannot be used: {why}", pattern=entry.pattern[:60], why=error),
                hint,
            )
