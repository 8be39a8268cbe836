"""DECISIONS + EFFECT -> FINDINGS: whether the layers that ran again, or moved something, are those that were decided.

A layer counts, not its modules, as marks tell no more. A swap is compared where the run tells what was moved.
"""

from __future__ import annotations

from swapconf.decide.modules import decide_parallel
from swapconf.dryrun.effect.effect import Effect
from swapconf.study.study import Study
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase
from swapconf.words.units import runs

_COMMUNICATION = "select_comm_recompute"  # there is none on one card


def compare_layers(study: Study, effect: Effect) -> list[Finding]:
    """Warnings. ``effect``: of a run that recomputed and swapped as on several cards."""
    decided = decide_parallel(study.config)
    whole = {layer for one in decided if one.effect == "recompute" and not one.module for layer in one.layers}
    parts = {
        layer for one in decided if one.effect == "recompute" and one.kind != _COMMUNICATION for layer in one.layers
    }
    seen = {int(layer) for layer in effect.recomputed_by_layer}
    swapped = {layer for one in decided if one.effect == "swap" and not one.module for layer in one.layers}
    moved = {int(layer) for layer, copies in effect.by_layer.items() if copies.num_tensors}
    may_move = {layer for one in decided if one.effect == "swap" for layer in one.layers}
    recompute = study.config.origin("recompute.mode", "recompute")
    swap = study.config.origin("swap.enable", "swap")
    found = []
    for origin, rule, layers, message in (
        (
            recompute,
            "recompute-not-in-effect",
            whole - seen,
            phrase("nothing was recomputed, and all was decided to be"),
        ),
        (recompute, "recompute-not-decided", seen - parts, phrase("something was recomputed, and nothing was decided")),
        (swap, "decision-without-effect", swapped - moved, phrase("nothing was moved, and a swap was decided")),
        (swap, "effect-without-decision", moved - may_move, phrase("something was moved, and no swap was decided")),
    ):
        if layers:
            found.append(
                Finding(
                    origin=origin,
                    rule=rule,
                    severity=Severity.WARNING,
                    message=phrase("layers {layers}: {what}", layers=", ".join(runs(layers)), what=message),
                    hint=phrase("compare `swapconf explain` with the lines that the log has of these layers"),
                )
            )
    return found
