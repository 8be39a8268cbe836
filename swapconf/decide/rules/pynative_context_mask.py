r"""pynative-context-mask: context parallelism without the attention mask that it needs, in PyNative mode.

Each rank has a part of a sequence, and the mask must be one that attention makes itself: `use_attn_mask_compression`,
or `create_compressed_eod_mask` of a data set that packs texts. Without either mindformers stops while it parallelizes
the model. Sequences must then not be shorter than that mask: `pynative-short-mask`. DeepSeek sparse attention needs no
mask. Source: mindformers 2.0.0 and 2.1.0, pynative/distributed/context_parallel.py, apply_context_parallel_model_io.

Fails: ``parallelism: {context_parallel: 2}`` with ``model: {seq_length: 4096}``. Passes: ``model: {seq_length: 4096,
use_attn_mask_compression: True}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-context-mask"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    pipeline, model = case.config.pipeline, case.config.model.section
    if pipeline.context_parallel == 1 or case.config.model.has_sparse_attention:
        return
    if model.get("use_attn_mask_compression") is not True and not case.config.packs_sequences:
        yield finding(
            RULE,
            Severity.ERROR,
            case.config.origin("parallelism.context_parallel"),
            phrase("mindformers stops: context parallelism needs a compressed attention mask, which is not on"),
            phrase(
                "write `use_attn_mask_compression: True` into model, or `create_compressed_eod_mask: True` for a "
                "data set that packs texts"
            ),
        )
