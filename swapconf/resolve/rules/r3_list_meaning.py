r"""R3-list-meaning: with swap on, lists in recompute_config name layers; with swap off they count layers per stage.

The same list can so mean different layers before and after ``swap`` is switched. This note appears whenever it does.
Source: documented (Fine-Grained Activations SWAP, rule 3), measured with mindformers 1.9.0.

Reported: ``recompute: [2]`` with ``swap: True`` (layer 2; with swap off: the first two layers of the stage).
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config import LayerCounts, LayerIndices
from swapconf.errors import Finding, Severity
from swapconf.phrases import phrase
from swapconf.resolve.requests import stage_map
from swapconf.resolve.rules.case import Case, finding, ranges
from swapconf.resolve.stages import BadDeal

RULE = "R3-list-meaning"


def check(case: Case) -> Iterator[Finding]:
    if case.network is None or not case.config.swap_on:
        return
    stages = stage_map(case.config, case.network.num_layers)
    for entry in case.recompute_entries():
        if not isinstance(entry.layers, LayerIndices):
            continue
        now = stages.selected(entry.layers)
        counted = LayerCounts(counts=(entry.layers.indices,), per_interleave=False)
        try:
            then = stages.selected(counted)
        except BadDeal as error:
            message = phrase("swap is on, so this list names {layers}; as counts per stage, with swap off, it would "
                             "not be accepted ({why})", layers=ranges(now), why=error)
        else:
            if now == then:
                continue
            message = phrase("swap is on, so this list names {layers}; as counts per stage, with swap off, it would "
                             "mean {others}", layers=ranges(now), others=ranges(then))
        yield finding(RULE, Severity.NOTE, entry.origin, message,
                      phrase("nothing to do if layers were meant; adapt the list whenever `swap` is switched"))
