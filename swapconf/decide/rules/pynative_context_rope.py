r"""pynative-context-rope: context parallelism with fused rotary embeddings, in PyNative mode.

Each rank then has positions of its own for each sequence, which the fused operator does not take: mindformers stops
while it parallelizes the model. Texts that are packed, with a compressed mask of their ends, are one sequence, and go
through it. Source: mindformers 2.0.0 and 2.1.0, pynative/base_models/gpt/parallelize.py,
apply_context_parallel_attention. Sparse attention, and embeddings that are not `rope`, are not judged.

Fails: ``parallelism: {context_parallel: 2}`` with ``model: {apply_rope_fusion: True}``. Passes: ``apply_rope_fusion:
False``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-context-rope"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    config, model = case.config, case.config.model.section
    is_judged = not config.model.has_sparse_attention and model.get("position_embedding_type", "rope") == "rope"
    is_parted = config.pipeline.context_parallel > 1 and not config.packs_sequences
    if is_parted and is_judged and model.get("apply_rope_fusion") is True:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("model.apply_rope_fusion"),
            phrase("mindformers stops: fused rotary embeddings do not go with context parallelism"),
            phrase("write `apply_rope_fusion: False`, or pack texts with `create_compressed_eod_mask: True`"),
        )
