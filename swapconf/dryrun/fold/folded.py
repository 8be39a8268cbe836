"""ORDER -> REPORT: a dry run of one rank, from a smaller model where that gives the same, else of the whole one.

The folds of a model are tried from the cheapest on. One that does not hold gives way to the next, and in the end to the
whole model. A part that does not end well is what becomes of the rank: the whole model would only take longer to get
there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from swapconf.decide import log_lines
from swapconf.dryrun.child import Ran, record, run
from swapconf.dryrun.effect.effect import observed
from swapconf.dryrun.fold.extrapolation import doubt, extrapolated, holds, used_peak_bytes
from swapconf.dryrun.fold.fewer_layers import with_fewer_layers
from swapconf.dryrun.fold.folding import CannotFold, Fold, Size, check, reaches_far
from swapconf.dryrun.fold.grown_trace import Attempt, attempt, keep_whole, pool_of
from swapconf.dryrun.fold.grown_words import GrownFrom
from swapconf.dryrun.fold.micro_batches import with_micro_batches
from swapconf.dryrun.fold.orders import FOLDED, micro_batches_of, plans
from swapconf.dryrun.fold.part_words import basis, of_part, part_name, size_words
from swapconf.dryrun.fold.refusals import DealtOtherwise, NothingToRead, NotOnLine, PartFailed, check_deal, failed
from swapconf.dryrun.fold.samples import Sample, sample
from swapconf.dryrun.levels import at_level, keep_trace, raised
from swapconf.dryrun.no_dry_run import no_dry_run
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.dryrun.verdict import Peaks, verdict, without_trace
from swapconf.dryrun.watched import with_steps
from swapconf.memory import holders
from swapconf.memory.earliest_release import ahead_used_peak_bytes, least_used_peak_bytes
from swapconf.memory.peak import Peak, grown
from swapconf.memory.with_workspace import grow
from swapconf.study.beside import beside
from swapconf.study.card import card_of
from swapconf.study.study import Study
from swapconf.words.findings import Finding
from swapconf.words.phrases import phrase
from swapconf.words.units import GIB


def dry_run(order: RankOrder) -> RankReport:
    """Dry-run one rank. Every fault is an outcome of the report; only a wrong order raises."""
    start = time.monotonic()
    study = order.study(order.document)
    if refused := tuple(no_dry_run(study, order.level, os.environ, order.register_path)):
        return not_started(order, refused)
    note = ""
    if order.fold and order.level in FOLDED:
        try:
            return replace(_folded(order, study), seconds=time.monotonic() - start)
        except PartFailed as failed:
            record(order, failed.ran, failed.report)
            return replace(failed.report, seconds=time.monotonic() - start)
        except CannotFold as reason:
            if max(study.config.model.num_layers or 0, micro_batches_of(order, study).count) >= _WORTH_TELLING:
                note = phrase("the whole model was run: {reason}", reason=reason)
    report = _whole(order, study)
    return replace(report, fold_note=note, seconds=time.monotonic() - start)


def not_started(order: RankOrder, refused: tuple[Finding, ...]) -> RankReport:
    """The report of a rank of which there is no dry run."""
    return RankReport(
        file=order.document.file,
        rank=order.rank,
        stage=cluster_of(order.document).stage_of(order.rank),
        level=order.level,
        outcome=RankOutcome.NOT_STARTED,
        detail=refused[0].message,
        findings=refused,
    )


_WORTH_TELLING = 9  # layers or micro-batches, from which on one would expect that not all of them are run


def _whole(order: RankOrder, study: Study) -> RankReport:
    ran = run(order, study)
    if not ran.report.outcome.good or order.level == 0:
        return ran.report
    ran = replace(ran, report=with_steps(ran.report, order, study))
    if ran.trace is None:
        return without_trace(ran.report, study, ran.log)
    peaks = Peaks(
        used_bytes=ran.trace.used_peak_bytes,
        with_fragments_bytes=ran.trace.with_fragments_peak_bytes,
        reserved_bytes=ran.reserved_bytes,
        least_bytes=least_used_peak_bytes(ran.trace) if ran.trace.marks else None,
        ahead_bytes=ahead_used_peak_bytes(ran.trace) if ran.trace.marks and not ran.report.is_raced else None,
    )
    effect = observed(ran.trace, study.config.model.num_layers or 0)
    blank = replace(ran.report, beside=beside(ran.trace, study.config, order.machine, os.environ))
    report = verdict(blank, study, ran.log, peaks, effect)
    record(order, ran, report)
    return raised(order, study, ran, report, effect) if order.level > 1 else report


@dataclass(frozen=True, kw_only=True)
class FoldRun:
    """One run of a fold, ready to start. ``name``: of its folder below that of the rank."""

    size: Size
    order: RankOrder
    study: Study
    name: str


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A part that was run.

    Attributes:
        report: At the level that was asked for, without peaks.
        reserved_bytes: At that level.
    """

    part: FoldRun
    ran: Ran
    sample: Sample
    report: RankReport
    reserved_bytes: int | None


def _folded(order: RankOrder, study: Study) -> RankReport:
    """Raises CannotFold, before or after the folded runs, and PartFailed."""
    known: dict[Size, MeasuredRun] = {}
    found = CannotFold(phrase("nothing was tried"))
    refused: set[Size] = set()
    is_crooked = False
    for plan in plans(order, study):
        if refused.intersection(plan.runs) or (is_crooked and plan.is_on_line_of_layers):
            continue
        try:
            return _by(plan, order, study, known)
        except NothingToRead:
            raise
        except CannotFold as reason:
            found = reason
            if isinstance(reason, DealtOtherwise):
                refused.add(reason.size)
            # what a far prefetch bends, it bends whatever number of layers is left out
            is_crooked = is_crooked or (isinstance(reason, NotOnLine) and reaches_far(study.strategy))
    raise found


def _by(plan: Fold, order: RankOrder, study: Study, known: dict[Size, MeasuredRun]) -> RankReport:
    """The report from the runs of a fold. ``known``: parts that were run already; this adds to them."""
    parts = [_part(order, study, plan, size) for size in plan.runs]
    checking = _part(order, study, plan, plan.check) if plan.steps else None
    measured = _run(parts, plan, order.children, known)
    samples = [one.sample for one in measured]
    whole = extrapolated(samples, plan, plan.whole)
    words = why = ""
    prefetch = study.strategy.longest_prefetch if study.strategy is not None else 0
    if checking is not None and (why := doubt(samples, whole, plan, prefetch)):
        (third,) = _run([checking], plan, 1, known)
        words = size_words(plan, plan.check)
        if not holds(samples, plan, third.sample):
            raise NotOnLine(
                phrase("{reason}, and a run with {third} is not where smaller ones say", reason=why, third=words)
            )
        measured.append(third)
    big = measured[_biggest(plan)]
    found = attempt(
        order,
        plan,
        [_source(one) for one in measured],
        lambda size: _further(order, study, plan, size, known),
        card_of(order.machine, study.config),
    )
    fewer = used_peak_bytes(samples, plan, replace(plan.whole, micro_batches=plan.small.micro_batches))
    added = whole.used_peak_bytes - fewer  # by the micro-batches that no run and no trace has
    whole = _seen(whole, found, fewer)
    note = basis(plan, is_replayed=found.fragments_bytes is not None)
    if words:
        note = phrase("{note}, confirmed with {third} because {reason}", note=note, third=words, reason=why)
    peaks = Peaks(
        used_bytes=whole.used_peak_bytes,
        with_fragments_bytes=whole.with_fragments_peak_bytes,
        reserved_bytes=_reserved(measured, big, whole),
        is_estimated=not found.is_replayed or found.memory is None or plan.folds_micro_batches,
    )
    strategy = study.strategy
    lines = (
        big.report.strategy_lines
        if strategy is None or order.plain
        else tuple(line for entry in strategy.layers for line in log_lines.lines(entry, strategy.swap_on))
    )
    watched = with_steps(big.report, big.part.order, big.part.study)
    blank = replace(
        watched,
        folded=tuple(sum(one.part.size.layers) for one in measured),
        fold_note=note,
        strategy_lines=lines,
        peak=_peak(measured, big, plan, found, whole.used_peak_bytes),
        findings=tuple(of_part(finding, big.part.size, plan) for finding in watched.findings),
    )
    report = verdict(blank, study, big.ran.log, peaks, whole.effect)
    record(order, big.ran, report)
    more = plan.whole.micro_batches - plan.small.micro_batches
    return keep_whole(order, plan, found, report, added // max(more, 1))


def _seen(whole: Sample, found: Attempt, on_line: int) -> Sample:
    """The whole model with what its grown trace shows: what fragments add, and a peak at a moment that is the highest
    of its place only there, above the lines. ``on_line``: of a model with as few micro-batches."""
    trace = found.memory
    if trace is None:
        return whole
    used = whole.used_peak_bytes + max(trace.used_peak_bytes - on_line, 0)
    fragments = trace.with_fragments_peak_bytes - trace.used_peak_bytes
    return replace(whole, used_peak_bytes=used, with_fragments_peak_bytes=used + fragments)


def _source(one: MeasuredRun) -> GrownFrom:
    return GrownFrom(size=one.part.size, ran=one.ran)


def _further(
    order: RankOrder, study: Study, plan: Fold, size: Size, known: dict[Size, MeasuredRun]
) -> GrownFrom | None:
    """One more run, which only a trace that is kept is worth; None where it does not end well."""
    if order.keep is None:
        return None
    try:
        return _source(*_run([_part(order, study, plan, size)], plan, 1, known))
    except (PartFailed, CannotFold):
        return None


def _peak(
    measured: Sequence[MeasuredRun], big: MeasuredRun, plan: Fold, found: Attempt, used_bytes: int
) -> Peak | None:
    """What holds the peak of the whole model: the parts of its grown trace, else those of the biggest run, grown. The
    moment when layers keep nothing is on a line, as every place of the step is, where all runs have it in the same
    pass."""
    if found.memory is not None:
        return grown(holders.peak(found.memory), used_bytes)
    peaks = [one.report.peak for one in measured[: len(plan.runs)] if one.report.peak is not None]
    if big.report.peak is None:
        return None
    if len(peaks) < len(plan.runs) or len({one.rest.when for one in peaks}) > 1:
        return grown(big.report.peak, used_bytes)
    return grown(big.report.peak, used_bytes, plan.on_line([one.rest.used_bytes for one in peaks], plan.whole))


def _biggest(plan: Fold) -> int:
    return max(range(len(plan.runs)), key=lambda number: sum(plan.runs[number].layers))


def _part(order: RankOrder, study: Study, plan: Fold, size: Size) -> FoldRun:
    document = with_micro_batches(order.document, micro_batches_of(order, study), size.micro_batches)
    if plan.rows and size.layers != plan.whole.layers:
        kept = plan.kept(size)
        document = with_fewer_layers(document, study.config, kept)
        folded = order.study(document)
        if study.strategy is not None:
            check(folded.strategy, study.strategy, kept)
    return FoldRun(
        size=size, order=replace(order, document=document), study=order.study(document), name=part_name(plan, size)
    )


def _run(parts: Sequence[FoldRun], plan: Fold, at_once: int, known: dict[Size, MeasuredRun]) -> list[MeasuredRun]:
    """The children wait for processes, so threads are enough to have several of them. Raises PartFailed."""
    todo = [part for part in parts if part.size not in known]

    def start(part: FoldRun) -> Ran:
        return run(part.order, part.study, part.name)

    with ThreadPoolExecutor(max_workers=max(1, at_once)) as pool:
        for part, ran in zip(todo, pool.map(start, todo) if at_once > 1 else map(start, todo), strict=True):
            known[part.size] = _measured(ran, part, plan)
    return [known[part.size] for part in parts]


def _measured(ran: Ran, part: FoldRun, plan: Fold) -> MeasuredRun:
    if ran.report.outcome is not RankOutcome.COMPLETED:
        raise PartFailed(failed(ran, part.size, plan), ran)
    if ran.trace is None:
        raise NothingToRead(phrase("with {part} it leaves no trace", part=size_words(plan, part.size)))
    effect = observed(ran.trace, part.study.config.model.num_layers or 0)
    check_deal(effect, part.size, plan)
    if part.order.level < 2:
        return MeasuredRun(
            part=part,
            ran=ran,
            sample=sample(ran.trace, effect, plan, part.size),
            report=replace(ran.report, beside=beside(ran.trace, part.study.config, part.order.machine, os.environ)),
            reserved_bytes=ran.reserved_bytes,
        )
    try:
        card = card_of(part.order.machine, part.study.config)
        raised_trace = grow(ran.trace, pool_of(part.order, ran), card)
        blank = replace(
            ran.report, beside=beside(raised_trace.trace, part.study.config, part.order.machine, os.environ)
        )
        report = at_level(part.order.level, blank, raised_trace.workspace, ran.trace, card)
        keep_trace(part.order, ran, raised_trace, report, part.name)
    except (ValueError, OSError) as error:
        raise NothingToRead(str(error)) from None
    return MeasuredRun(
        part=part,
        ran=ran,
        sample=sample(raised_trace.trace, effect, plan, part.size),
        report=report,
        reserved_bytes=raised_trace.reserved_bytes,
    )


def _reserved(measured: Sequence[MeasuredRun], big: MeasuredRun, whole: Sample) -> int | None:
    """MindSpore takes whole GiB; what it takes beyond the peak does not depend on the number of layers. Where it takes
    the same whatever the peak is, it took one block in advance (`max_device_memory`)."""
    if big.reserved_bytes is None:
        return None
    needed = _gibs(whole)
    if len({one.reserved_bytes for one in measured}) == 1 < len({_gibs(one.sample) for one in measured}):
        return max(big.reserved_bytes, needed * GIB)
    return big.reserved_bytes + (needed - _gibs(big.sample)) * GIB


def _gibs(run: Sample) -> int:
    return -(-run.with_fragments_peak_bytes // GIB)
