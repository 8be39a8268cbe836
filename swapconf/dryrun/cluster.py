"""REPORTS -> CLUSTER VIEW: the ranks of one config side by side."""

from __future__ import annotations

from collections.abc import Sequence

from swapconf.config.cluster import Cluster
from swapconf.dryrun.outcome import RankReport, origin
from swapconf.memory.cluster_view import ClusterView, RankRow
from swapconf.words.phrases import joined, phrase

CARDS = 8  # of a host of Ascend 910B, where nobody says otherwise


def cluster_view(
    title: str,
    reports: Sequence[RankReport],
    cluster: Cluster,
    *,
    cards_per_host: int | None = None,
    budget_bytes: int | None = None,
    kept_in: str = "",
) -> ClusterView:
    """``cards_per_host``: None where it was not told. ``budget_bytes``: what the user gives a rank, None for all."""
    return ClusterView(
        title=title,
        num_devices=cluster.num_devices,
        num_stages=cluster.num_stages,
        cards_per_host=cards_per_host or CARDS,
        is_assumed=cards_per_host is None,
        kept_in=kept_in,
        rows=tuple(_row(report, budget_bytes) for report in reports),
    )


def _row(report: RankReport, budget_bytes: int | None) -> RankRow:
    budget = None if budget_bytes is None else report.pool_budget_bytes(budget_bytes)
    limits = [size for size in (report.limit_bytes, budget) if size is not None]
    return RankRow(
        rank=report.rank,
        stage=report.stage,
        outcome=phrase(report.outcome.value),
        is_good=report.outcome.good,
        origin=joined(", ", [origin(report), *[report.fold_note] * bool(report.fold_note)]),
        used_peak_bytes=report.used_peak_bytes,
        with_fragments_peak_bytes=report.with_fragments_peak_bytes,
        reserved_bytes=report.reserved_bytes,
        limit_bytes=min(limits, default=None),
        host_bytes=report.host_bytes,
        peak=report.peak,
    )
