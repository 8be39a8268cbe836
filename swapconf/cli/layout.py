"""``swapconf layout``: the fastest parallel layout for the cards at hand, its stages and its strategy together."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf import __version__
from swapconf.cli import written
from swapconf.cli.child_options import DASK, JOBS, TIMEOUT, RunOptions, fold_option, no_cache_option
from swapconf.cli.common import EXIT_ERRORS, as_one, format_option, go_on, register_option, say, set_option
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.cli.laying_out import Laid, LayoutOptions, confirmed, laid_out
from swapconf.cli.machine import MachineOptions, machine_options, print_assumed
from swapconf.cli.numbers import MOST_CARDS
from swapconf.cli.outputs import asked_again, html_option
from swapconf.cli.plan_options import budget_options, judging_options
from swapconf.cli.planning import PlanOptions

if TYPE_CHECKING:
    from swapconf.study.study import Study

EXIT_IMPOSSIBLE, EXIT_INTERRUPTED = 3, 130
TOP, MOST_RUNS = 10, 40


@click.command(cls=Command)
@click.argument("file", metavar="YAML", type=FILE)
@click.option("--cards", required=True, type=click.IntRange(1, MOST_CARDS), metavar="N", help="Cards of the training.")
@budget_options
@click.option(
    "--fix", multiple=True, metavar="KEY", help="Leave a key as it is, such as model_parallel or offset; repeatable."
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=A,B",
    help="Try these values of a key, such as pp_interleave_num=1,2; repeatable. Without it the degrees of data, "
    "tensors and stages, sequence parallelism, the parallel optimizer and micro-batches vary.",
)
@click.option(
    "--top", type=click.IntRange(1, 100), default=TOP, show_default=True, metavar="N", help="Layouts to show."
)
@click.option(
    "--most-runs",
    type=click.IntRange(1, 100_000),
    default=MOST_RUNS,
    show_default=True,
    metavar="N",
    help="Ranks to dry-run at most.",
)
@click.option(
    "--stages",
    is_flag=True,
    help="Vary only how many layers each stage has (offset): shift layers as long as that is faster.",
)
@click.option(
    "--compose/--no-compose",
    "composes",
    default=True,
    help="Compose stages that runs of other layouts tell, instead of running them; the best are run in any case.",
)
@machine_options("generic", cann=True)
@judging_options
@set_option
@register_option
@html_option("memory against step time, a point a layout")
@click.option("--diff", "only_diff", is_flag=True, help="Print the difference of the YAML, and nothing else.")
@click.option("--write", is_flag=True, help="Write the best layout and its strategy into the YAML.")
@click.option("--confirm", is_flag=True, help="Dry-run the best on all stages; plan again where it needs more.")
@JOBS
@DASK
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the traces in DIR, a folder a layout, instead of the cache.",
)
@fold_option("As in `swapconf dryrun`.")
@TIMEOUT
@no_cache_option("Make the traces again even if they are there.")
@format_option()
@as_one("asked", PlanOptions)
@as_one("wanted", LayoutOptions)
@as_one("runs", RunOptions)
def command(
    file: str,
    asked: PlanOptions,
    wanted: LayoutOptions,
    runs: RunOptions,
    machine: MachineOptions,
    changes: tuple[str, ...],
    html: Path | None,
    only_diff: bool,
    write: bool,
    confirm: bool,
    form: str,
) -> None:
    """Find the layout in which a training is fastest on these cards and fits, with the best strategy of each.

    All layouts with the same batch and the same mathematics: degrees of data, tensors and stages, sequence parallelism,
    the parallel optimizer, how the batch is parted into micro-batches, layers by stage. What is promising is really
    dry-run, one rank of each stage, and planned as by `swapconf plan`; what is proven to be no better is not. The YAML
    as it is stands beside the best. Graph mode. See docs/how-to/layout.md.

    \b
    swapconf layout train.yaml --cards 64 --budget 58GB --hardware ascend_910b2
    swapconf layout train.yaml --cards 8 --budget 58GB --fix pipeline_stage --vary batch_size=1,2
    swapconf layout train.yaml --cards 8 --budget 58GB --hardware ascend_910b2 --confirm --write
    swapconf layout train.yaml --cards 8 --budget 58GB --hardware ascend_910b2 --stages

    Ctrl-C ends the search with the best layout so far; a second start goes on with what was run.

    Exit codes: 0 found; 1 the YAML has errors, or a dry run of the best did not complete or needs more than the budget;
    2 a file could not be read or written, or the command line is wrong; 3 no layout fits.
    """
    from swapconf.config import overrides
    from swapconf.study.study import study_for_check

    try:
        study = study_for_check(overrides.of_file(file, changes), os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    go_on(study)
    show = Shown(form=form, html=html, only_diff=only_diff, write=write)
    raise SystemExit(searched(study, changes, asked, wanted, runs, machine, show, confirm=confirm))


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """How what was found is shown, and whether it is written into the YAML."""

    form: str
    html: Path | None
    only_diff: bool
    write: bool


def searched(
    study: Study,
    changes: tuple[str, ...],
    asked: PlanOptions,
    wanted: LayoutOptions,
    runs: RunOptions,
    machine: MachineOptions,
    show: Shown,
    *,
    confirm: bool,
) -> int:
    """The exit code of a search whose result is shown."""
    from swapconf.layout.layout import NoLayout
    from swapconf.layout.legal import BadWish
    from swapconf.plan.runs import NoRun

    file = study.document.file
    try:
        laid = laid_out(study, changes, asked, wanted, runs, machine)
        if confirm:
            laid = confirmed(laid, asked, runs, machine)
    except (NoRun, NoLayout) as error:
        say(str(error), err=True)
        return EXIT_ERRORS
    except (BadWish, ValueError) as error:
        raise click.UsageError(str(error)) from None
    if show.html is not None:
        from swapconf.cli.common import write_out
        from swapconf.report import layout_page

        write_out(show.html, layout_page.page(laid.ranking, study, asked.slower_link, asked_again(), __version__))
    if show.only_diff:
        written.print_difference(file, laid)
    elif show.form == "json":
        from swapconf.report import layout_text, plan_told
        from swapconf.words.columns import record

        told = layout_text.as_record(laid.ranking, laid.after, wanted.top, asked.slower_link)
        told["confirmed"] = [record(plan_told.CONFIRMED, item) for item in laid.confirmed]
        click.echo(json.dumps(told, indent=2))
    else:
        _print(laid, study, wanted, machine, asked.slower_link)
        written.print_difference(file, laid)
    if show.write:
        written.write(file, laid, _kept(laid, changes))
    return _code(laid)


def _kept(laid: Laid, changes: tuple[str, ...]) -> list[str]:
    """The changes that still hold in the best layout: the others are of what it decides."""
    from swapconf.config import overrides

    best = laid.ranking.best
    if best is None:
        return []
    document = laid.world.candidates[best.layout].study.document
    return [change for change in changes if not overrides.unsaid(document, (change,))]


def _print(laid: Laid, study: Study, wanted: LayoutOptions, machine: MachineOptions, slower_link: float) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report import layout_text

    ranking = laid.ranking
    for place, line in enumerate(layout_text.verdict_lines(ranking, slower_link)):
        say(line, bold=not place)
    print_assumed(machine.load())
    print_rows(*layout_text.side_by_side(ranking, wanted.top))
    for line in layout_text.lost_lines(ranking):
        say(line)
    written.print_confirmed(laid)
    written.say_why_not(laid.why_not)


def _code(laid: Laid) -> int:
    if not laid.ranking.rows:
        return EXIT_INTERRUPTED if laid.ranking.found.is_interrupted else EXIT_ERRORS
    if laid.ranking.best is None:
        return EXIT_IMPOSSIBLE
    return EXIT_ERRORS if laid.is_refuted else 0
