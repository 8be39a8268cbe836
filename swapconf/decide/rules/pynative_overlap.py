r"""pynative-overlap: a layer or module that is both swapped and recomputed, in PyNative mode.

mindformers has no rule that one of the two wins, as MindSpore has in graph mode: its documentation says that it stops
(``_check_recompute_swap_overlap``); the released mindformers 2.0.0 and 2.1.0 do not look, and put both around the
layer. Under ``swapconf run``, and in a dry run, recompute wins: the swap of this layer or module is left out, and the
log says that it is skipped.

Fails: ``recompute: {mode: full, full_recompute_layer: ['0-3']}`` with ``layer_swap: [{layers: ['3-5']}]``.
Passes: ``layers: ['4-5']``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import OpSwap, SelectRecompute
from swapconf.decide.modules import layers_of, overlaps
from swapconf.decide.rules.case import PYNATIVE, Case, finding, ranges
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-overlap"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    count = case.config.num_named_layers
    for swap, recompute in overlaps(case.config):
        both = layers_of(swap.layers, count) & layers_of(recompute.layers, count)
        what = f"'{recompute.pattern}'" if isinstance(recompute, SelectRecompute) else phrase("the whole layer")
        mine = f"'{swap.pattern}'" if isinstance(swap, OpSwap) else phrase("the whole layer")
        yield finding(
            RULE,
            Severity.WARNING,
            swap.origin,
            phrase(
                "the swap of {module} has no effect in {layers}, where line {line} recomputes {other}; recompute wins "
                "under `swapconf run`, and mindformers alone does both",
                module=mine,
                layers=ranges(both),
                line=recompute.origin.line,
                other=what,
            ),
            phrase("take these layers out of one of the two"),
        )
