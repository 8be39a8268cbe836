r"""pynative-prefetch-range: a swapped layer whose prefetch partner would lie behind the last layer.

In PyNative mode ``default_prefetch`` counts layers: the activations of layer L start to return when the backward pass
reaches layer L + default_prefetch. That layer has to exist, so the last layers cannot be swapped. mindformers stops.
Source: mindformers 2.0.0, pynative/distributed/activation_checkpoint.py, _validate_layer_specs.

Fails with 8 layers: ``swap: {enable: True, default_prefetch: 1, layer_swap: [{layers: ['0-7']}]}``.
Passes: ``layers: ['0-6']``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import EveryLayer, LayerIndices, LayerSwap, ListedSwap, OpSwap
from swapconf.decide.rules.case import PYNATIVE, Case, finding, ranges
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-prefetch-range"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    count, swap = case.config.num_named_layers, case.config.swap
    if count is None or not isinstance(swap, ListedSwap):
        return
    entries: tuple[LayerSwap | OpSwap, ...] = (*swap.layer_swap, *swap.op_swap, *swap.unusable)
    for entry in entries:
        layers = (
            range(count)
            if isinstance(entry.layers, EveryLayer)
            else entry.layers.indices
            if isinstance(entry.layers, LayerIndices)
            else ()
        )
        late = [layer for layer in layers if count - entry.prefetch <= layer < count]
        if late:
            yield finding(
                RULE,
                Severity.ERROR,
                entry.layers_origin,
                phrase(
                    "{layers} cannot be swapped with default_prefetch {prefetch}: there is no layer "
                    "{missing} that would call the activations back",
                    layers=ranges(late),
                    prefetch=entry.prefetch,
                    missing=max(late) + entry.prefetch,
                ),
                phrase("end with layer {last}", last=count - entry.prefetch - 1)
                if count > entry.prefetch
                else phrase("lower default_prefetch"),
            )
