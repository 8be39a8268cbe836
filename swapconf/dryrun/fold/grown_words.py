"""FOLD + RUNS of it -> what the trace of the whole model was made of: in words, and for run.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from swapconf.dryrun.child import Ran
from swapconf.dryrun.fold.folding import Fold, Size
from swapconf.dryrun.fold.part_words import AND, row_words
from swapconf.trace.run_record import OF_A_MICRO_BATCH
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import show_bytes

MOST_ROWS = 2  # each doubles the runs that a trace is grown from


@dataclass(frozen=True, kw_only=True)
class GrownFrom:
    """One run of a fold."""

    size: Size
    ran: Ran


def words(plan: Fold, used: Sequence[GrownFrom], micro_batch_bytes: int) -> str:
    """``micro_batch_bytes``: what one more adds to the used peak."""
    parts = [_made_of(plan, used)]
    if plan.folds_micro_batches:
        parts.append(
            phrase(
                "with {few} of {count} micro-batches in its step (each more adds {size} to the used peak)",
                few=plan.small.micro_batches,
                count=plan.whole.micro_batches,
                size=show_bytes(micro_batch_bytes),
            )
        )
    return joined(", ", parts)


def _made_of(plan: Fold, used: Sequence[GrownFrom]) -> str:
    if len(used) > 1:
        is_row = len(plan.folded_rows) < MOST_ROWS
        sizes = map(str, _layers(plan, used)) if is_row else (row_words(plan, one.size) for one in used)
        return phrase("grown from dry runs of {sizes} layers", sizes=joined(AND, sizes))
    if plan.folded_rows:
        return phrase("the trace of a dry run with all layers")
    return phrase("the trace of a smaller dry run")


def _layers(plan: Fold, used: Sequence[GrownFrom]) -> list[int]:
    return [sum(left for row, left in zip(plan.rows, one.size.layers, strict=True) if row.own) for one in used]


def facts(plan: Fold, used: Sequence[GrownFrom], micro_batch_bytes: int) -> dict[str, Any]:
    """Of the stage of the rank."""
    return {
        "layers": _layers(plan, used),
        "of_layers": sum(left for row, left in zip(plan.rows, plan.whole.layers, strict=True) if row.own),
        "micro_batches": plan.small.micro_batches,
        "of_micro_batches": plan.whole.micro_batches,
        OF_A_MICRO_BATCH: micro_batch_bytes,
    }
