r"""layer-out-of-range: a layer index that the model does not have.

Layers count from 0 over all pipeline stages; negative indices do not count from the end. mindformers ignores them
without a word; in PyNative mode, where layers for multi-token prediction follow the others, it stops.

Fails with 4 layers: ``layers: [4]``, ``layers: [-1]``. Passes: ``layers: [3]``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import LayerIndices, LayerSelection, LayerSwap, ListedSwap, OpSwap
from swapconf.decide.rules.case import EVERY_DIALECT, Case, finding
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import joined, phrase, plural

RULE = "layer-out-of-range"
DIALECTS = EVERY_DIALECT


def check(case: Case) -> Iterator[Finding]:
    count = case.config.num_named_layers
    for layers, origin in dict.fromkeys(_selections(case)):
        if not isinstance(layers, LayerIndices):
            continue
        wrong = sorted({index for index in layers.indices if index < 0 or (count is not None and index >= count)})
        if wrong:
            shown = ", ".join(map(str, wrong[:8])) + (", ..." if wrong[8:] else "")
            gone = plural(len(wrong), "there is no layer {layers}", "there are no layers {layers}", layers=shown)
            why = (
                phrase("layers count from 0")
                if count is None
                else plural(count, "the model has {count} layer", "the model has {count} layers")
            )
            yield finding(RULE, Severity.ERROR, origin, joined(": ", (gone, why)), _hint(wrong, layers.indices, count))


def _hint(wrong: list[int], given: tuple[int, ...], count: int | None) -> str:
    """Off by one, or counted from the end, is the usual mistake."""
    if not count:
        return phrase("remove or correct the index")
    near = wrong[0] + count if wrong[0] < 0 else wrong[0] - 1
    if len(wrong) == 1 and 0 <= near < count and near not in given:
        return phrase(
            "the last layer is {last}; {near} was probably meant; remove or correct the index",
            last=count - 1,
            near=near,
        )
    return phrase("the last layer is {last}; remove or correct the index", last=count - 1)


def _selections(case: Case) -> Iterator[tuple[LayerSelection, Origin]]:
    swap = case.config.swap
    if isinstance(swap, ListedSwap):
        entries: tuple[LayerSwap | OpSwap, ...] = (*swap.layer_swap, *swap.op_swap, *swap.unusable)
        yield from ((entry.layers, entry.layers_origin) for entry in entries)
    yield from ((entry.layers, entry.origin) for entry in case.recompute_entries())
