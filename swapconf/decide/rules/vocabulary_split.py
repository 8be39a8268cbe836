r"""vocabulary-split: a vocabulary that the ranks of ``model_parallel`` cannot share out.

An mcore model stops at it in semi-automatic mode, in words that name neither ("numerator(4097) is not divisible by
denominator(2)"): mindformers 1.7.0 to 1.9.0, ``VocabParallelEmbedding._init_embedding_rearrangement``
(parallel_core/training_graph/tensor_parallel/layers.py:119, utils.py:46). A legacy Llama trains, with the whole head
and loss on every rank (a note; models/llama/llama.py:527, :556).

Fails: ``vocab_size: 4097`` with ``model_parallel: 2``. Passes: ``vocab_size: 4098``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import READ_SINCE, heads_fit, layout_of, size
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "vocabulary-split"
_WHOLE = "llama"  # the legacy family of which it is known


def check(case: Case) -> Iterator[Finding]:
    layout, words = layout_of(case.config), size(case.config, "vocab_size")
    if layout is None or words is None or case.network is None or words.value % layout.tensors == 0:
        return
    if not heads_fit(case, layout):
        return  # model_parallel is wrong, and another rule says so
    padded = -(-words.value // layout.tensors) * layout.tensors
    if case.config.model.legacy:
        if case.network.family == _WHOLE:
            yield finding(
                RULE,
                Severity.NOTE,
                words.origin,
                phrase(
                    "{words} words are no multiple of `model_parallel: {parts}`: every rank holds the whole head, and "
                    "computes the whole loss",
                    words=words.value,
                    parts=layout.tensors,
                ),
                phrase("a vocabulary padded to {padded} is shared out", padded=padded),
            )
    elif case.network.family is not None and layout.by_hand and reached(case.versions.mindformers, READ_SINCE):
        yield finding(
            RULE,
            Severity.ERROR,
            words.origin,
            phrase(
                "{words} words are no multiple of `model_parallel: {parts}`, and mcore models stop at that",
                words=words.value,
                parts=layout.tensors,
            ),
            phrase("pad the vocabulary to {padded}, or give `model_parallel` a number that divides it", padded=padded),
            stops_with=rf"numerator\({words.value}\) is not divisible by denominator\({layout.tensors}\)",
        )
