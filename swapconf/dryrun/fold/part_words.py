"""FOLD -> WORDS: how the runs of a fold are named, and what is said of a figure that comes from them."""

from __future__ import annotations

from dataclasses import replace

from swapconf.dryrun import growth
from swapconf.dryrun.fold.folding import Fold, Size
from swapconf.words.findings import Finding
from swapconf.words.phrases import joined, mark, phrase

AND = mark(" and ")


def part_name(plan: Fold, size: Size) -> str:
    """Of a run's folder: ``layers_4``, ``layers_4_micro_batches_9``, with the layers of the rank's own stage."""
    names = [f"layers_{_joined(plan, size, '_and_')}"] if plan.rows else []
    return "_".join([*names, *([f"micro_batches_{size.micro_batches}"] if plan.folds_micro_batches else [])])


def size_words(plan: Fold, size: Size) -> str:
    """``4 layers, 9 micro-batches``."""
    words = [phrase("{layers} layers", layers=row_words(plan, size))] if plan.rows else []
    return joined(
        ", ",
        [*words, *([phrase("{count} micro-batches", count=size.micro_batches)] if plan.folds_micro_batches else [])],
    )


def basis(plan: Fold, *, is_replayed: bool = False) -> str:
    """From what the figures of the whole model come. ``is_replayed``: those with fragments come from a trace."""
    if not plan.steps:
        return phrase("from a run with fewer layers in other stages, which this rank does not hold")
    if plan.full_run is not None:
        return phrase(
            "from a run with all {layers} layers and {few} of {count} micro-batches; what each more adds is from runs "
            "with {fewer} layers, {few} and {more} micro-batches",
            layers=row_words(plan, plan.runs[plan.full_run]),
            few=plan.small.micro_batches,
            count=plan.whole.micro_batches,
            fewer=row_words(plan, plan.small),
            more=plan.steps[-1].micro_batches,
        )
    parts = []
    if plan.folded_rows:
        parts.append(
            phrase(
                "{runs} of {layers} equal layers",
                runs=joined(AND, dict.fromkeys(row_words(plan, size) for size in plan.runs)),
                layers=row_words(plan, plan.whole),
            )
        )
    if plan.folds_micro_batches:
        parts.append(
            phrase(
                "{few} and {more} of {count} micro-batches",
                few=plan.small.micro_batches,
                more=plan.steps[-1].micro_batches,
                count=plan.whole.micro_batches,
            )
        )
    told = joined(", ", parts)
    if is_replayed:
        return phrase("extrapolated from {parts} (fragments are those of a grown trace)", parts=told)
    return phrase("extrapolated from {parts} (fragments are estimated)", parts=told)


def of_part(finding: Finding, size: Size, plan: Fold) -> Finding:
    """A finding of a run as one of the whole model: what a step adds is told of the run."""
    if finding.rule != growth.RULE:
        return finding
    told = phrase("{message} (in a run with {part})", message=finding.message, part=size_words(plan, size))
    return replace(finding, message=told)


def row_words(plan: Fold, size: Size) -> str:
    """``2 + 3``: the layers of each folded row."""
    return _joined(plan, size, " + ")


def _joined(plan: Fold, size: Size, sign: str) -> str:
    """The layers of each folded row, all own layers where no row is folded or a run has all of them."""
    rows = plan.folded_rows
    if not rows or plan.full_run is not None:
        return str(sum(left for row, left in zip(plan.rows, size.layers, strict=True) if row.own))
    return sign.join(str(size.layers[row]) for row in rows)
