r"""does-not-compile: a recompute on which MindSpore stops while it compiles.

``select_recompute`` of the norm of keys by itself (``self_attention\.k_layernorm`` of Qwen3), and of that of queries
(``self_attention\.q_layernorm``) where there are as many keys as heads, ends with "RuntimeError: The pointer[prim] is
null" where the layers are lazily inlined: with swap on, or with several stages or micro-batches. So does that of
``self_attention\.flash_attention`` of ChatGLM with "PrimFunc_Reshape init failed". Within a recomputed layer, or a
recomputed ``self_attention``, they are no trouble.

Fails: ``{'self_attention\.k_layernorm': True}`` in select_recompute. Passes: ``{self_attention: True}`` there.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding, ranges
from swapconf.decide.strategy import LayerStrategy
from swapconf.decide.uncompiled import FACT, FLASH_FACT, uncompiled
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "does-not-compile"
_STOPS_WITH = {FACT: r"The pointer\[prim\] is null", FLASH_FACT: "PrimFunc_Reshape init failed"}


def check(case: Case) -> Iterator[Finding]:
    # the pass that fails is one of the parallel modes
    if case.config.runtime.stand_alone or case.strategy is None or not case.strategy.lazy_inline:
        return
    layers: dict[tuple[str, str, Origin], set[int]] = {}
    for entry, outcome in case.outcomes():
        request = outcome.request
        if outcome.void is not None or request.kind != "select_recompute":
            continue
        known = uncompiled(entry.layer.template, case.versions, case.config.model.settings)
        fact = known.get(request.operator)
        if fact is not None and not _around(entry, request.operator):
            layers.setdefault((request.operator, fact, request.origin), set()).add(entry.layer.index)
    for (operator, fact, origin), indices in layers.items():
        yield finding(
            RULE,
            Severity.ERROR,
            origin,
            phrase(
                "MindSpore stops while it compiles {operator} recomputed by itself in {layers} ({source})",
                operator=operator,
                layers=ranges(indices),
                source=case.versions.fact(fact).source,
            ),
            phrase("recompute `{cell}` or the whole layer, or leave it out", cell=operator.rpartition(".")[0]),
            stops_with=_STOPS_WITH[fact],
        )


def _around(entry: LayerStrategy, operator: str) -> bool:
    """Whether a cell around it is recomputed."""
    asked = (
        outcome.request.operator
        for outcome in entry.plan.outcomes
        if outcome.void is None and outcome.request.kind in ("recompute", "select_recompute")
    )
    return any(operator != around and operator.startswith(f"{around}." if around else "") for around in asked)
