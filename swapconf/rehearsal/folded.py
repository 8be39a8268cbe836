"""ORDER -> REPORT: a dry run of one rank, from fewer layers where that gives the same, else of the whole model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from swapconf.dryrun.effect import observed
from swapconf.dryrun.outcome import Outcome, RankReport
from swapconf.formats import worker_log
from swapconf.phrases import phrase
from swapconf.rehearsal.child import Ran, record, run
from swapconf.rehearsal.extrapolation import Sample, doubt, extrapolated, holds, sample
from swapconf.rehearsal.fewer_layers import with_fewer_layers
from swapconf.rehearsal.folding import LEAST_EQUAL_LAYERS, CannotFold, Fold, check, fold
from swapconf.rehearsal.levels import at_level, keep_trace, raised
from swapconf.rehearsal.order import Order, cluster_of
from swapconf.rehearsal.verdict import Peaks, verdict, without_trace
from swapconf.simulate.workspace import grow
from swapconf.strategy import Strategy, Swap
from swapconf.study.study import Study
from swapconf.units import GIB

_FOLDED = (1, 2)  # there is nothing to extrapolate at level 0, and the times of level 3 follow no line


def rehearse(order: Order) -> RankReport:
    """Dry-run one rank. Every fault is an outcome of the report; only a wrong order raises."""
    start = time.monotonic()
    study = order.study(order.document)
    note = ""
    if order.fold and order.level in _FOLDED:
        try:
            return replace(_folded(order, study), seconds=time.monotonic() - start)
        except CannotFold as reason:
            if (study.config.model.num_layers or 0) >= LEAST_EQUAL_LAYERS:
                note = phrase("the whole model was run: {reason}", reason=reason)
    report = _whole(order, study)
    return replace(report, fold_note=note, seconds=time.monotonic() - start)


def foldable(order: Order) -> bool:
    """Whether it will at least be tried to run fewer layers."""
    if not order.fold or order.level not in _FOLDED:
        return False
    study = order.study(order.document)
    try:
        _plan(order, study)
    except CannotFold:
        return False
    return True


def _whole(order: Order, study: Study) -> RankReport:
    ran = run(order, study)
    if not ran.report.outcome.good or order.level == 0:
        return ran.report
    if ran.trace is None:
        return without_trace(ran.report, study, ran.log)
    peaks = Peaks(used_bytes=ran.trace.used_peak_bytes, with_fragments_bytes=ran.trace.with_fragments_peak_bytes,
                  reserved_bytes=ran.reserved_bytes)
    effect = observed(ran.trace, study.config.model.num_layers or 0)
    report = verdict(ran.report, study, ran.log, peaks, effect)
    record(order, ran, report)
    return raised(order, study, ran, report, effect) if order.level > 1 else report


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One folded model, ready to run."""

    size: int
    order: Order
    study: Study

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"layers_{self.size}"


def _folded(order: Order, study: Study) -> RankReport:
    """Raises CannotFold, before or after the folded runs."""
    plan, strategy = _plan(order, study)
    small_size, big_size, third_size = plan.sizes
    parts = [_part(order, study, strategy, plan, size) for size in plan.sizes]
    small, big = _samples(parts[:2], plan, order.children)
    whole = extrapolated(small.sample, big.sample, plan, plan.own)
    sizes: tuple[int, ...] = (small_size, big_size)
    note = phrase("extrapolated from {small} and {big} of {layers} equal layers (fragments are estimated)",
                  small=small_size, big=big_size, layers=plan.own)
    if reason := doubt(small.sample, big.sample, whole, _longest_prefetch(strategy)):
        (third,) = _samples(parts[2:], plan, 1)
        if not holds(extrapolated(small.sample, big.sample, plan, third_size), third.sample):
            raise CannotFold(phrase("{reason}, and a run with {third} layers is not where {small} and {big} say",
                                    reason=reason, third=third_size, small=small_size, big=big_size))
        sizes = plan.sizes
        note = phrase("{note}, confirmed with {third} because {reason}", note=note, third=third_size, reason=reason)
    peaks = Peaks(used_bytes=whole.used_peak_bytes, with_fragments_bytes=whole.with_fragments_peak_bytes,
                  reserved_bytes=_reserved(big, whole))
    lines = tuple(line for entry in strategy.layers for line in worker_log.lines(entry, strategy.swap_on))
    blank = replace(big.report, folded=sizes, fold_note=note, strategy_lines=lines)
    report = verdict(blank, study, big.ran.log, peaks, whole.effect)
    record(order, big.ran, report)
    return report


def _plan(order: Order, study: Study) -> tuple[Fold, Strategy]:
    if order.plain or study.strategy is None or study.network is None or study.network.family is None:
        raise CannotFold(phrase("what each layer does is only known with swapconf, for a family of the catalog"))
    return fold(study.strategy, cluster_of(order.document).stage_of(order.rank)), study.strategy


def _part(order: Order, study: Study, strategy: Strategy, plan: Fold, size: int) -> _Part:
    kept = plan.kept(size)
    document = with_fewer_layers(order.document, study.config, kept)
    folded = order.study(document)
    check(folded.strategy, strategy, kept)
    return _Part(size=size, order=replace(order, document=document), study=folded)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """``report``: at the level that was asked for, without peaks. ``reserved_bytes``: at that level."""

    ran: Ran
    sample: Sample
    report: RankReport
    reserved_bytes: int | None


def _samples(parts: Sequence[_Part], plan: Fold, at_once: int) -> list[_Measured]:
    """The children wait for processes, so threads are enough to have several of them."""
    with ThreadPoolExecutor(max_workers=max(1, at_once)) as pool:
        done = list(pool.map(lambda part: run(part.order, part.study, part.name), parts))
    return [_measured(ran, part, plan) for ran, part in zip(done, parts, strict=True)]


def _measured(ran: Ran, part: _Part, plan: Fold) -> _Measured:
    if ran.report.outcome is not Outcome.COMPLETED or ran.trace is None:
        raise CannotFold(phrase("with {layers} layers it {outcome}", layers=part.size,
                                outcome=phrase(ran.report.outcome.value)))
    effect = observed(ran.trace, len(plan.kept(part.size)))
    if part.order.level < 2:
        return _Measured(ran=ran, sample=sample(ran.trace, effect, plan, part.size), report=ran.report,
                         reserved_bytes=ran.reserved_bytes)
    try:
        grown = grow(ran.trace)
        report = at_level(part.order.level, ran.report, grown.workspace, ran.trace)
        keep_trace(part.order, ran, grown, report, part.name)
    except (ValueError, OSError) as error:
        raise CannotFold(str(error)) from None
    return _Measured(ran=ran, sample=sample(grown.trace, effect, plan, part.size), report=report,
                     reserved_bytes=grown.reserved_bytes)


def _reserved(big: _Measured, whole: Sample) -> int | None:
    """MindSpore takes whole GiB; what it takes beyond the peak does not depend on the number of layers."""
    if big.reserved_bytes is None:
        return None
    peak = whole.with_fragments_peak_bytes
    return big.reserved_bytes + (-(-peak // GIB) + -big.sample.with_fragments_peak_bytes // GIB) * GIB


def _longest_prefetch(strategy: Strategy) -> int:
    return max((action.prefetch for action in strategy.actions().values() if isinstance(action, Swap)), default=0)
