"""What `swapconf dryrun` says of all ranks together: the tightest of them, and the page with the whole cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from swapconf import __version__
from swapconf.cli.common import write_out
from swapconf.memory.advice import advice, host_line, peak_line
from swapconf.words.phrases import joined, phrase

if TYPE_CHECKING:
    from swapconf.dryrun.outcome import RankReport
    from swapconf.dryrun.rank_order import RankOrder
    from swapconf.memory.cluster_view import ClusterView


def cards_told(context: click.Context, cards_per_host: int) -> int | None:
    """None where the command line leaves ``--cards-per-host`` at its default."""
    is_told = context.get_parameter_source("cards_per_host") is not ParameterSource.DEFAULT
    return cards_per_host if is_told else None


def views(
    orders: Sequence[RankOrder],
    reports: Sequence[RankReport],
    cards_per_host: int | None,
    budget_bytes: int | None,
    keep: Path | None,
) -> list[ClusterView]:
    """One for each YAML, in their order."""
    from swapconf.dryrun.cluster import cluster_view
    from swapconf.dryrun.rank_order import cluster_of

    documents = {order.document.file: order.document for order in orders}
    return [
        cluster_view(
            file,
            [report for report in reports if report.file == file],
            cluster_of(document),
            cards_per_host=cards_per_host,
            budget_bytes=budget_bytes,
            kept_in=str(keep / Path(file).stem if len(documents) > 1 else keep) if keep else "",
        )
        for file, document in documents.items()
    ]


def tightest_line(view: ClusterView) -> str:
    """One line on the tightest rank: where its peak is, what would lower it, and what the host memory is; "" where
    nothing is known of it."""
    row = view.tightest
    if row is None or row.peak is None:
        return ""
    lines = [advice(row.peak) or peak_line(row.peak), host_line(row.peak.host_optimizer_bytes, row.host_bytes or 0)]
    what = joined("; ", [line for line in lines if line])
    if len(view.rows) == 1:
        return phrase("rank {rank}: {text}", rank=row.rank, text=what)
    return phrase("tightest is rank {rank} (stage {stage}): {text}", rank=row.rank, stage=row.stage, text=what)


def write_page(shown: Sequence[ClusterView], file: Path) -> None:
    """Write the page; the message of a ClickException says why it cannot be."""
    from swapconf.report import cluster_page

    write_out(file, cluster_page.page(shown, __version__))
