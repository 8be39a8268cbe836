"""PREDICTION -> FINDINGS of a strategy on which MindSpore stops while it compiles; see `graph.prefetch`."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Config
from swapconf.trace.columns import Flags
from swapconf.whatif.prediction import Moves, Prediction
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase


def stopped(found: Prediction, config: Config) -> Iterator[Finding]:
    yield from _underflow(found.moves, config)
    yield from _stranded(found.moves, config)
    yield from _cycle(found, config)


def _underflow(moves: Moves, config: Config) -> Iterator[Finding]:
    if moves.underflows.any():
        layer, operator = _first(moves, moves.underflows)
        yield Finding(
            origin=config.origin("swap_config.layer_swap", "swap_config"),
            rule="prefetch-underflow",
            severity=Severity.ERROR,
            message=phrase(
                "a backward_prefetch of {prefetch} makes MindSpore crash, for {operators} "
                "operators (first {operator} of layer {layer})",
                prefetch=int(moves.prefetch[moves.underflows].min()),
                operators=len(set(moves.site[moves.underflows].tolist())),
                operator=operator,
                layer=layer,
            ),
            hint=phrase("choose a smaller one; --sweep backward_prefetch=1..400 shows which it can be"),
        )


def _stranded(moves: Moves, config: Config) -> Iterator[Finding]:
    if moves.stranded.any():
        layer, operator = _first(moves, moves.stranded)
        yield Finding(
            origin=config.origin("swap_config.layer_swap", "swap_config"),
            rule="prefetch-stranded",
            severity=Severity.ERROR,
            message=phrase(
                "with a backward_prefetch of {prefetch} MindSpore stops while it compiles this strategy (The "
                "pointer[ker_ptr] is null): copies back for {operators} operators (first {operator} of layer {layer}) "
                "would wait for a branch of a condition, which MindSpore then cannot launch",
                prefetch=int(moves.prefetch[moves.stranded].min()),
                operators=len(set(moves.site[moves.stranded].tolist())),
                operator=operator,
                layer=layer,
            ),
            hint=phrase("choose another one; --sweep backward_prefetch=1..400 shows which it can be"),
        )


def _first(moves: Moves, flagged: Flags) -> tuple[str, str]:
    """Layer and operator."""
    return min(moves.sites[site] for site in moves.site[flagged].tolist())


def _cycle(found: Prediction, config: Config) -> Iterator[Finding]:
    if found.is_circular:
        yield Finding(
            origin=config.origin("swap_config", "recompute_config"),
            rule="graph-cycle",
            severity=Severity.ERROR,
            message=phrase(
                "MindSpore stops while it compiles this strategy (Graph cycle exists): a copy back would wait for a "
                "kernel that runs again and waits for that copy"
            ),
            hint=phrase("raise the backward_prefetch of what is swapped, or recompute fewer of its readers"),
        )
