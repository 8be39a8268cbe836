"""VARIANTS -> TABLES AND RECORDS: the figures side by side, each with how far it is from that of the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from swapconf.compare.variant import ComparedFigure, FigureUnit, PipelineFigures, Variant
from swapconf.memory.advice import advice
from swapconf.memory.peak import PeakPart
from swapconf.memory.peak import as_record as peak_record
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import joined, phrase, show
from swapconf.words.units import show_bytes

_OPERATIONS = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6))


def ranks_of(variants: Sequence[Variant]) -> list[tuple[int, str]]:
    """(rank, what to call it) of all ranks of all variants, in order; a rank can be of another stage in each."""
    stages: dict[int, set[int]] = {}
    for variant in variants:
        for found in variant.ranks:
            stages.setdefault(found.rank, set()).add(found.stage)
    return [
        (rank, phrase("rank {rank} (stage {stage})", rank=rank, stage="/".join(map(str, sorted(stages[rank])))))
        for rank in sorted(stages)
    ]


def overall_table(variants: Sequence[Variant]) -> PrintedTable:
    return _table(variants, lambda variant, figure: variant.overall(figure))


def rank_table(variants: Sequence[Variant], rank: int) -> PrintedTable:
    return _table(variants, lambda variant, figure: variant.of_rank(rank, figure))


def peaks_table(variants: Sequence[Variant]) -> PrintedTable:
    """What holds the highest peak of each variant, and what is left of it when layers keep nothing."""
    known = [
        (variant, rank.rank, rank.peak)
        for variant in variants
        if (rank := variant.highest) is not None and rank.peak is not None
    ]
    head = (
        phrase("at the peak"),
        *(phrase("{title}, rank {rank}", title=variant.title, rank=rank) for variant, rank, _ in known),
    )
    rows = [
        (phrase(part.value), *(show_bytes(size) if size else "-" for size in sizes))
        for part in PeakPart
        if any(sizes := [peak.at.bytes_of(part) for _, _, peak in known])
    ]
    if rows:
        rows.append(
            (
                phrase("highest without activations of layers"),
                *(show_bytes(peak.rest.used_bytes) if peak.at.when else "-" for _, _, peak in known),
            )
        )
    return PrintedTable(head, rows, frozenset(head[:1]))


def _table(variants: Sequence[Variant], value: Callable[[Variant, ComparedFigure], float | None]) -> PrintedTable:
    """One row a figure that any of them has; of each variant but the first also what is more or less."""
    head = [
        "",
        *(
            part
            for index, variant in enumerate(variants)
            for part in ([variant.title, phrase("change"), phrase("relative")] if index else [variant.title])
        ),
    ]
    rows = []
    for figure in ComparedFigure:
        found = [value(variant, figure) for variant in variants]
        if any(item is not None for item in found):
            rows.append(
                (
                    phrase(figure.title),
                    *(
                        part
                        for index, item in enumerate(found)
                        for part in (
                            (with_unit(figure, item), *change(figure, item, found[0]))
                            if index
                            else (with_unit(figure, item),)
                        )
                    ),
                )
            )
    return PrintedTable(tuple(head), rows, frozenset({""}))


def with_unit(figure: ComparedFigure, value: float | None) -> str:
    """With its unit; ``-`` where it is not known."""
    if value is None:
        return "-"
    if figure.unit is FigureUnit.BYTES:
        return show_bytes(round(value))
    if figure.unit is FigureUnit.TIME:
        return f"{value / 1000:.3f} ms"
    if figure.unit is FigureUnit.COUNT:
        return f"{value:,.0f}"
    return next((f"{value / size:.2f} {name}FLOP" for name, size in _OPERATIONS if value >= size), f"{value:.0f} FLOP")


def change(figure: ComparedFigure, value: float | None, first: float | None) -> tuple[str, str]:
    """(more or less than the first in its unit, and in per cent, or how many times the first)."""
    if value is None or first is None:
        return "-", "-"
    if value == first:
        return phrase("same"), ""
    sign = "+" if value > first else "-"
    more = f"{sign}{with_unit(figure, abs(value - first))}"
    if not first:
        return more, ""
    factor = value / first
    return more, phrase("{factor:,.0f} times", factor=factor) if factor > 10 else f"{factor - 1:+.1%}"


def pipeline_line(figures: PipelineFigures) -> str:
    """A sentence on how the stages share the step."""
    plan = figures.schedule
    return phrase(
        "pipeline of {stages} stages, {batches} micro-batches{cut}: bubbles {bubbles:.1%} of the step, "
        "the busiest stage {imbalance:.1%} over the mean; the formula of 1F1B, messages free, gives "
        "{time:.3f} ms",
        stages=plan.num_stages,
        batches=plan.num_micro_batches,
        bubbles=figures.bubble_share,
        imbalance=figures.imbalance,
        time=figures.formula_us / 1000,
        cut=phrase(", interleave {chunks}", chunks=plan.num_chunks) if plan.num_chunks > 1 else "",
    )


def notes_of(variant: Variant) -> list[str]:
    """What stands below the tables: where the figures come from, what is missing and why."""
    if variant.failure:
        return [phrase("{title}: {text}", title=variant.title, text=variant.failure)]
    told = (
        phrase("memory {memory}; time {time}", **variant.origins)
        if "time" in variant.origins
        else phrase("memory {memory}", **variant.origins)
    )
    below = [pipeline_line(variant.pipeline)] if variant.pipeline is not None else []
    if variant.highest is not None and variant.highest.peak is not None and (said := advice(variant.highest.peak)):
        below.append(phrase("rank {rank}, with the highest peak: {text}", rank=variant.highest.rank, text=said))
    missing: dict[str, list[str]] = {}
    for figure, why in variant.unknown.items():
        missing.setdefault(why, []).append(phrase(figure.title))
    below += [phrase("{figures}: {reason}", figures=joined(", ", names), reason=why) for why, names in missing.items()]
    return [
        phrase("{title}: {text}", title=variant.title, text=told),
        *(joined("", ("  ", line)) for line in (*below, *variant.troubles, *variant.notes)),
    ]


def as_record(variant: Variant, first: Variant) -> dict[str, Any]:
    """The JSON form. Bytes, microseconds, operations and kernels, null where they are not known."""
    plan = variant.pipeline
    return {
        "title": variant.title,
        "failure": show(variant.failure),
        "origins": {what: show(how) for what, how in variant.origins.items()},
        "overall": _figures(variant.overall, first.overall),
        "ranks": [
            {
                "rank": found.rank,
                "stage": found.stage,
                "peak": None if found.peak is None else {**peak_record(found.peak), "advice": show(advice(found.peak))},
                **_figures(found.values.get, partial(first.of_rank, found.rank)),
            }
            for found in variant.ranks
        ],
        "unknown": {figure.key: show(why) for figure, why in variant.unknown.items()},
        "notes": [show(note) for note in (*variant.troubles, *variant.notes)],
        "pipeline": None
        if plan is None
        else {
            "stages": plan.schedule.num_stages,
            "micro_batches": plan.schedule.num_micro_batches,
            "interleave": plan.schedule.num_chunks,
            "formula_us": plan.formula_us,
            "imbalance": plan.imbalance,
            "bubble_share": plan.bubble_share,
        },
        "findings": [finding.as_record() for finding in variant.findings],
    }


def _figures(
    value: Callable[[ComparedFigure], float | None], first: Callable[[ComparedFigure], float | None]
) -> dict[str, Any]:
    found = {figure: (value(figure), first(figure)) for figure in ComparedFigure}
    return {
        "figures": {figure.key: mine for figure, (mine, _) in found.items()},
        "change": {
            figure.key: None if mine is None or base is None else mine - base for figure, (mine, base) in found.items()
        },
    }
