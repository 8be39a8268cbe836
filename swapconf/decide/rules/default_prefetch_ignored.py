r"""default-prefetch-ignored: default_prefetch beside layer_swap or op_swap, which replace the default strategy.

Source: documented. Fails: ``{swap: True, default_prefetch: 9, layer_swap: [...]}``.
Passes: the same without ``default_prefetch``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import ListedSwap
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "default-prefetch-ignored"
KEY = "swap_config.default_prefetch"


def check(case: Case) -> Iterator[Finding]:
    if isinstance(case.config.swap, ListedSwap) and KEY in case.config.origins:
        yield finding(
            RULE,
            Severity.WARNING,
            case.config.origin(KEY),
            phrase("not used: layer_swap or op_swap replaces the default strategy, each entry has its own prefetch"),
            phrase("remove default_prefetch, or remove both lists for the default strategy"),
        )
