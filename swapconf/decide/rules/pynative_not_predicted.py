r"""pynative-not-predicted: what swapconf does not know of a PyNative run.

The catalog has the modules of Qwen3, DeepSeek-V3 and DeepSeek-V4, as mindformers 2.0.0 and 2.1.0 build them with usual
settings. Of another model, module paths are not checked, and are explained as they stand in the YAML. What is known of
graph mode (R1, R2, what a prefetch in operators costs, what a swap moves) is not applied. What memory takes,
`swapconf whatif` tells from a dry run; `swapconf plan` estimates times, too. A note, wherever something is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.modules import modules_of
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
            phrase("memory of PyNative runs is by `swapconf whatif` from a dry run alone, and times by `swapconf plan`")
            if modules_of(config, case.versions.mindformers)(0) is not None
            else phrase(
                "the catalog does not know the PyNative modules of this model: module paths are not checked, "
                "memory is by `swapconf whatif` from a dry run alone, and times by `swapconf plan`"
            ),
            phrase("structure, layers, prefetch (in layers) and overlaps are checked"),
        )
