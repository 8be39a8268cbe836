r"""pynative-not-predicted: what swapconf does not know of a PyNative run.

swapconf's catalog holds the operators of graph mode. It has no modules of PyNative models, so module paths are not
checked, and layers and modules are explained as they stand in the YAML. What is known of graph mode (R1, R2, what a
prefetch in operators costs, what a swap moves) is not applied. What memory takes, `swapconf whatif` tells from a dry
run. A note, wherever something is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-not-predicted"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    if config.swap_on or case.recompute_entries():
        origin = config.origin("swap.enable", "recompute.mode", "recompute_comm.enable")
        yield finding(
            RULE,
            Severity.NOTE,
            origin,
            phrase(
                "swapconf has no catalog of PyNative modules: module paths are not checked against the "
                "model, times are not predicted, and memory is by `swapconf whatif` from a dry run alone"
            ),
            phrase("structure, layers, prefetch (in layers) and overlaps are checked"),
        )
