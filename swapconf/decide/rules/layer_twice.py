r"""layer-named-twice: a list of layers in swap_config that names a layer twice; the second time says nothing.

Often another layer was meant. In recompute_config a value that stands twice is rather a count (R3-list-meaning); in
PyNative mode it is refused. Reported: ``layers: [0, 0, 1]``. Passes: ``layers: [0, 1]``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from swapconf.config.config import LayerIndices, LayerSwap, ListedSwap, OpSwap
from swapconf.decide.rules.case import Case, finding, ranges
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "layer-named-twice"


def check(case: Case) -> Iterator[Finding]:
    swap = case.config.swap
    entries: tuple[LayerSwap | OpSwap, ...] = (*swap.layer_swap, *swap.op_swap) if isinstance(swap, ListedSwap) else ()
    for layers, origin in {(entry.layers, entry.layers_origin): None for entry in entries}:
        if isinstance(layers, LayerIndices) and len(set(layers.indices)) < len(layers.indices):
            twice = {index for index, times in Counter(layers.indices).items() if times > 1}
            yield finding(
                RULE,
                Severity.NOTE,
                origin,
                phrase("{layers}: named twice", layers=ranges(twice)),
                phrase("name each layer once; was another one meant?"),
            )
