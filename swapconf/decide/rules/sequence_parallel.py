r"""sequence-parallel: ``use_seq_parallel`` of an mcore model without the ranks for it, or with a sequence that is no
multiple of them, or missing where experts need it.

mindformers 1.7.0 to 1.9.0 stops without ``model_parallel`` (parallel_core/model_parallel_config.py:144). It does not
look at the length; MindSpore stops while it compiles, in words that name neither ("AddExt extract configured layout
failed"; measured at level 0 with 2.9.0). Layers with experts stop with ``model_parallel`` and without it
(training_graph/transformer/moe/moe_layer.py:143, from 1.6.0 to 2.1.0). Legacy models train without ``model_parallel``;
nothing is said of them.

Fails: ``use_seq_parallel: True`` with ``model_parallel: 1``. Passes: ``model_parallel: 2``, ``seq_length: 4096``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import EXPERT_LAYER, Layout, heads_fit, layout_of_mcore, size
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "sequence-parallel"
_ASKED = ("parallel_config.use_seq_parallel", "parallel_config.sequence_parallel")


def check(case: Case) -> Iterator[Finding]:
    config, layout = case.config, layout_of_mcore(case)
    if layout is None:
        return
    if not config.pipeline.sequence_parallel:
        yield from _of_experts(case, layout)
        return
    length = size(config, "seq_length")
    if layout.tensors == 1:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(*_ASKED),
            phrase("`use_seq_parallel: True` needs `model_parallel` 2 or more, and mcore models stop without it"),
            phrase("write `use_seq_parallel: False`, or `model_parallel: 2` or more"),
            stops_with="Can not use sequence parallelism without tensor parallelism",
        )
    elif length is not None and length.value % layout.tensors and layout.by_hand and heads_fit(case, layout):
        fitting = length.value // layout.tensors * layout.tensors
        yield finding(
            RULE,
            Severity.ERROR,
            length.origin,
            phrase(
                "a sequence of {length} is no multiple of `model_parallel: {parts}`, whose ranks share it out with "
                "`use_seq_parallel`: MindSpore cannot compile it",
                length=length.value,
                parts=layout.tensors,
            ),
            phrase(
                "write {fewer} or {more}, and the same length where the data is read",
                fewer=fitting,
                more=fitting + layout.tensors,
            ),
            stops_with="extract configured layout failed",
        )


def _of_experts(case: Case, layout: Layout) -> Iterator[Finding]:
    layers = case.network.layers if case.network is not None else ()
    has_experts = any(layer.template.name == EXPERT_LAYER for layer in layers)
    if layout.tensors > 1 and has_experts and heads_fit(case, layout):
        yield finding(
            RULE,
            Severity.ERROR,
            case.config.origin(*_ASKED, "parallel_config.model_parallel"),
            phrase("experts need `use_seq_parallel: True` with `model_parallel` 2 or more: mindformers stops without"),
            phrase("write `use_seq_parallel: True`, or `model_parallel: 1`"),
            stops_with="without also enabling sequence parallelism",
        )
