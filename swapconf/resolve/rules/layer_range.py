r"""layer-out-of-range: a layer index that the model does not have.

Layers count from 0 over all pipeline stages; negative indices do not count from the end. mindformers ignores them
without a word. Fails with 4 layers: ``layers: [4]``, ``layers: [-1]``. Passes: ``layers: [3]``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config import LayerIndices, LayerSelection, ListedSwap
from swapconf.errors import Finding, Origin, Severity
from swapconf.resolve.rules.case import Case, finding

RULE = "layer-out-of-range"


def check(case: Case) -> Iterator[Finding]:
    count = case.config.model.num_layers
    for layers, origin in dict.fromkeys(_selections(case)):
        if not isinstance(layers, LayerIndices):
            continue
        wrong = sorted({index for index in layers.indices if index < 0 or (count is not None and index >= count)})
        if wrong:
            shown = ", ".join(map(str, wrong[:8])) + (", ..." if wrong[8:] else "")
            meant = ""
            if count is not None:
                near = [index + count if index < 0 else index - 1 for index in wrong]
                meant = f"the last layer is {count - 1}" + (f"; {near[0]} was probably meant" if len(wrong) == 1 and
                                                           0 <= near[0] < count else "") + "; "
            what = f"the model has {count} layers" if count is not None else "layers count from 0"
            yield finding(RULE, Severity.ERROR, origin, f"there is no layer {shown}: {what}",
                          f"{meant}remove or correct the index")


def _selections(case: Case) -> Iterator[tuple[LayerSelection, Origin]]:
    swap, recompute = case.config.swap, case.config.recompute
    if isinstance(swap, ListedSwap):
        yield from ((entry.layers, entry.layers_origin) for entry in (*swap.layer_swap, *swap.op_swap))
    if recompute.full is not None:
        yield recompute.full.layers, recompute.full.origin
    for entry in (*recompute.select, *recompute.select_comm, *recompute.select_exclude, *recompute.select_comm_exclude):
        yield entry.layers, entry.origin
