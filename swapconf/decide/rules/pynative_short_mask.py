r"""pynative-short-mask: a compressed attention mask of sequences that are shorter than it, in PyNative mode.

With `use_attn_mask_compression` the model makes one mask of 2,048 x 2,048 positions, and mindformers stops while it
builds a model of shorter sequences, on one card, too. Source: mindformers 2.0.0 and 2.1.0, pynative/layers/
mask_generate.py, CausalMaskGenerate, which each GPTModel makes.

Fails: ``model: {seq_length: 1024, use_attn_mask_compression: True}``. Passes: ``seq_length: 2048``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-short-mask"
DIALECTS = PYNATIVE
_POSITIONS = 2048
_KEYS = ("use_attn_mask_compression", "use_eod_attn_mask_compression")


def check(case: Case) -> Iterator[Finding]:
    model = case.config.model.section
    length = model.get("seq_length")
    key = next((key for key in _KEYS if model.get(key) is True), None)
    if key is None or not isinstance(length, int) or length >= _POSITIONS:
        return
    yield finding(
        RULE,
        Severity.ERROR,
        case.config.origin(f"model.{key}"),
        phrase(
            "mindformers stops: a compressed attention mask is of {positions} positions, and seq_length is {length}",
            positions=_POSITIONS,
            length=length,
        ),
        phrase("train longer sequences, or write `context_parallel: 1`")
        if case.config.pipeline.context_parallel > 1
        else phrase("train longer sequences, or remove it"),
    )
