"""PEAKS + EFFECT -> REPORT: whether a rank fits, and whether it moved and recomputed what was decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from swapconf.dryrun.effect import compare_copies, compare_recompute
from swapconf.dryrun.effect.effect import Effect
from swapconf.dryrun.outcome import ESTIMATED, LayerMoves, LayerRecomputes, RankOutcome, RankReport
from swapconf.dryrun.pynative.compare_layers import compare_layers
from swapconf.dryrun.pynative.refusals import told_of_all_cards, told_of_one_card
from swapconf.memory.advice import advice
from swapconf.memory.peak import Peak
from swapconf.study.study import Study
from swapconf.trace.trace import Notice, WorkerLog
from swapconf.words.findings import Finding, Severity, in_order
from swapconf.words.phrases import phrase
from swapconf.words.units import parse_bytes, show_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Peaks:
    """The memory of one rank. ``reserved_bytes``: what its pool took of the device, in whole blocks. ``is_estimated``:
    what fragments add, at least, was neither run nor replayed. ``least_bytes``: of a PyNative run, the least that its
    threads can have in use at the peak; ``ahead_bytes``: what they have with Python some operators ahead."""

    used_bytes: int
    with_fragments_bytes: int
    reserved_bytes: int | None
    is_estimated: bool = False
    least_bytes: int | None = None
    ahead_bytes: int | None = None


def verdict(report: RankReport, study: Study, log: WorkerLog, peaks: Peaks, effect: Effect) -> RankReport:
    """The report of a rank that ended well, with its memory and all findings."""
    limit, findings = _limit(study, log)
    if study.strategy is not None:
        findings += compare_copies.compare(
            study.strategy, effect, study.config.origin("swap_config.swap", "swap_config")
        )
        findings += compare_recompute.compare(
            study.strategy, effect, study.config.origin("recompute_config.recompute", "recompute_config")
        )
    is_applied = report.as_parallel or report.is_shared  # on one card mindformers leaves both out
    findings += compare_layers(study, effect) if is_applied else told_of_one_card(study)
    findings += told_of_all_cards(study)
    over = 0 if limit is None else peaks.with_fragments_bytes - limit
    # fragments follow no line: an estimate of them alone refuses nothing
    is_sure = limit is not None and over > 0 and (not peaks.is_estimated or peaks.used_bytes > limit)
    if limit is not None and over > 0:
        findings.append(
            Finding(
                origin=study.config.origin("context.max_device_memory", "context"),
                rule="does-not-fit",
                severity=Severity.ERROR if is_sure else Severity.WARNING,
                message=phrase(
                    "rank {rank} needs {size} with fragments, {over} more than the {limit} it may use ({counted})",
                    rank=report.rank,
                    size=show_bytes(peaks.with_fragments_bytes),
                    over=show_bytes(over),
                    limit=show_bytes(limit),
                    counted=_counted(report),
                ),
                hint=_remedy(report.peak, limit),
            )
        )
    return replace(
        report,
        used_peak_bytes=peaks.used_bytes,
        least_used_peak_bytes=peaks.least_bytes,
        ahead_used_peak_bytes=peaks.ahead_bytes,
        with_fragments_peak_bytes=peaks.with_fragments_bytes,
        reserved_bytes=peaks.reserved_bytes,
        host_bytes=effect.host_peak_bytes,
        limit_bytes=limit,
        recomputed=None
        if effect.recomputed is None
        else tuple(LayerRecomputes(layer, kernels) for layer, kernels in _recomputed(effect)),
        moved=tuple(
            LayerMoves(layer, copies.num_tensors, copies.size_bytes) for layer, copies in effect.by_layer.items()
        ),
        findings=in_order([*report.findings, *findings]),
        outcome=RankOutcome.DOES_NOT_FIT if is_sure else RankOutcome.COMPLETED,
    )


def _recomputed(effect: Effect) -> Iterator[tuple[str, int]]:
    """By layer, at last what MindSpore names after none."""
    by_layer = effect.recomputed_by_layer
    yield from by_layer.items()
    if elsewhere := len(effect.recomputed or ()) - sum(by_layer.values()):
        yield "", elsewhere


def _remedy(peak: Peak | None, limit: int) -> str:
    """What to do where a rank does not fit: what no swap and no recompute can reach is not recommended."""
    if peak is not None and peak.at.when and peak.rest.used_bytes > limit:
        return advice(peak)
    return phrase("swap or recompute more, or give the rank fewer layers")


def _counted(report: RankReport) -> str:
    if not report.workspace:
        return phrase("operator workspace not counted")
    return (
        phrase("operator workspace estimated")
        if report.workspace == ESTIMATED
        else phrase("operator workspace recorded")
    )


def without_trace(report: RankReport, study: Study, log: WorkerLog) -> RankReport:
    """The report of a rank that ended well and left no trace."""
    limit, findings = _limit(study, log)
    return replace(
        report,
        used_peak_bytes=log.used_peak_bytes,
        limit_bytes=limit,
        findings=in_order([*report.findings, *findings]),
        with_fragments_peak_bytes=log.with_fragments_peak_bytes,
        detail=phrase("no trace was written; peaks are those of the log, in whole MiB"),
    )


def _limit(study: Study, log: WorkerLog) -> tuple[int | None, list[Finding]]:
    """What the rank may use: the YAML's limit, but no more than MindSpore can take of the device; it cuts silently."""
    asked = study.config.runtime.max_device_memory
    findings = []
    if log.notices.get(Notice.POOL_BLOCK_CUT):
        findings.append(
            Finding(
                origin=study.config.origin("context.max_device_memory", "context"),
                rule="memory-pool-cut",
                severity=Severity.NOTE,
                message=phrase(Notice.POOL_BLOCK_CUT.value),
                hint=phrase("nothing to do here; on a card, leave more room in max_device_memory"),
            )
        )
    try:
        limit = parse_bytes(asked) if asked is not None else log.usable_bytes
    except ValueError:
        limit = log.usable_bytes
    ceiling = log.usable_bytes
    if limit is not None and ceiling is not None and limit > ceiling:
        findings.append(
            Finding(
                origin=study.config.origin("context.max_device_memory"),
                rule="memory-limit-cut",
                severity=Severity.WARNING,
                message=phrase(
                    "MindSpore silently cuts max_device_memory {asked} to the {size} of the device",
                    asked=asked,
                    size=show_bytes(ceiling),
                ),
                hint=phrase("write a limit up to {size}", size=show_bytes(ceiling)),
            )
        )
        return ceiling, findings
    return limit, findings
