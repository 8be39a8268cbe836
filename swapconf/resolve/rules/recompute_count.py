r"""recompute-count: with swap off, recompute lists count layers per pipeline stage; this one does not fit the stages.

Fails with pipeline_stage 1: ``recompute: [1, 2]``. Passes: ``recompute: [2]`` (the first two layers of each stage).
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config import LayerCounts
from swapconf.errors import Finding, Severity
from swapconf.phrases import phrase
from swapconf.resolve.requests import stage_map
from swapconf.resolve.rules.case import Case, finding
from swapconf.resolve.stages import BadDeal

RULE = "recompute-count"


def check(case: Case) -> Iterator[Finding]:
    layers = case.network.num_layers if case.network else case.config.pipeline.num_stages
    stages = stage_map(case.config, layers)
    told = set()
    for entry in case.recompute_entries():
        if not isinstance(entry.layers, LayerCounts) or entry.origin in told:
            continue
        told.add(entry.origin)
        negative = [count for row in entry.layers.counts for count in row if count is not None and count < 0]
        if negative:
            yield finding(RULE, Severity.ERROR, entry.origin,
                          phrase("a count of layers cannot be {number}", number=negative[0]),
                          phrase("write 0 or more; with swap off these are counts per stage, not layer indices"))
        try:
            stages.selected(entry.layers)
        except BadDeal as error:
            yield finding(RULE, Severity.ERROR, entry.origin,
                          phrase("with swap off this counts layers per stage: {why}", why=error),
                          phrase("give one count for each stage; to choose layers by index, use `swap: True`"))
