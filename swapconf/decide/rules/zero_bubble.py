r"""zero-bubble: ``pipeline_scheduler: zero_bubble_v`` without what an mcore model needs for it.

mindformers 1.7.0 to 1.9.0 stops (executed) unless there are 2 stages or more, ``pp_interleave_num`` is 2, there are two
micro-batches or more for each stage, and a list of ``recompute`` has one list for each of the two interleaves
(parallel_core/transformer_config.py:2299).

Fails: ``pp_interleave_num: 1``. Passes: ``pipeline_stage: 2``, ``pp_interleave_num: 2``, ``micro_batch_num: 4``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import LayerCounts
from swapconf.decide.layout import MICRO_BATCHES, layout_of_mcore
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.conditional import SCHEDULE, SCHEDULER, STAGES
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "zero-bubble"
_SCHEDULER = f"{SCHEDULE}.{SCHEDULER}"
_INTERLEAVES = tuple(
    f"model.model_config.{key}" for key in ("pp_interleave_num", "virtual_pipeline_model_parallel_size")
)
_STOPS_WITH = "When zero_bubble_v is enabled, "


def check(case: Case) -> Iterator[Finding]:
    config, pipeline = case.config, case.config.pipeline
    if not pipeline.zero_bubble_v or layout_of_mcore(case) is None:
        return
    if pipeline.num_stages < 2:
        yield _stop(
            config.origin(*STAGES, _SCHEDULER),
            phrase("zero_bubble_v needs 2 pipeline stages or more, and mcore models stop without them"),
            phrase("write `pipeline_stage: 2` or more, or remove `pipeline_scheduler`"),
            "pp must be greater",
        )
        return
    count = pipeline.num_interleaves
    if count != 2:
        yield _stop(
            config.origin(*_INTERLEAVES, _SCHEDULER),
            phrase("zero_bubble_v needs 2 interleaves, and mcore models stop at {count}", count=count),
            phrase("write `pp_interleave_num: 2` into `model_config`"),
            "pp_interleave_num must be",
        )
        return  # how recompute is to be listed follows from it
    batches, least = config.given.get(MICRO_BATCHES, 1), 2 * pipeline.num_stages
    if type(batches) is int and batches < least:
        yield _stop(
            config.origin(MICRO_BATCHES, _SCHEDULER),
            phrase(
                "zero_bubble_v needs two micro-batches or more for each stage, {least} for {stages}, and mcore models "
                "stop at {count}",
                least=least,
                stages=pipeline.num_stages,
                count=batches,
            ),
            phrase("write `micro_batch_num: {least}` or more", least=least),
            r"micro_batch_num\(",
        )
    full = config.recompute.full
    if full is not None and isinstance(full.layers, LayerCounts) and not full.layers.per_interleave:
        yield _stop(
            full.origin,
            phrase("with zero_bubble_v `recompute` needs a list for each interleave, and mcore models stop at one"),
            phrase("write two lists, each with a count for every stage, as in [[1, 1], [1, 1]]"),
            "'recompute' must provide",
        )


def _stop(origin: Origin, message: str, hint: str, words: str) -> Finding:
    return finding(RULE, Severity.ERROR, origin, message, hint, stops_with=_STOPS_WITH + words)
