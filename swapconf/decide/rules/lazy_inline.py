r"""lazy-inline-off: swap acts only inside a lazily inlined model, and this run would not have one.

MindSpore warns "Offload does not take effect outside the scope of the lazy_inline Cell" and moves nothing, while the
log says "Set op_swap". It happens in stand-alone mode, with ``disable_lazy_inline: True``, and in mindformers 1.9.0
whenever pipeline_stage and gradient_accumulation_steps are both 1; in that last case ``swapconf run`` keeps lazy inline
on (what the documentation asks for with ENABLE_LAZY_INLINE_NO_PIPELINE=1), so it is a note.

Fails: ``use_parallel: False``. Passes: ``use_parallel: True`` with ``parallel_config.pipeline_stage: 2``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.lazy_inline import FACT, is_at_once
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "lazy-inline-off"
_SWITCHES = ("parallel.parallel_mode", "use_parallel")


def check(case: Case) -> Iterator[Finding]:
    runtime, config = case.config.runtime, case.config
    if not config.swap_on:
        return
    if runtime.stand_alone:
        yield finding(
            RULE,
            Severity.WARNING,
            config.origin(_SWITCHES[config.given.get("use_parallel") is False]),
            phrase("in stand-alone mode there is no lazy inline, so swap moves nothing"),
            phrase("train with `use_parallel: True` (or --use_parallel True) on two devices or more"),
        )
    elif runtime.disable_lazy_inline:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("model.model_config.disable_lazy_inline"),
            phrase("without lazy inline swap moves nothing"),
            phrase("remove disable_lazy_inline"),
        )
    elif is_at_once(config):
        fact = case.versions.fact(FACT)
        if fact.value:
            yield finding(
                RULE,
                Severity.NOTE,
                config.origin("swap_config.swap"),
                phrase(
                    "with pipeline_stage 1 and no gradient accumulation, plain mindformers turns lazy "
                    "inline off and swap moves nothing ({source})",
                    source=fact.source,
                ),
                phrase("run it through swapconf, which keeps lazy inline on, or raise gradient_accumulation_steps"),
            )
