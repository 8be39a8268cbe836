r"""sequence-parts: ``seq_split_num`` above 1 of a legacy Llama where mindformers or MindSpore stops.

The layers are built for parts of a sequence whenever it is above 1 (models/llama/llama.py:117), but the trainer cuts
sequences with stages alone (trainer/base_trainer.py:519); MindSpore then stops at shapes that do not fit, as it does
where a sequence is no multiple of it. mindformers itself stops beside whole layers that are recomputed, whatever their
list is (:521), ``calculate_per_token_loss`` (:525), ``use_eod_attn_mask_compression`` and ``use_ring_attention``
(models/llama/llama.py:121). Dry runs of mindformers 1.9.0 with MindSpore 2.9.0: so with each of them, and a run of two
stages with none of them completes. mcore models refuse it with stages, and have no parts without.

Fails: ``seq_split_num: 2`` with ``pipeline_stage: 1``. Passes: ``seq_split_num: 2`` with ``pipeline_stage: 2``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import sequence_parts, size
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.conditional import SEQUENCE_PARTS
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "sequence-parts"
_RECOMPUTE, _BY_TOKEN = "recompute_config.recompute", "calculate_per_token_loss"
_NO_SUCH_SHAPE = "need to broadcast|accumulate of x_shape"
_IN_MODEL = ("use_eod_attn_mask_compression", "use_ring_attention")


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    parts = sequence_parts(config, case.network)
    if parts == 1:
        return
    if config.pipeline.num_stages == 1 or config.given.get("use_parallel") is False:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(SEQUENCE_PARTS),
            phrase(
                "`seq_split_num: {parts}` needs `use_parallel: True` and `pipeline_stage` 2 or more: the layers are "
                "built for parts of a sequence, which only stages get, and MindSpore stops at shapes that do not fit",
                parts=parts,
            ),
            phrase("write `seq_split_num: 1`, or `pipeline_stage: 2` or more"),
            stops_with=_NO_SUCH_SHAPE,
        )
        return
    yield from _refused_beside(case, parts)
    length = size(config, "seq_length")
    if length is not None and length.value % parts:
        yield finding(
            RULE,
            Severity.ERROR,
            length.origin,
            phrase(
                "a sequence of {length} is no multiple of `seq_split_num: {parts}`, and MindSpore stops at shapes that "
                "do not fit",
                length=length.value,
                parts=parts,
            ),
            phrase("write a `seq_split_num` that divides it"),
            stops_with=_NO_SUCH_SHAPE,
        )


def _refused_beside(case: Case, parts: int) -> Iterator[Finding]:
    given = case.config.given
    settings = case.config.model.settings
    refused = [
        (_RECOMPUTE, bool(given.get(_RECOMPUTE)), "cannot apply full recompute"),
        (_BY_TOKEN, bool(given.get(_BY_TOKEN)), f"cannot apply {_BY_TOKEN}"),
        *(
            (f"model.model_config.{key}", settings.get(key) is True, f"the {key} cannot|{key} cannot")
            for key in _IN_MODEL
        ),
    ]
    for path, is_set, words in refused:
        if is_set:
            yield finding(
                RULE,
                Severity.ERROR,
                case.config.origin(path),
                phrase(
                    "`{key}` beside `seq_split_num: {parts}`: mindformers stops at the two together",
                    key=path.rpartition(".")[2],
                    parts=parts,
                ),
                phrase("remove it, or write `seq_split_num: 1`"),
                stops_with=words,
            )
