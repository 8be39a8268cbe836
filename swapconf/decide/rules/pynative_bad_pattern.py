r"""pynative-bad-pattern: a module path that is not a usable regular expression, in PyNative mode.

The whole path is one regular expression there. Fails: ``op_name: '(mlp'``. Passes: ``op_name: '.*mlp'``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.module_paths import compiled
from swapconf.decide.patterns import BadPattern
from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-bad-pattern"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    for entry in case.patterns():
        try:
            compiled(entry.pattern)
        except BadPattern as error:
            yield finding(
                RULE,
                Severity.ERROR,
                entry.origin,
                str(error),
                phrase("write a module path such as 'mlp' or 'self_attention\\.core_attention'"),
            )
