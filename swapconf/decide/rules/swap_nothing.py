r"""swap-nothing: swap is on, but an entry selects no layer, or the lists are empty, so that nothing is swapped.

Any list replaces the default strategy, an empty one too. Fails: ``layer_swap: []``, ``layers: []``, ``layers: False``.
Passes: leave the list out (default strategy), or name layers. An empty list beside lists of layers in recompute_config
passes, too: with swap off they would count layers per stage (R3-list-meaning).
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import LayerIndices, LayerSwap, ListedSwap, OpSwap
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "swap-nothing"


def check(case: Case) -> Iterator[Finding]:
    swap = case.config.swap
    if not isinstance(swap, ListedSwap):
        return
    entries: tuple[LayerSwap | OpSwap, ...] = (*swap.layer_swap, *swap.op_swap)
    for entry in entries:
        if entry.layers == LayerIndices(()):
            yield finding(
                RULE,
                Severity.WARNING,
                entry.layers_origin,
                phrase("this entry selects no layer"),
                phrase("list layer indices, write True for every layer, or remove the entry"),
            )
    names_layers = any(isinstance(entry.layers, LayerIndices) for entry in case.recompute_entries())
    if not swap.given_entries and not names_layers:
        origin = case.config.origin("swap_config.layer_swap", "swap_config.op_swap")
        yield finding(
            RULE,
            Severity.WARNING,
            origin,
            phrase("swap is on, but this list is empty: nothing is swapped, and it replaces the default strategy"),
            phrase("remove the key for the default strategy, or add entries"),
        )
