"""PREDICTION -> FINDINGS of a strategy on which MindSpore stops while it compiles; see `graph.prefetch`."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Config
from swapconf.trace.columns import Flags
from swapconf.whatif.prediction import Moves, Prediction
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import Phrase, phrase


def stopped(prediction: Prediction, config: Config) -> Iterator[Finding]:
    moves, layer_swap = prediction.moves, config.origin("swap_config.layer_swap", "swap_config")
    if moves.underflows.any():
        yield _stop(
            layer_swap,
            "prefetch-underflow",
            phrase(
                "a backward_prefetch of {prefetch} makes MindSpore crash, for {operators} "
                "operators (first {operator} of layer {layer})",
                **_first_operator(moves, moves.underflows),
            ),
            phrase("choose a smaller one; --sweep backward_prefetch=1..400 shows which it can be"),
        )
    if moves.stranded.any():
        yield _stop(
            layer_swap,
            "prefetch-stranded",
            phrase(
                "with a backward_prefetch of {prefetch} MindSpore stops while it compiles this strategy (The "
                "pointer[ker_ptr] is null): copies back for {operators} operators (first {operator} of layer {layer}) "
                "would wait for a branch of a condition, which MindSpore then cannot launch",
                **_first_operator(moves, moves.stranded),
            ),
            phrase("choose another one; --sweep backward_prefetch=1..400 shows which it can be"),
        )
    if prediction.is_circular:
        yield _stop(
            config.origin("swap_config", "recompute_config"),
            "graph-cycle",
            phrase(
                "MindSpore stops while it compiles this strategy (Graph cycle exists): a copy back would wait for a "
                "kernel that runs again and waits for that copy"
            ),
            phrase("raise the backward_prefetch of what is swapped, or recompute fewer of its readers"),
        )


def _stop(origin: Origin, rule: str, message: Phrase, hint: Phrase) -> Finding:
    return Finding(origin=origin, rule=rule, severity=Severity.ERROR, message=message, hint=hint)


def _first_operator(moves: Moves, flagged: Flags) -> dict[str, object]:
    """Of the operators that are flagged."""
    layer, operator = min(moves.sites[site] for site in moves.site[flagged].tolist())
    return {
        "prefetch": int(moves.prefetch[flagged].min()),
        "operators": len(set(moves.site[flagged].tolist())),
        "operator": operator,
        "layer": layer,
    }
