r"""context-parallel: ``context_parallel`` in a way that mindformers refuses.

mindformers 1.7.0 to 1.9.0 knows ``colossalai_cp``, ``ulysses_cp`` and, for legacy models, ``hybrid_cp``; another
``context_parallel_algo`` stops it, with ``context_parallel: 1``, too (executed; modules/transformer/transformer.py:505,
parallel_core/transformer_config_utils.py:78: mcore's message names hybrid_cp among those that it takes). With
``hybrid_cp`` the degree of Ulysses has to divide ``context_parallel`` (transformer.py:611). An mcore model needs flash
attention for it (parallel_core/transformer_config.py:2050).

Fails: ``context_parallel_algo: hybrid_cp`` with ``use_legacy: False``. Passes: ``ulysses_cp``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import ALGORITHM, READ_SINCE, ULYSSES_DEGREE, layout_of, refused_algorithm
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "context-parallel"
_FLASH = "use_flash_attention"


def check(case: Case) -> Iterator[Finding]:
    config, layout = case.config, layout_of(case.config)
    if layout is None or not reached(case.versions.mindformers, READ_SINCE):
        return
    algorithm = refused_algorithm(config, case.versions.mindformers)
    if algorithm:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(ALGORITHM),
            phrase("mindformers stops at `context_parallel_algo: {name}`", name=algorithm)
            if config.model.legacy
            else phrase("mcore models stop at `context_parallel_algo: {name}`", name=algorithm),
            phrase("write colossalai_cp, ulysses_cp or hybrid_cp")
            if config.model.legacy
            else phrase("write colossalai_cp or ulysses_cp"),
            stops_with=f"context_parallel_algo {algorithm} is not supported|'{algorithm}' is not a valid",
        )
    elif layout.contexts == 1:
        return
    elif config.given.get(ALGORITHM) == "hybrid_cp" and layout.ulysses and layout.contexts % layout.ulysses:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(ULYSSES_DEGREE),
            phrase(
                "`ulysses_degree_in_cp: {degree}` does not divide `context_parallel: {parts}`, and mindformers stops",
                degree=layout.ulysses,
                parts=layout.contexts,
            ),
            phrase("give it a number that divides {parts}", parts=layout.contexts),
            stops_with="should be divisible by ulysses_degree_in_cp",
        )
    elif not config.model.legacy and config.model.settings.get(_FLASH) is False:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(f"model.model_config.{_FLASH}"),
            phrase(
                "`context_parallel: {parts}` needs flash attention, and mcore models stop without it",
                parts=layout.contexts,
            ),
            phrase("write `use_flash_attention: True`, or `context_parallel: 1`"),
            stops_with="context_parallel is only available for flash attention",
        )
