r"""does-not-compile: a recompute on which MindSpore stops while it compiles.

``select_recompute`` of the norm of keys by itself (``self_attention\.k_layernorm`` of Qwen3), and of that of queries
(``self_attention\.q_layernorm``) where there are as many keys as heads, ends with "RuntimeError: The pointer[prim] is
null" where the layers are lazily inlined: with swap on, or with several stages or micro-batches. So does that of
``self_attention\.flash_attention`` of ChatGLM with "PrimFunc_Reshape init failed". Within a recomputed layer, or a
recomputed ``self_attention``, they are no trouble.

In models of mcore a recomputed cell that is given what runs again by itself (``mlp.linear_fc2`` behind the Reshape that
the model itself recomputes, or ``pre_mlp_layernorm`` behind a selected ``add``) ends with "Cannot have multiple U
Monad" beside a recomputed cell of the same stage that is not, or behind another such cell; and with "The size_t
value(18446744073709551615)" behind a swapped norm of queries or keys. Both with lazy inline alone.

Fails: ``{'self_attention\.k_layernorm': True}`` in select_recompute. Passes: ``{self_attention: True}`` there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapconf.decide.recomputed_inputs import FACT as INPUT_FACT
from swapconf.decide.recomputed_inputs import Call, stops
from swapconf.decide.rules.case import Case, finding, ranges
from swapconf.decide.strategy import LayerStrategy, Request, Strategy
from swapconf.decide.uncompiled import FACT, FLASH_FACT, uncompiled
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "does-not-compile"
_STOPS_WITH = {FACT: r"The pointer\[prim\] is null", FLASH_FACT: "PrimFunc_Reshape init failed"}
_TWO_STATES, _NO_INPUT = "Cannot have multiple U Monad", r"The size_t value\(18446744073709551615\)"


def check(case: Case) -> Iterator[Finding]:
    # the pass that fails is one of the parallel modes
    if case.config.runtime.stand_alone or case.strategy is None or not case.strategy.lazy_inline:
        return
    yield from _by_themselves(case)
    yield from _given_what_runs_again(case, case.strategy)


def _by_themselves(case: Case) -> Iterator[Finding]:
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


def _given_what_runs_again(case: Case, strategy: Strategy) -> Iterator[Finding]:
    source = case.versions.fact(INPUT_FACT).source
    for stop in stops(strategy, case.versions):
        told = {"cells": _told(stop.given), "primitives": ", ".join(stop.given[0].given), "source": source}
        yield finding(
            RULE,
            Severity.ERROR,
            _origin(stop.given[0]),
            phrase(
                "MindSpore stops while it compiles {cells}, which is given {primitives}, recomputed by itself, "
                "beside {others}, recomputed as well ({source})",
                others=_told(stop.others),
                **told,
            )
            if stop.others
            else phrase(
                "MindSpore stops while it compiles {cells}, which is given {primitives}, recomputed by itself, "
                "with the norm of queries or keys swapped in {layers} ({source})",
                layers=ranges(entry.layer.index for entry in stop.swapping),
                **told,
            ),
            phrase("recompute whole layers, or leave one of the two out"),
            stops_with=_TWO_STATES if stop.others else _NO_INPUT,
        )


def _told(calls: Sequence[Call]) -> str:
    """The first cell, and the layers in which it is one of these."""
    cell = calls[0].cell
    layers = ranges(call.entry.layer.index for call in calls if call.cell == cell)
    return phrase("{cell} in {layers}", cell=cell, layers=layers) if cell else layers


def _origin(call: Call) -> Origin:
    """Of the request for the cell, or else for what it is given."""
    asked = _recomputes(call.entry)
    named = [request for request in asked if request.operator == call.cell]
    return (named or asked)[0].origin


def _around(entry: LayerStrategy, operator: str) -> bool:
    """Whether a cell around it is recomputed."""
    asked = (request.operator for request in _recomputes(entry))
    return any(operator != around and operator.startswith(f"{around}." if around else "") for around in asked)


def _recomputes(entry: LayerStrategy) -> list[Request]:
    """The requests for a recompute that are in effect."""
    return [
        outcome.request
        for outcome in entry.plan.outcomes
        if outcome.void is None and outcome.request.kind in ("recompute", "select_recompute")
    ]
