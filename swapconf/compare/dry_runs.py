"""YAMLS -> VARIANTS: one rank of each stage really dry-run, its traces kept, and read as any other traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapconf.compare import folders
from swapconf.compare.traced import TIMES, of_traces
from swapconf.compare.variant import ComparedFigure, RankFigures, Variant
from swapconf.dryrun.kept_runs import reports_of, without_trace
from swapconf.dryrun.rank_order import RankOrder
from swapconf.memory.peak import Peak, of_record
from swapconf.timing.cost import Machine
from swapconf.trace import run_record
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError, in_order
from swapconf.words.phrases import joined, phrase

_FROM_REPORT = {
    ComparedFigure.USED_PEAK: "used_peak_bytes",
    ComparedFigure.WITH_FRAGMENTS: "with_fragments_peak_bytes",
    ComparedFigure.HOST: "host_bytes",
}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One YAML and the dry runs of it.

    Attributes:
        keep: Of all orders, the folder that has ``rank_N``.
        findings: What is wrong or noteworthy in the YAML.
    """

    title: str
    keep: Path
    orders: tuple[RankOrder, ...]
    findings: tuple[Finding, ...] = ()


def dry_run(
    candidates: Sequence[Candidate],
    jobs: int,
    machine: Machine,
    *,
    policy: str = "mindspore",
    reuse: bool = False,
    dask: str | None = None,
    progress: Callable[[], None] = lambda: None,
) -> tuple[Variant, ...]:
    """Dry-runs all ranks of all candidates, ``jobs`` at once. One that fails does not stop the others. ``reuse``: take
    a kept run with the same settings and versions for a new one. ``progress``: called after each new run."""
    orders = [order for candidate in candidates for order in candidate.orders]
    known = reports_of(orders, jobs, reuse=reuse, dask=dask, progress=progress)
    return tuple(
        _variant(candidate, [known[(candidate.keep, order.rank)] for order in candidate.orders], machine, policy)
        for candidate in candidates
    )


def _variant(candidate: Candidate, reports: Sequence[Mapping[str, Any]], machine: Machine, policy: str) -> Variant:
    findings = tuple(
        Finding(
            origin=Origin(file=entry["file"], line=entry["line"], column=entry["column"], path=entry["path"]),
            rule=entry["rule"],
            severity=Severity(entry["severity"]),
            message=entry["message"],
            hint=entry["hint"],
        )
        for report in reports
        for entry in report["findings"]
    )
    blank = Variant(title=candidate.title, findings=in_order([*candidate.findings, *findings]))
    broken = [report for report in reports if report["used_peak_bytes"] is None]
    if broken:
        return replace(blank, failure=joined("; ", map(without_trace, broken)))
    if any(report["folded"] and not _is_grown(candidate.keep, report) for report in reports):
        return _of_reports(
            blank,
            reports,
            phrase(
                "the dry run was folded, and there is no trace of the whole model "
                "with all its micro-batches; run it with --no-fold"
            ),
        )
    try:
        ranks = folders.read(candidate.keep)
    except SwapconfError as error:
        return _of_reports(blank, reports, phrase("the trace cannot be read: {error}", error=error))
    wanted = {order.rank for order in candidate.orders}
    variant = of_traces(candidate.title, [item for item in ranks if item.rank in wanted], machine, policy)
    return replace(variant, findings=in_order([*blank.findings, *variant.findings]))


def _is_grown(keep: Path, report: Mapping[str, Any]) -> bool:
    """Whether a folded run left a trace with all layers and micro-batches."""
    facts = run_record.read(keep / f"rank_{report['rank']}").get("grown")
    return (
        bool(report.get("grown"))
        and isinstance(facts, dict)
        and facts.get("micro_batches") == facts.get("of_micro_batches")
    )


def _of_reports(blank: Variant, reports: Sequence[Mapping[str, Any]], why: str) -> Variant:
    """Memory as the dry runs tell it."""
    ranks = []
    for report in reports:
        values: dict[ComparedFigure, float] = {
            figure: report[key] for figure, key in _FROM_REPORT.items() if report.get(key) is not None
        }
        if device := report.get("device"):
            values[ComparedFigure.DEVICE] = device["most_bytes"]
        sizes = [move["bytes"] for move in report["moved"]]
        if None not in sizes:
            values[ComparedFigure.MOVED] = sum(sizes)
        ranks.append(RankFigures(rank=report["rank"], stage=report["stage"], values=values, peak=_peak(report)))
    unknown = dict.fromkeys((*TIMES, ComparedFigure.RECOMPUTED_KERNELS, ComparedFigure.RECOMPUTED_OPERATIONS), why)
    return replace(
        blank,
        ranks=tuple(ranks),
        unknown=unknown,
        origins={"memory": joined(", ", dict.fromkeys(map(run_record.origin, reports)))},
    )


def _peak(report: Mapping[str, Any]) -> Peak | None:
    """A report that was kept can be of another version, or damaged."""
    try:
        return of_record(report["peak"])
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def failed(title: str, findings: Sequence[Finding], why: str) -> Variant:
    """A YAML or a folder that there is nothing to compare of."""
    return Variant(title=title, findings=in_order(findings), failure=why)
