"""FOLD + MEASURED RUNS -> TRACE of the whole model in ``rank_N``, beside the runs that it is grown from.

It has as many micro-batches as the runs: how many more the step of the whole model has, and what each adds to the peak,
is recorded and told with it. Where the two smallest runs do not show what repeats itself, larger ones may: with two and
three layers the first and the last one, which are unlike the others, leave nothing between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swapconf.dryrun.child import Ran, kept, record
from swapconf.dryrun.fold.folding import Fold, Size
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.whole import Run, renumbered, whole
from swapconf.dryrun.levels import keep_trace
from swapconf.dryrun.outcome import RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.memory.addresses import unnamed
from swapconf.memory.replay import replay
from swapconf.memory.with_workspace import Grown, grow
from swapconf.trace import grown_trace_writer, run_record
from swapconf.trace.lifetimes import PoolRecord
from swapconf.trace.trace import Trace
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import show_bytes

_MORE = 3  # steps beyond the smallest run: as many more runs are worth a trace, where there is none of fewer


@dataclass(frozen=True, kw_only=True)
class GrownFrom:
    """One run of a fold."""

    size: Size
    ran: Ran


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """``trace``: of the whole model with as many micro-batches as the runs, None where it cannot be grown for a
    ``reason``. ``used``: the runs that it is made of. ``raised``: with workspace, above level 1. ``is_replayed``: the
    rules of the pool give every address of the run that it was grown from."""

    trace: Trace | None = None
    used: Sequence[GrownFrom] = ()
    raised: Grown | None = None
    reason: str = ""
    is_replayed: bool = False

    @property
    def memory(self) -> Trace | None:
        """The trace at the level that was asked for; None where nothing was grown: a run tells it itself."""
        trace = self.raised.trace if self.raised is not None else self.trace
        return None if len(self.used) == 1 else trace

    @property
    def fragments_bytes(self) -> int | None:
        """What MindSpore's pool needs beyond what is in use, as its replay has it."""
        trace = self.memory
        return None if trace is None else trace.with_fragments_peak_bytes - trace.used_peak_bytes


def attempt(
    order: RankOrder, plan: Fold, sources: Sequence[GrownFrom], further: Callable[[Size], GrownFrom | None]
) -> Attempt:
    """``sources``: the runs of ``plan.runs``, in their order, then others. ``further``: makes one more run, None where
    there is to be none."""
    if order.keep is None and not plan.folded_rows:
        return Attempt()  # nothing to keep, and nothing to learn
    try:
        trace, used = _grown(order, plan, sources, further)
        raised = grow(trace, replace(pool_of(order, used[-1].ran), reserved_bytes=None)) if order.level > 1 else None
        known = used[-1].ran.trace
        is_replayed = known is not None and replay(known, unnamed(known.blocks), pool_of(order, used[-1].ran)).is_exact
    except (ValueError, LookupError) as reason:  # the figures of the runs stand, whatever is odd about their traces
        return Attempt(reason=str(reason))
    return Attempt(trace=trace, used=used, raised=raised, is_replayed=is_replayed)


def pool_of(order: RankOrder, ran: Ran) -> PoolRecord:
    """What a run said of its pool."""
    return run_record.pool_of(
        order.document.root.plain(), {"reserved_bytes": ran.reserved_bytes, "usable_bytes": ran.report.usable_bytes}
    )


def keep_whole(order: RankOrder, plan: Fold, found: Attempt, report: RankReport, micro_batch_bytes: int) -> RankReport:
    """The report, which says what the trace was grown from, or why there is none. ``micro_batch_bytes``: what one more
    adds to the used peak."""
    if order.keep is None:
        return report
    used, reason = found.used, found.reason
    try:
        grown_trace_writer.remove(kept(order.keep, order))
        if found.trace is not None:
            grown_trace_writer.write(found.trace, kept(order.keep, order))
            told = replace(report, grown=_words(plan, used, micro_batch_bytes))
            if found.raised is not None:
                keep_trace(order, used[-1].ran, found.raised, told)
            record(order, used[-1].ran, told, grown=_facts(plan, used, micro_batch_bytes))
            return told
    except OSError as error:
        reason = str(error)
    return replace(
        report,
        fold_note=phrase(
            "{note}; no trace of the whole model was made of it: {reason}", note=report.fold_note, reason=reason
        ),
    )


def _grown(
    order: RankOrder, plan: Fold, sources: Sequence[GrownFrom], further: Callable[[Size], GrownFrom | None]
) -> tuple[Trace, tuple[GrownFrom, ...]]:
    """The trace, and the runs that it is made of. Raises CannotGrow."""
    rows = plan.folded_rows
    if len(rows) > 1:
        raise CannotGrow(phrase("several rows of layers were folded"))
    small = sources[0]
    if not rows:
        return renumbered(_run(order, plan, small, _first_own(plan)), plan.num_layers), (small,)
    (row,) = rows
    by_size = {one.size: one for one in sources}
    step = next((one for one in plan.steps if one.layers[row] > small.size.layers[row]), None)
    if step is None:
        raise CannotGrow(phrase("no run has more layers than another"))
    stride = step.layers[row] - small.size.layers[row]
    why: CannotGrow | None = None
    one, other = small, by_size[step]
    for _ in range(_MORE):
        try:
            return whole(
                _run(order, plan, one, row), _run(order, plan, other, row), plan.num_layers, plan.whole.layers[row]
            ), (one, other)
        except CannotGrow as reason:
            why = why or reason
        size = _longer(other.size, row, stride)
        next_one = by_size.get(size) or (further(size) if size.layers[row] < plan.whole.layers[row] else None)
        if next_one is None:
            break
        one, other = other, next_one
    assert why is not None
    raise why


def _longer(size: Size, row: int, stride: int) -> Size:
    return replace(size, layers=tuple(left + stride * (number == row) for number, left in enumerate(size.layers)))


def _first_own(plan: Fold) -> int:
    return next((number for number, row in enumerate(plan.rows) if row.own), -1)


def _run(order: RankOrder, plan: Fold, source: GrownFrom, row: int) -> Run:
    trace = source.ran.trace
    assert trace is not None
    if row < 0:
        return Run(trace=trace, kept=(), first=0, size=0, pool=pool_of(order, source.ran))
    return Run(
        trace=trace,
        kept=plan.kept(source.size),
        first=plan.rows[row].first,
        size=source.size.layers[row],
        pool=pool_of(order, source.ran),
    )


def _words(plan: Fold, used: Sequence[GrownFrom], micro_batch_bytes: int) -> str:
    parts = [
        phrase("grown from dry runs of {sizes} layers", sizes=joined(" and ", map(str, _layers(plan, used))))
        if len(used) > 1
        else phrase("the trace of a smaller dry run")
    ]
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


def _layers(plan: Fold, used: Sequence[GrownFrom]) -> list[int]:
    return [sum(left for row, left in zip(plan.rows, one.size.layers, strict=True) if row.own) for one in used]


def _facts(plan: Fold, used: Sequence[GrownFrom], micro_batch_bytes: int) -> dict[str, Any]:
    """Of the stage of the rank."""
    return {
        "layers": _layers(plan, used),
        "of_layers": sum(left for row, left in zip(plan.rows, plan.whole.layers, strict=True) if row.own),
        "micro_batches": plan.small.micro_batches,
        "of_micro_batches": plan.whole.micro_batches,
        "used_peak_bytes_of_a_micro_batch": micro_batch_bytes,
    }
