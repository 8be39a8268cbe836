"""REPORT of a rank -> COLUMNS, of which the table of `dryrun` and its JSON form are made, and the rest of that form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swapconf.dryrun.outcome import RankReport, origin
from swapconf.memory import peak as peaks
from swapconf.memory import whole_device
from swapconf.memory.advice import advice, host_line, peak_line
from swapconf.memory.rank_columns import PEAKS
from swapconf.timing import host_demand
from swapconf.words.columns import Column, count, record, term
from swapconf.words.phrases import joined, phrase, plural, show
from swapconf.words.units import show_bytes


def _moved(report: RankReport) -> str:
    if report.level == 0 or (not report.outcome.good and not report.moved):
        return "-"
    sizes = [move.size_bytes for move in report.moved]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    return plural(
        sum(move.tensors for move in report.moved),
        "{count} tensor, {size}",
        "{count} tensors, {size}",
        size=show_bytes(total),
    )


def _moved_record(report: RankReport) -> list[dict[str, Any]]:
    return [{"layer": move.layer, "tensors": move.tensors, "bytes": move.size_bytes} for move in report.moved]


def _recomputed(report: RankReport) -> str:
    if report.recomputed is None:
        return "-"
    return plural(sum(layer.kernels for layer in report.recomputed), "{count} kernel", "{count} kernels")


def _recomputed_record(report: RankReport) -> list[dict[str, Any]] | None:
    if report.recomputed is None:
        return None
    return [{"layer": item.layer, "kernels": item.kernels} for item in report.recomputed]


COLUMNS: tuple[Column[RankReport], ...] = (
    Column(
        title=phrase("file"),
        shown=lambda report: Path(report.file).name,
        key="file",
        value=lambda report: report.file,
        in_words=True,
    ),
    count(phrase("rank"), lambda report: report.rank, "rank"),
    count(phrase("stage"), lambda report: report.stage, "stage"),
    term(phrase("outcome"), lambda report: report.outcome.value, "outcome"),
    *PEAKS,
    Column(title=phrase("moved"), shown=_moved, key="moved", value=_moved_record),
    Column(title=phrase("recomputed"), shown=_recomputed, key="recomputed", value=_recomputed_record),
    Column(
        title=phrase("seconds"),
        shown=lambda report: phrase("cached") if report.cached else f"{report.seconds:.0f}",
        key="seconds",
        value=lambda report: round(report.seconds, 1),
    ),
)


def as_record(report: RankReport, worded: Callable[[str], str] = show) -> dict[str, Any]:
    """The JSON form of a report. ``worded``: makes its texts; by default in the language in use."""
    figures_from = joined(
        ", ", [origin(report), *[report.fold_note] * bool(report.folded), *[report.grown] * bool(report.grown)]
    )
    return {
        **record(COLUMNS, report),
        "level": report.level,
        "detail": worded(report.detail),
        "least_used_peak_bytes": report.least_used_peak_bytes,
        "ahead_used_peak_bytes": report.ahead_used_peak_bytes,
        "device_bytes": report.device_bytes,
        "usable_bytes": report.usable_bytes,
        "base_address": report.base_address,
        "limit_bytes": report.limit_bytes,
        "by_step": [asdict(step) for step in report.by_step],
        "strategy_lines": list(report.strategy_lines),
        "cached": report.cached,
        "folded": list(report.folded) if report.folded else None,
        "fold_note": worded(report.fold_note),
        "grown": worded(report.grown),
        "findings": [
            {**finding.as_record(), "message": worded(finding.message), "hint": worded(finding.hint)}
            for finding in report.findings
        ],
        "workspace": report.workspace,
        "workspace_bytes": report.workspace_bytes,
        "workspace_kernel": report.workspace_kernel,
        "workspace_for": worded(report.workspace_for),
        "workspace_unknown": worded(report.workspace_unknown),
        "outside_bytes": report.outside_bytes,
        "device": None if report.device is None else whole_device.as_record(report.device, worded),
        "step_us": report.step_us,
        "hardware": report.hardware,
        "host": None if report.host_demand is None else host_demand.as_record(report.host_demand),
        "origin": worded(figures_from),
        "hyper_parallel": report.hyper_parallel,
        "as_parallel": report.as_parallel,
        "launch_blocking": report.launch_blocking,
        "shards": report.shards,
        "layout": report.layout,
        "expert_load": report.expert_load,
        "expert_ranks": report.expert_ranks,
        "expert_times": report.expert_times,
        "peak": _peak(report, worded),
    }


def _peak(report: RankReport, worded: Callable[[str], str]) -> dict[str, Any] | None:
    """What holds the peak, and in words what would lower it."""
    peak = report.peak
    return (
        None
        if peak is None
        else {
            **peaks.as_record(peak),
            "text": worded(peak_line(peak)),
            "advice": worded(advice(peak)),
            "host": worded(host_line(peak.host_optimizer_bytes, report.host_bytes or 0)),
        }
    )
