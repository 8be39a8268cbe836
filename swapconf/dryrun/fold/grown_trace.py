"""FOLD + MEASURED RUNS -> TRACE of the whole model in ``rank_N``, beside the runs that it is grown from.

It has as many micro-batches as the runs: how many more the step of the whole model has, and what each adds to the peak,
is recorded and told with it. Where the two smallest runs do not show what repeats itself, larger ones may: with two and
three layers the first and the last one, which are unlike the others, leave nothing between them. Where none do, as
routers launch their branches in an order of their own in each layer, a run with all layers of the rank is the trace; so
it is where the trace could be grown, but not MindSpore's graph, on which what-ifs stand, and layers are few.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from swapconf.dryrun.child import Ran, kept, record
from swapconf.dryrun.fold.beside_trace import graph_of, keep_graph, keep_layers, whole_names, write_graph
from swapconf.dryrun.fold.folding import SMALLEST, STRIDE, Fold, Size
from swapconf.dryrun.fold.grown_words import MOST_ROWS, GrownFrom, facts, words
from swapconf.dryrun.fold.orders import FEW_LAYERS
from swapconf.dryrun.fold.part_words import part_name, size_words
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.whole import Run, renumbered, with_graph
from swapconf.dryrun.levels import keep_trace
from swapconf.dryrun.outcome import RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.memory.addresses import unnamed
from swapconf.memory.cann.card import A2, Card
from swapconf.memory.replay import replay
from swapconf.memory.with_workspace import Grown, grow
from swapconf.trace import grown_trace_writer, run_record
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.lifetimes import PoolRecord
from swapconf.trace.trace import Trace
from swapconf.words.phrases import phrase

_MORE = 3  # steps beyond the smallest run: as many more runs are worth a trace, where there is none of fewer
_MOST_LAYERS = 32  # of a rank; so many are run as they are, for a trace, where it cannot be grown from fewer


class _Whole(NamedTuple):
    """The whole model, the runs that it is made of, and why it has no graph although these have."""

    run: Run
    used: tuple[GrownFrom, ...]
    no_graph: str = ""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """``trace``: of the whole model with as many micro-batches as the runs, None where it cannot be grown for a
    ``reason``. ``used``: the runs that it is made of. ``raised``: with workspace, above level 1. ``is_replayed``: the
    rules of the pool give every address of the run that it was grown from. ``is_folded``: the runs have fewer layers.
    ``graph``: on which MindSpore would decide the order of its launches, grown as well; None where those of the runs
    are not known, or, with a reason in ``no_graph``, cannot be repeated.
    """

    trace: Trace | None = None
    graph: LaunchGraph | None = None
    no_graph: str = ""
    used: Sequence[GrownFrom] = ()
    raised: Grown | None = None
    reason: str = ""
    is_replayed: bool = False
    is_folded: bool = True

    @property
    def memory(self) -> Trace | None:
        """The trace at the level that was asked for; None where all runs have all layers, and tell it themselves."""
        trace = self.raised.trace if self.raised is not None else self.trace
        return trace if self.is_folded else None

    @property
    def fragments_bytes(self) -> int | None:
        """What MindSpore's pool needs beyond what is in use, as its replay has it."""
        trace = self.memory
        return None if trace is None else trace.with_fragments_peak_bytes - trace.used_peak_bytes


def attempt(
    order: RankOrder,
    plan: Fold,
    sources: Sequence[GrownFrom],
    further: Callable[[Size], GrownFrom | None],
    card: Card = A2,
) -> Attempt:
    """``sources``: the runs of ``plan.runs``, in their order, then others. ``further``: makes one more run, None where
    there is to be none. ``card``: what workspace is estimated for."""
    if order.keep is None and not plan.folded_rows:
        return Attempt()  # nothing to keep, and nothing to learn
    try:
        found, used, no_graph = _grown(order, plan, sources, further)
        trace = found.trace
        pool = replace(pool_of(order, used[-1].ran), reserved_bytes=None)
        raised = grow(trace, pool, card) if order.level > 1 else None
        known = used[-1].ran.trace
        is_replayed = known is not None and replay(known, unnamed(known.blocks), pool_of(order, used[-1].ran)).is_exact
    except (ValueError, LookupError) as reason:  # the figures of the runs stand, whatever is odd about their traces
        return Attempt(reason=str(reason))
    return Attempt(
        trace=trace,
        graph=found.graph if len(used) > 1 else None,
        no_graph=no_graph,
        used=used,
        raised=raised,
        is_replayed=is_replayed,
        is_folded=bool(plan.folded_rows),
    )


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
            _keep_beside(order, plan, found)
            told = replace(report, grown=words(plan, used, micro_batch_bytes))
            if found.raised is not None:
                keep_trace(order, used[-1].ran, found.raised, told)
            if found.no_graph:
                told = replace(
                    told,
                    fold_note=phrase(
                        "{note}; MindSpore's graph was not grown with the trace: {reason}",
                        note=told.fold_note,
                        reason=found.no_graph,
                    ),
                )
            record(order, used[-1].ran, told, grown=facts(plan, used, micro_batch_bytes))
            return told
    except OSError as error:
        reason = str(error)
    return replace(
        report,
        fold_note=phrase(
            "{note}; no trace of the whole model was made of it: {reason}", note=report.fold_note, reason=reason
        ),
    )


def _keep_beside(order: RankOrder, plan: Fold, found: Attempt) -> None:
    """What the runs have beside their traces, as far as it holds for the whole model. Raises OSError."""
    (source, *others), folder = found.used, kept(order.keep or Path(), order)
    named = None
    if not others and source.ran.trace is not None and found.trace is not None:
        named = whole_names(plan.kept(source.size), source.ran.trace, found.trace)
        keep_graph(folder / part_name(plan, source.size), folder, named)
    elif found.graph is not None:
        write_graph(found.graph, folder)
    largest = found.used[-1].size
    keep_layers(folder / part_name(plan, largest), folder, plan, largest, named)


def _grown(
    order: RankOrder, plan: Fold, sources: Sequence[GrownFrom], further: Callable[[Size], GrownFrom | None]
) -> _Whole:
    """Raises CannotGrow."""
    rows, small = plan.folded_rows, sources[0]
    if not rows:
        return _one_run(order, plan, small)
    if plan.full_run is not None:
        return _one_run(order, plan, sources[plan.full_run])
    if len(rows) > MOST_ROWS:
        raise CannotGrow(phrase("more than {count} rows of layers were folded", count=MOST_ROWS))
    num_layers = sum(plan.whole.layers[row] for row in rows)
    is_few = num_layers <= FEW_LAYERS and _graph(order, plan, small) is not None
    tries = _MORE if len(rows) == 1 and not is_few else 1
    found = _of_fewer(order, plan, sources, further, tries)
    wants_more = isinstance(found, CannotGrow) or (is_few and found.no_graph)
    if wants_more and num_layers <= _MOST_LAYERS:
        source = further(_with_all_of(plan, small.size, rows))
        if source is not None:
            return _one_run(order, plan, source)
    if isinstance(found, CannotGrow):
        raise found
    return found


def _of_fewer(
    order: RankOrder, plan: Fold, sources: Sequence[GrownFrom], further: Callable[[Size], GrownFrom | None], tries: int
) -> _Whole | CannotGrow:
    """Of runs with fewer layers, from the smallest on; else the first reason why not. Where there is a third run, from
    that and the one before it: a far prefetch waits otherwise beside the layers that are unlike the others, and larger
    runs have more layers beside none of them."""
    known = {one.size: one for one in sources}
    why: CannotGrow | None = None
    for start, strides in _starts(plan, known, tries):
        runs = _Runs(order=order, plan=plan, strides=strides, known=known, further=further)
        try:
            return _Whole(runs.with_all(plan.folded_rows, start), tuple(runs.used.values()), runs.no_graph)
        except CannotGrow as reason:
            why = why or reason
            if runs.is_spent:
                break
    assert why is not None
    return why


def _starts(plan: Fold, known: Collection[Size], tries: int) -> list[tuple[Size, Mapping[int, int]]]:
    """The smaller of two runs, and by how many layers the other one is larger: ``tries`` times. The last time but one
    by two periods, as MindSpore launches routers in one of two orders, of even and of odd numbers of layers."""
    rows, small = plan.folded_rows, plan.small
    strides = {row: max(step.layers[row] for step in plan.steps) - small.layers[row] for row in rows}
    sizes = [replace(small, layers=_longer(small.layers, strides, number)) for number in range(tries + 1)]
    first = 1 if len(rows) == 1 and tries > 1 and {*sizes[1:3]} <= {*known} else 0
    starts: list[tuple[Size, Mapping[int, int]]] = [(size, strides) for size in sizes[first:tries]]
    missing = plan.whole.layers[rows[0]] - SMALLEST
    if tries > 1 and strides[rows[0]] % STRIDE and missing > 2 * STRIDE:
        even = {row: SMALLEST + missing % STRIDE - small.layers[row] for row in rows}
        starts.insert(-1, (replace(small, layers=_longer(small.layers, even, 1)), dict.fromkeys(rows, STRIDE)))
    return starts


def _one_run(order: RankOrder, plan: Fold, source: GrownFrom) -> _Whole:
    """Of a run that has all layers of its rank."""
    run = _run(order, plan, source, _first_own(plan))
    return _Whole(replace(run, trace=renumbered(run, range(plan.num_layers))), (source,))


@dataclass(kw_only=True)
class _Runs:
    """Runs of a fold, grown row by row. ``strides``: of each folded row, the layers of a period. ``used``: those asked
    for; ``is_spent``: one of them is not to be had. ``no_graph``: why the graphs of the runs cannot be grown."""

    order: RankOrder
    plan: Fold
    strides: Mapping[int, int]
    known: dict[Size, GrownFrom]
    further: Callable[[Size], GrownFrom | None]
    used: dict[Size, GrownFrom] = field(default_factory=dict)
    is_spent: bool = False
    no_graph: str = ""

    def with_all(self, rows: Sequence[int], size: Size) -> Run:
        """The model of a ``size`` with all layers of ``rows``: made of two that have all layers of the rows before the
        last one, and of that as many as ``size``, and a period more. Raises CannotGrow."""
        if not rows:
            return self._of(size)
        *others, row = rows
        one = self.with_all(others, size)
        other = self.with_all(others, replace(size, layers=_longer(size.layers, {row: self.strides[row]}, 1)))
        grown_size = _with_all_of(self.plan, size, rows)
        kept = self.plan.kept(self.plan.whole if set(rows) == set(self.plan.folded_rows) else grown_size)
        small, big = self._in(one, row, size), self._in(other, row, size, 1)
        found = with_graph(small, big, kept, self.plan.whole.layers[row])
        self.no_graph = self.no_graph or found.why
        return Run(trace=found.trace, kept=kept, first=0, size=0, pool=other.pool, graph=found.graph)

    def _in(self, run: Run, row: int, size: Size, more: int = 0) -> Run:
        """The same, as one of so many layers of a row."""
        return replace(run, first=self.plan.rows[row].first, size=size.layers[row] + more * self.strides[row])

    def _of(self, size: Size) -> Run:
        found = self.known.get(size)
        if found is None and all(size.layers[row] < self.plan.whole.layers[row] for row in self.strides):
            found = self.further(size)
        if found is None:
            self.is_spent = True
            raise CannotGrow(phrase("there is no run with {part}", part=size_words(self.plan, size)))
        self.known[size] = self.used[size] = found
        return _run(self.order, self.plan, found, _first_own(self.plan))


def _with_all_of(plan: Fold, size: Size, rows: Sequence[int]) -> Size:
    """The same with all layers of some rows."""
    missing = {row: plan.whole.layers[row] - size.layers[row] for row in rows}
    return replace(size, layers=_longer(size.layers, missing, 1))


def _longer(layers: Sequence[int], strides: Mapping[int, int], times: int) -> tuple[int, ...]:
    return tuple(left + times * strides.get(row, 0) for row, left in enumerate(layers))


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
        graph=_graph(order, plan, source),
    )


def _graph(order: RankOrder, plan: Fold, source: GrownFrom) -> LaunchGraph | None:
    return None if order.keep is None else graph_of(kept(order.keep, order, part_name(plan, source.size)))
