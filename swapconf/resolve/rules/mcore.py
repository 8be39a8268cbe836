r"""mcore: settings that mindformers' mcore models (``use_legacy: False``) treat differently from the legacy ones.

mindformers 1.9.0 drops swap_config on the way to an mcore model (a note: under ``swapconf run`` it works), and refuses
recompute_slice_activation there (an error: the run would stop).
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.errors import Finding, Severity
from swapconf.phrases import phrase
from swapconf.resolve.rules.case import Case, finding

RULE = "mcore"


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    if config.model.legacy:
        return
    if config.recompute.recompute_slice_activation:
        yield finding(RULE, Severity.ERROR, config.origin("recompute_config.recompute_slice_activation"),
                      phrase("mcore models refuse recompute_slice_activation"), phrase("remove it or write False"))
    origin = config.origin("swap_config.swap")
    fact = case.versions.fact("mcore_drops_swap_config")
    if config.swap_on and fact.value and origin.path.startswith("swap_config"):
        yield finding(RULE, Severity.NOTE, origin,
                      phrase("plain mindformers {version} ignores swap_config for mcore models ({source})",
                             version=case.versions.mindformers, source=fact.source),
                      phrase("run it through swapconf, which applies it"))
