r"""pynative-context-parts: a context parallelism that cannot share out the sequence, in PyNative mode.

Each rank gets an equal part of each sequence. `ulysses` exchanges heads among all ranks of it, so a degree of its own
must be the same; `hybrid` needs `ulysses_degree_in_cp`, which divides the degree and lies between 1 and it; `colossal`
has no asynchronous form. Otherwise mindformers stops, at the latest when the first batch comes. Source: mindformers
2.0.0 and 2.1.0, pynative/distributed/context_parallel.py, _validate_cp_method and prepare_context_parallel_input, and
pynative/base_models/gpt/parallelize.py, apply_context_parallel_attention.

Fails: ``parallelism: {context_parallel: 3}`` with ``model: {seq_length: 4096, use_attn_mask_compression: True}``.
Passes: ``context_parallel: 4``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-context-parts"
DIALECTS = PYNATIVE
_DEGREE = "parallelism.context_parallel"
_ULYSSES = "parallelism.ulysses_degree_in_cp"
_METHOD = "parallelism.context_parallel_method"


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    ranks, length = config.pipeline.context_parallel, config.model.section.get("seq_length")
    if ranks == 1:
        return
    if isinstance(length, int) and length % ranks:
        message = phrase(
            "mindformers stops: a sequence of {length} does not go into {ranks} equal parts", length=length, ranks=ranks
        )
        yield finding(
            RULE, Severity.ERROR, config.origin(_DEGREE), message, phrase("write a degree that divides seq_length")
        )
    method, inner = config.layout.method, config.layout.ulysses
    if method not in ("colossal", "ulysses", "hybrid"):
        message = phrase("mindformers stops: it has no context parallelism by '{method}'", method=method)
        hint = phrase("write colossal, ulysses or hybrid")
        yield finding(RULE, Severity.ERROR, config.origin(_METHOD), message, hint)
    elif method == "ulysses" and inner is not None and inner != ranks:
        message = phrase("mindformers stops: ulysses exchanges heads among all {ranks} ranks", ranks=ranks)
        hint = phrase("remove ulysses_degree_in_cp, or write `context_parallel_method: hybrid`")
        yield finding(RULE, Severity.ERROR, config.origin(_ULYSSES), message, hint)
    elif method == "hybrid" and (inner is None or not 1 < inner < ranks or ranks % inner):
        message = phrase(
            "mindformers stops: hybrid needs a ulysses_degree_in_cp that divides {ranks} and lies between 1 and it",
            ranks=ranks,
        )
        hint = phrase("write such a degree, or `context_parallel_method: ulysses`")
        yield finding(RULE, Severity.ERROR, config.origin(_ULYSSES, _METHOD), message, hint)
    elif method == "colossal" and config.layout.is_async and not config.model.has_sparse_attention:
        message = phrase("mindformers stops: colossal has no asynchronous form")
        hint = phrase("write `context_parallel_async: False`, or `context_parallel_method: ulysses`")
        yield finding(RULE, Severity.ERROR, config.origin("parallelism.context_parallel_async"), message, hint)
