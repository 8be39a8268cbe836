"""STRATEGY -> TEXT: the lines that a worker logs for a layer, as mindformers words them, for what is in effect.

The form is the documented one (Fine-Grained Activations SWAP, cases 1 to 4): a nested operator is written plainly, a
top-level one with a leading dot, entries joined by a comma and one space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapconf.config.config import Config
from swapconf.decide.strategy import LayerStrategy, Request, RequestOutcome
from swapconf.upstream import dropped

_DIFFERS = "plain-mindformers-differs"


def lines(entry: LayerStrategy, swap_on: bool) -> tuple[str, ...]:
    """The log lines of one layer, without the logger's prefix, in the order in which they are written."""
    outcomes = [
        outcome
        for outcome in entry.plan.outcomes  # where operators are not known, no line can name them
        if entry.layer.template.operators or not outcome.request.operator
    ]
    layer = entry.layer.index
    swaps = [
        outcome.request
        for outcome in outcomes
        if outcome.request.is_swap and outcome.void is None and (outcome.sites or not entry.layer.template.operators)
    ]
    return tuple(
        [*_recompute_lines(layer, outcomes, swap_on), *_swap_lines(layer, swaps), *_skip_lines(layer, outcomes)]
    )


def of_options(config: Config) -> tuple[str, ...]:
    """The lines about what all layers have in common: keys that mindformers alone drops, and whether they count."""
    recompute = config.recompute
    if recompute.full is None and not recompute.select:
        return ()
    asked = (
        (dropped.MP_COMM, not recompute.mp_comm_recompute, config.drops_communication, False),
        (dropped.SLICE, recompute.recompute_slice_activation and recompute.full is not None, config.drops_slices, True),
    )
    return tuple(
        f"swapconf: {key}: {value} does not count, as with mindformers alone [{_DIFFERS}]"
        if is_dropped
        else f"swapconf: {key}: {value} counts"
        for key, is_asked, is_dropped, value in asked
        if is_asked
    )


def _recompute_lines(layer: int, outcomes: Sequence[RequestOutcome], swap_on: bool) -> Iterator[str]:
    effective = [outcome.request for outcome in outcomes if outcome.void is None]
    if any(request.kind == "recompute" for request in effective):
        yield f"Set full recompute at layer {layer}"
    # mindformers writes `on` only where swap is off, and its own exclude lines only there
    switched_on = "" if swap_on else " on"
    for kind, words in (
        ("select_recompute", f"recompute{switched_on}"),
        ("select_comm_recompute", f"comm recompute{switched_on}"),
        ("select_recompute_exclude", "recompute exclude"),
        ("select_comm_recompute_exclude", "comm recompute exclude"),
    ):
        operators = [request.operator for request in effective if request.kind == kind]
        if operators:
            yield f"Set select {words} at layer {layer}: {', '.join(dict.fromkeys(operators))}"


def _swap_lines(layer: int, effective: Sequence[Request]) -> Iterator[str]:
    for request in effective:
        if request.kind == "layer_swap":
            yield f"Set layer swap at layer {layer} and value is: {request.prefetch}"
    operators = [f"{_shown(request)}, value={request.prefetch}" for request in effective if request.operator]
    if operators:
        yield f"Set op_swap at layer {layer}: {', '.join(operators)}"


def _skip_lines(layer: int, outcomes: Sequence[RequestOutcome]) -> Iterator[str]:
    for outcome in outcomes:
        if outcome.void is not None:
            subject = _asked(outcome)
            yield f"Skip {subject[0]} at layer {layer}: {subject[1]}{outcome.void.text} [{outcome.void.rule}]"


def _asked(outcome: RequestOutcome) -> tuple[str, str]:
    request = outcome.request
    if request.kind == "layer_swap":
        return "layer swap", ""
    if request.is_swap:
        return "op_swap", f"{_shown(request)}, "
    return request.kind.replace("_", " "), f"{_shown(request)}, "


def _shown(request: Request) -> str:
    return request.operator if "." in request.operator else f".{request.operator}"
