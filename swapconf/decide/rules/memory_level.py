r"""memory-optimize-level: swap needs ``context.memory_optimize_level: "O0"``.

Documented (Somas does not support heterogeneous memory). Measured at O1: every copy is made, and the peak rises
(243.25 MB to 246.30 MB on a 3-layer Llama). Fails: ``memory_optimize_level: "O1"``. Passes: ``"O0"``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "memory-optimize-level"
KEY = "context.memory_optimize_level"


def check(case: Case) -> Iterator[Finding]:
    level = case.config.runtime.memory_optimize_level
    if case.config.swap_on and level not in (None, "O0"):
        yield finding(
            RULE,
            Severity.ERROR,
            case.config.origin(KEY),
            phrase(
                "with {level} swap costs memory instead of saving it: tensors are copied but not released", level=level
            ),
            phrase('write memory_optimize_level: "O0"'),
        )
