"""ORDERS -> REPORTS: dry runs that a plan needs, with their progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf.cli.children import Children

if TYPE_CHECKING:
    from swapconf.cli.child_options import RunOptions
    from swapconf.dryrun.kept_runs import Reports
    from swapconf.dryrun.rank_order import RankOrder
    from swapconf.plan.runs import StageRun
    from swapconf.study.study import Study


def dry_run(study: Study, keep: Path, runs: RunOptions, title: str, ranks: Sequence[int] = ()) -> list[StageRun]:
    """``ranks`` of a config dry-run, or one of every stage, with their traces in ``keep``."""
    from swapconf.dryrun.pynative.expert_load import EVEN
    from swapconf.plan import runs as dry_runs

    orders = dry_runs.orders(
        study.document,
        study,
        keep,
        fold=runs.fold,
        timeout_seconds=runs.timeout,
        ranks=ranks,
        register_path=runs.register_path or "",
        load=runs.load or EVEN,
    )
    return dry_runs.stage_runs(orders, reports(orders, runs, title))


def reports(orders: Sequence[RankOrder], runs: RunOptions, title: str, *, remembers: bool = False) -> Reports:
    """What became of dry runs, by folder and rank, those in the cache among them; with their progress. ``remembers``:
    also those that were refused."""
    from swapconf.dryrun import capacity, fan_out
    from swapconf.dryrun.environment import prepare
    from swapconf.dryrun.kept_runs import reports_of

    if lacking := fan_out.missing(runs.dask):
        raise click.ClickException(lacking)
    prepare(sys.executable, os.environ, 1)  # once, before the children, so that the shim is built once
    with Children(len(orders), title) as progress:
        return reports_of(
            [replace(order, board=progress.board) for order in orders],
            capacity.jobs_at_once(orders, runs.jobs),
            reuse=not runs.no_cache,
            remembers=remembers,
            dask=runs.dask,
            progress=progress.step,
        )
