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

from swapconf.config.config import LayerSwap, ListedSwap, OpSwap
from swapconf.decide.module_outcomes import OVERLAP
from swapconf.decide.modules import by_layer_in_parallel, modules_of
from swapconf.decide.rules.case import PYNATIVE, Case, finding, ranges
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import joined, phrase

RULE = "pynative-overlap"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    swap = case.config.swap
    if not isinstance(swap, ListedSwap):
        return
    lost: dict[tuple[str, str], list[int]] = {}  # (pattern, what is lost and why) -> layers
    for layer, here in by_layer_in_parallel(case.config, modules_of(case.config, case.versions.mindformers)):
        for one in here:
            if one.reason.rule == OVERLAP:
                what = joined(", ", [f"'{path}'" if path else phrase("the whole layer") for path in one.paths])
                said = phrase("the swap of {what} has no effect, {why}", what=what, why=one.reason.text)
                lost.setdefault((one.module, said), []).append(layer)
    entries: tuple[LayerSwap | OpSwap, ...] = (*swap.layer_swap, *swap.op_swap)
    told: set[str] = set()  # several entries of one pattern are decided together
    for entry in entries:
        pattern = entry.pattern if isinstance(entry, OpSwap) else ""
        for (module, swapped), layers in lost.items():
            if module == pattern and pattern not in told:
                yield finding(
                    RULE,
                    Severity.WARNING,
                    entry.origin,
                    phrase(
                        "in {layers} {said}; recompute wins under `swapconf run`, and mindformers alone does both",
                        layers=ranges(layers),
                        said=swapped,
                    ),
                    phrase("take these layers out of one of the two"),
                )
        told.add(pattern)
