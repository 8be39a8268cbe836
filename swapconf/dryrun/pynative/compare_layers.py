"""DECISIONS + EFFECT -> FINDINGS: whether the layers that ran again, or moved something, are those that were decided.

A layer counts, not its modules, as marks tell no more. A swap is compared where the run tells what was moved.
"""

from __future__ import annotations

from collections.abc import Iterable

from swapconf.decide.modules import decide_parallel, modules_of
from swapconf.decide.strategy import ModuleDecision
from swapconf.dryrun.effect.effect import Effect
from swapconf.study.study import Study
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase
from swapconf.words.units import runs

_COMMUNICATION = "select_comm_recompute"  # there is none on one card


def compare_layers(study: Study, effect: Effect) -> list[Finding]:
    """Warnings, of the layers that this rank has. ``effect``: of a run that recomputed and swapped as on several
    cards."""
    known = modules_of(study.config, study.versions.mindformers)
    decided = [one for one in decide_parallel(study.config, known) if one.kind != _COMMUNICATION]
    own = frozenset(map(int, effect.layers))
    again = frozenset(map(int, effect.recomputed_by_layer))
    moved = frozenset(int(layer) for layer, copies in effect.by_layer.items() if copies.num_tensors)
    recompute = study.config.origin("recompute.mode", "recompute")
    swap = study.config.origin("swap.enable", "swap")
    differences = (
        (
            recompute,
            "recompute-not-in-effect",
            (_layers(decided, "recompute", whole=True) & own) - again,
            phrase("nothing was recomputed, and all was decided to be"),
        ),
        (
            recompute,
            "recompute-not-decided",
            again - _layers(decided, "recompute"),
            phrase("something was recomputed, and nothing was decided"),
        ),
        (
            swap,
            "decision-without-effect",
            (_layers(decided, "swap", whole=True) & own) - moved,
            phrase("nothing was moved, and a swap was decided"),
        ),
        (
            swap,
            "effect-without-decision",
            moved - _layers(decided, "swap"),
            phrase("something was moved, and no swap was decided"),
        ),
    )
    return [
        Finding(
            origin=origin,
            rule=rule,
            severity=Severity.WARNING,
            message=phrase("layers {layers}: {what}", layers=", ".join(runs(layers)), what=message),
            hint=phrase("compare `swapconf explain` with the lines that the log has of these layers"),
        )
        for origin, rule, layers, message in differences
        if layers
    ]


def _layers(decided: Iterable[ModuleDecision], effect: str, *, whole: bool = False) -> frozenset[int]:
    """The layers for which an effect is decided, of any module or of the ``whole`` layer."""
    return frozenset(
        layer for one in decided if one.effect == effect and not (whole and one.module) for layer in one.layers
    )
