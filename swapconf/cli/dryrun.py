"""``swapconf dryrun``: the real MindSpore on a YAML, for any rank, on a machine without a card or CANN."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf.cli import cluster
from swapconf.cli.child_options import (
    DASK,
    EXPERT_LOAD,
    JOBS,
    TIMEOUT,
    ChildOptions,
    fold_option,
    keep_option,
    no_cache_option,
    ranks_option,
)
from swapconf.cli.children import Children
from swapconf.cli.common import EXIT_ERRORS, as_one, format_option, print_findings, register_option, say, set_option
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.cli.machine import MachineOptions, machine_options
from swapconf.cli.outputs import html_option
from swapconf.dryrun.by_step import STEPS
from swapconf.dryrun.outcome import RankReport
from swapconf.dryrun.report_record import as_record
from swapconf.words.findings import Severity
from swapconf.words.phrases import phrase
from swapconf.words.units import parse_bytes

if TYPE_CHECKING:
    from swapconf.dryrun.rank_order import RankOrder
    from swapconf.study.study import Study
    from swapconf.timing.cost import Machine

EXIT_OVER_BUDGET = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options(ChildOptions):
    level: int
    plain: bool
    as_parallel: bool
    launch_blocking: bool
    real_data: bool
    steps: int


@click.command(cls=Command)
@click.argument("files", nargs=-1, metavar="FILE...", type=FILE)
@click.option(
    "--level",
    type=click.IntRange(0, 3),
    default=1,
    show_default=True,
    help="0: compile only; 1: adds memory; 2: adds operator workspace; 3: adds times. Without CANN 2 and 3 "
    "are estimated from 1.",
)
@ranks_option("Which ranks to run; stages: one for each pipeline stage.")
@set_option
@register_option
@JOBS
@DASK
@click.option("--budget", metavar="54GB", help="Exit 3 if a rank needs more.")
@keep_option("Keep the trace files in DIR/rank_N/.")
@format_option()
@html_option("all ranks side by side")
@TIMEOUT
@click.option("--real-data", is_flag=True, help="Use the data set of the YAML instead of a tiny stand-in.")
@click.option(
    "--steps",
    type=click.IntRange(min=STEPS),
    default=STEPS,
    show_default=True,
    help="Train so many in a second run, and tell what grows from step to step; from 4 on.",
)
@fold_option("Run few of many equal layers and micro-batches, and extrapolate to the whole where that holds.")
@click.option("--plain", is_flag=True, help="mindformers alone, without swapconf, for comparison.")
@click.option(
    "--as-parallel", is_flag=True, help="PyNative: recompute and swap as on several cards, although one is simulated."
)
@click.option(
    "--launch-blocking",
    is_flag=True,
    help="PyNative on several cards: each operator ends before Python goes on, as on the fullest card; two runs are "
    "the same, and tell between what the peak of a card lies.",
)
@EXPERT_LOAD
@no_cache_option("Run again even if a report of the same run is cached.")
@machine_options("generic", cann=True)
@click.option("--env", "show_env", is_flag=True, help="Print the child's environment as shell lines, and stop.")
@as_one("options", _Options)
def command(
    files: tuple[str, ...],
    changes: tuple[str, ...],
    options: _Options,
    machine: MachineOptions,
    expert_load: str | None,
    budget: str | None,
    form: str,
    html: Path | None,
    show_env: bool,
) -> None:
    """Run mindformers' own Trainer on training YAMLs, with MindSpore simulating the device.

    Before a card is used: does the job compile, does it fit, what does the swap really move? Each rank runs in a child
    process. It needs MindSpore, mindformers and, once, a C compiler, but no data set, no checkpoint and no card.

    Level 1 measures memory, without operator workspace. Level 2 adds workspace, from CANN or else estimated operator by
    operator (docs/reference/levels.md), in DIR/rank_N/level_2. Level 3 adds times on --hardware, in DIR/rank_N/level_3,
    as the profiler's own files; trace_view.json opens in Perfetto and chrome://tracing.

    --html draws all ranks side by side: what holds each peak, which rank is tightest, what can lower its peak and what
    cannot, and how much memory of their host the ranks need together (8 cards a host without --cards-per-host).

    \b
    swapconf dryrun configs/llama2_7b/example2_layer_swap.yaml
    swapconf dryrun train.yaml --level 3 --hardware ascend_910b2 --keep traces
    swapconf dryrun train.yaml --ranks stages --html cluster.html
    swapconf dryrun train.yaml --ranks all --budget 54GB --set parallel_config.pipeline_stage=2
    eval "$(swapconf dryrun --env)"

    Exit codes: 0 all ranks completed; 1 a rank did not, or findings of severity error; 2 a file could not be read,
    something that a dry run needs is missing, or the command line is wrong; 3 a rank needs more than --budget.
    """
    from swapconf.cli.dryrun_table import print_reports
    from swapconf.dryrun import fan_out
    from swapconf.dryrun.environment import level_to_run, prepare

    try:
        if show_env:
            changed = prepare(sys.executable, os.environ, options.level).changes
            click.echo("\n".join(f"export {name}={shlex.quote(value)}" for name, value in sorted(changed.items())))
            return
        if not files:
            raise click.UsageError(phrase("name a training YAML"))
        if options.level == 0 and options.steps != STEPS:
            raise click.UsageError(phrase("--level 0 compiles and runs no step: leave out --steps"))
        if fan_out.missing(options.dask):
            raise click.ClickException(fan_out.missing(options.dask))
        limit = parse_bytes(budget) if budget else None
        studies = _studies(files, changes)
        if _stops_the_run(studies, options):
            raise SystemExit(EXIT_ERRORS)
        orders = _orders(studies, options, machine.load() if options.level > 0 else None, expert_load)
        # once, before the children, so that the shim is built once
        prepare(sys.executable, os.environ, level_to_run(os.environ, options.level))
    except (ValueError, ImportError) as error:
        raise click.UsageError(str(error)) from None
    reports = _run(orders, options.jobs, options.dask, use_cache=not options.no_cache and options.keep is None)
    cards_per_host = cluster.cards_told(click.get_current_context(), machine.cards_per_host)
    views = cluster.views(orders, reports, cards_per_host, limit, options.keep)
    if form == "json":
        click.echo(json.dumps([as_record(report) for report in reports], indent=2))
    else:
        print_reports(reports, limit, machine.load().hardware.name if options.level else "")
        for view in views:
            if line := cluster.tightest_line(view):
                say(line)
    if html is not None:
        cluster.write_page(views, html)
    raise SystemExit(_exit_code(reports, limit))


def _studies(files: Sequence[str], changes: Sequence[str]) -> list[Study]:
    from swapconf.config import overrides
    from swapconf.study.study import study_for_run

    return [study_for_run(overrides.of_file(file, changes), os.environ) for file in files]


def _orders(
    studies: Sequence[Study], options: _Options, machine: Machine | None, expert_load: str | None
) -> list[RankOrder]:
    from swapconf.dryrun.pynative.asked_load import load_of
    from swapconf.dryrun.rank_order import RankOrder, cluster_of, ranks_of

    orders = []
    for study in studies:
        document, load = study.document, load_of(expert_load, study)
        for rank in ranks_of(options.ranks, cluster_of(document)):
            keep = options.keep / Path(document.file).stem if options.keep and len(studies) > 1 else options.keep
            orders.append(
                RankOrder(
                    document=document,
                    rank=rank,
                    level=options.level,
                    plain=options.plain,
                    as_parallel=options.as_parallel,
                    launch_blocking=options.launch_blocking,
                    load=load,
                    real_data=options.real_data,
                    steps=options.steps,
                    fold=options.fold,
                    timeout_seconds=options.timeout,
                    keep=keep.resolve() if keep else None,
                    machine=machine,
                    settings=study.settings,
                    register_path=options.register_path or "",
                )
            )
    return orders


def _stops_the_run(studies: Sequence[Study], options: _Options) -> bool:
    """Whether swapconf would refuse to start one of the configs, as it refuses a training, or there is no dry run of
    it; tells what is wrong."""
    from swapconf.dryrun.no_dry_run import no_dry_run

    code = options.register_path or ""
    refused = [finding for study in studies for finding in no_dry_run(study, options.level, os.environ, code)]
    judged = () if options.plain else studies
    places = {(finding.origin, finding.rule) for finding in refused}
    found = [finding for study in judged for finding in study.findings]
    known = [finding for finding in found if (finding.origin, finding.rule) not in places]
    print_findings([*known, *refused], err=True)
    return bool(refused) or any(study.is_refused for study in judged)


def _run(orders: list[RankOrder], jobs: int | None, dask: str | None, use_cache: bool) -> list[RankReport]:
    from swapconf.dryrun import capacity, fan_out, report_cache

    position = {(order.document.file, order.rank): index for index, order in enumerate(orders)}
    known = {
        index: report
        for index, order in enumerate(orders)
        if use_cache and (report := report_cache.find(order)) is not None
    }
    todo = [order for index, order in enumerate(orders) if index not in known]
    found: list[RankReport] = [replace(report, cached=True) for report in known.values()]
    if todo:
        with Children(len(todo), phrase("dry run")) as progress:
            watched = [replace(order, board=progress.board) for order in todo]
            for report in fan_out.dry_run_all(watched, capacity.jobs_at_once(todo, jobs), dask):
                found.append(report)
                progress.step()
                if use_cache and report.outcome.good:
                    report_cache.store(orders[position[report.file, report.rank]], report)
    return sorted(found, key=lambda report: position[report.file, report.rank])


def _exit_code(reports: Sequence[RankReport], limit: int | None) -> int:
    if limit is not None and any(report.needs_more_than(limit) for report in reports):
        return EXIT_OVER_BUDGET
    bad = any(
        not report.outcome.good or any(f.severity is Severity.ERROR for f in report.findings) for report in reports
    )
    return EXIT_ERRORS if bad else 0
