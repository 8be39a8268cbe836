r"""swap-is-off: swap settings that have no effect because ``swap`` is False or missing.

Reported: ``swap_config: {layer_swap: [...]}``. Passes: the same with ``swap: True``.
A note where ``swap: False`` is written, a warning where ``swap`` is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "swap-is-off"


def check(case: Case) -> Iterator[Finding]:
    if case.config.swap_on:
        return
    written = "swap_config.swap" in case.config.origins
    for key in ("layer_swap", "op_swap"):
        path = f"swap_config.{key}"
        if path in case.config.origins:
            yield finding(
                RULE,
                Severity.NOTE if written else Severity.WARNING,
                case.config.origin(path),
                phrase("no effect: `swap` is False")
                if written
                else phrase("no effect: `swap` is missing, and so False"),
                phrase("write `swap: True` to use it, or remove it"),
            )
