"""FOLD + MEASURED RUNS -> TRACE of the whole model in ``rank_N``, beside the runs that it is grown from.

It has as many micro-batches as the runs: how many more the step of the whole model has, and what each adds to the peak,
is recorded and told with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from swapconf.dryrun.outcome import RankReport
from swapconf.formats import grown_trace_writer
from swapconf.growing.reason import CannotGrow
from swapconf.growing.whole import Run, renumbered, whole
from swapconf.phrases import joined, phrase
from swapconf.rehearsal.child import Ran, kept, record
from swapconf.rehearsal.folding import Fold, Size
from swapconf.rehearsal.levels import keep_trace
from swapconf.rehearsal.order import Order
from swapconf.simulate.workspace import grow
from swapconf.trace import Trace
from swapconf.units import show_bytes


@dataclass(frozen=True, kw_only=True)
class Source:
    """One run of a fold."""

    size: Size
    ran: Ran


def keep_whole(order: Order, plan: Fold, sources: Sequence[Source], report: RankReport,
               micro_batch_bytes: int) -> RankReport:
    """The report, which says what the trace was grown from, or why there is none. ``sources``: the runs of
    ``plan.runs``, in their order. ``micro_batch_bytes``: what one more adds to the used peak."""
    if order.keep is None:
        return report
    try:
        grown_trace_writer.remove(kept(order.keep, order))
        trace, used = _grown(plan, sources)
        grown_trace_writer.write(trace, kept(order.keep, order))
        told = replace(report, grown=_words(plan, used, micro_batch_bytes))
        if order.level > 1:
            keep_trace(order, used[-1].ran, grow(trace), told)
    except (CannotGrow, OSError) as reason:
        return replace(report, fold_note=phrase("{note}; no trace of the whole model was made of it: {reason}",
                                                note=report.fold_note, reason=reason))
    record(order, used[-1].ran, told, grown=_facts(plan, used, micro_batch_bytes))
    return told


def _grown(plan: Fold, sources: Sequence[Source]) -> tuple[Trace, tuple[Source, ...]]:
    """The trace, and the runs that it is made of. Raises CannotGrow."""
    rows = plan.folded_rows
    if len(rows) > 1:
        raise CannotGrow(phrase("several rows of layers were folded"))
    small = sources[0]
    if not rows:
        return renumbered(_run(plan, small, _first_own(plan)), plan.num_layers), (small,)
    (row,) = rows
    big = next((one for one in sources[1:] if one.size.layers[row] > small.size.layers[row]), None)
    if big is None:
        raise CannotGrow(phrase("no run has more layers than another"))
    return whole(_run(plan, small, row), _run(plan, big, row), plan.num_layers,
                 plan.whole.layers[row]), (small, big)


def _first_own(plan: Fold) -> int:
    return next((number for number, row in enumerate(plan.rows) if row.own), -1)


def _run(plan: Fold, source: Source, row: int) -> Run:
    trace = source.ran.trace
    assert trace is not None
    if row < 0:
        return Run(trace=trace, kept=(), first=0, size=0, reserved_bytes=source.ran.reserved_bytes)
    return Run(trace=trace, kept=plan.kept(source.size), first=plan.rows[row].first,
               size=source.size.layers[row], reserved_bytes=source.ran.reserved_bytes)


def _words(plan: Fold, used: Sequence[Source], micro_batch_bytes: int) -> str:
    parts = [phrase("grown from dry runs of {sizes} layers", sizes=joined(" and ", map(str, _layers(plan, used))))
             if len(used) > 1 else phrase("the trace of a smaller dry run")]
    if plan.folds_micro_batches:
        parts.append(phrase("with {few} of {count} micro-batches in its step (each more adds {size} to the used peak)",
                            few=plan.small.micro_batches, count=plan.whole.micro_batches,
                            size=show_bytes(micro_batch_bytes)))
    return joined(", ", parts)


def _layers(plan: Fold, used: Sequence[Source]) -> list[int]:
    return [sum(left for row, left in zip(plan.rows, one.size.layers, strict=True) if row.own) for one in used]


def _facts(plan: Fold, used: Sequence[Source], micro_batch_bytes: int) -> dict[str, Any]:
    """Of the stage of the rank."""
    return {"layers": _layers(plan, used), "of_layers": sum(
        left for row, left in zip(plan.rows, plan.whole.layers, strict=True) if row.own),
        "micro_batches": plan.small.micro_batches, "of_micro_batches": plan.whole.micro_batches,
        "used_peak_bytes_of_a_micro_batch": micro_batch_bytes}
