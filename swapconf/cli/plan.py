"""``swapconf plan``: the best keep, swap and recompute under a budget of memory, written back into the YAML."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf import __version__
from swapconf.cli import layout, written
from swapconf.cli.child_options import (
    DASK,
    EXPERT_LOAD,
    JOBS,
    TIMEOUT,
    RunOptions,
    fold_option,
    keep_option,
    no_cache_option,
)
from swapconf.cli.common import EXIT_ERRORS, as_one, format_option, go_on, register_option, say, set_option
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.cli.laying_out import LayoutOptions
from swapconf.cli.machine import MachineOptions, known_line, machine_options, print_assumed
from swapconf.cli.outputs import asked_again, html_option
from swapconf.cli.plan_options import budget_options, judging_options
from swapconf.cli.planning import Made, PlanOptions, judge_of_yaml, planned

if TYPE_CHECKING:
    from swapconf.plan.frontier import Frontier
    from swapconf.plan.modes import Plan
    from swapconf.plan.planned import Planned
    from swapconf.study.study import Study

EXIT_IMPOSSIBLE = 3


@click.command(cls=Command)
@click.argument("file", metavar="YAML", type=FILE)
@budget_options
@click.option(
    "--from",
    "baseline",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Plan from the traces in DIR, of a run without swap and recompute, instead of making them.",
)
@machine_options("generic", cann=True)
@judging_options
@set_option
@register_option
@click.option(
    "--stages",
    is_flag=True,
    help="Decide how many layers each stage has (offset), too: as `swapconf layout --stages` on the cards of the YAML.",
)
@click.option("--frontier", is_flag=True, help="Also tell what each memory costs in time.")
@html_option("memory against step time")
@click.option("--diff", "only_diff", is_flag=True, help="Print the difference of the YAML, and nothing else.")
@click.option("--write", is_flag=True, help="Write the plan into the YAML.")
@click.option("--confirm", is_flag=True, help="Dry-run the plan on all stages; plan again where it needs more.")
@JOBS
@DASK
@keep_option("Keep the traces that are made in DIR, instead of the cache.", file_okay=False)
@fold_option("As in `swapconf dryrun`.")
@TIMEOUT
@EXPERT_LOAD
@no_cache_option("Make the traces again even if they are there.")
@format_option()
@as_one("asked", PlanOptions)
@as_one("runs", RunOptions)
def command(
    file: str,
    asked: PlanOptions,
    runs: RunOptions,
    baseline: Path | None,
    machine: MachineOptions,
    changes: tuple[str, ...],
    stages: bool,
    frontier: bool,
    html: Path | None,
    only_diff: bool,
    write: bool,
    confirm: bool,
    expert_load: str | None,
    form: str,
) -> None:
    """Decide for every layer and operator: keep, swap or recompute, so that the step is fastest and the memory fits.

    Every plan is judged by the what-if, with the fragments of MindSpore's pool and the workspace of kernels. Without
    --from, the run without swap and recompute is dry-run first, one rank of each stage, and kept in the cache; with
    traces a plan takes seconds. Times are estimates, with a host link that is slower than told (--slower-link). The
    plan is a few entries of the YAML, which keeps all else as it is. See docs/how-to/plan.md.

    Of a PyNative YAML, layers and modules are recomputed or swapped, in its own form. See
    docs/how-to/next-generation.md.

    \b
    swapconf plan train.yaml --budget 54GB --hardware ascend_910b2
    swapconf plan train.yaml --budget 54GB --hardware ascend_910b2 --confirm --write
    swapconf plan train.yaml --budget 54GB --hardware ascend_910b2 --stages --confirm
    swapconf plan train.yaml --budget 54GB --frontier --html plan.html
    swapconf plan train.yaml --budget 40GB --from traces/plain --format json

    Ctrl-C ends the search with the best plan so far.

    Exit codes: 0 planned, or nothing is needed; 1 the YAML has errors, or a dry run did not complete; 2 a file could
    not be read or written, the traces are not of this config without swap and recompute, or the command line is wrong;
    3 no plan fits.
    """
    from swapconf.cli import plan_pynative, whole_card
    from swapconf.config import overrides
    from swapconf.config.config import Dialect
    from swapconf.memory import whole_device
    from swapconf.plan.runs import NoRun
    from swapconf.report import plan_text
    from swapconf.study.study import study_for_check

    widely = frontier or html is not None
    try:
        study = study_for_check(overrides.of_file(file, changes), os.environ)
        go_on(study)
        runs = plan_pynative.with_load(runs, expert_load, study, baseline)
        if study.config.dialect is Dialect.PYNATIVE:
            refused = {"--stages": stages, "--measured": machine.measured is not None}
            native = plan_pynative.make(
                study, changes, asked, runs, baseline, machine, confirm=confirm, widely=widely, refused=refused
            )
            if html is not None:
                plan_pynative.write_page(html, file, native, asked.slower_link)
            if only_diff:
                written.print_difference(file, native)
            else:
                plan_pynative.show(file, native, machine, asked.slower_link, form)
            if write:
                written.write(file, native, changes)
            raise SystemExit(EXIT_IMPOSSIBLE if native.is_impossible else EXIT_ERRORS if native.is_refuted else 0)
        if stages:
            show = layout.Shown(form=form, html=html, only_diff=only_diff, write=write)
            wanted = _of_stages(study, frontier=frontier, baseline=baseline)
            raise SystemExit(layout.searched(study, changes, asked, wanted, runs, machine, show, confirm=confirm))
        judge = judge_of_yaml(study, changes, asked, runs, baseline, machine)
        made = planned(judge, study, changes, asked, runs, machine, confirm=confirm, widely=widely)
        points = _frontier(made.planned) if widely else None
    except NoRun as error:
        say(str(error), err=True)
        raise SystemExit(EXIT_ERRORS) from None
    except ValueError as error:  # also a Mismatch
        raise click.UsageError(str(error)) from None
    if html is not None:
        from swapconf.cli.common import write_out
        from swapconf.report import plan_page

        write_out(html, plan_page.page(made.planned, points, study, asked.slower_link, __version__, asked_again()))
    if only_diff:
        written.print_difference(file, made)
    elif form == "json":
        record = plan_text.as_record(made.planned, study, made.after, made.confirmed, asked.slower_link, points)
        device = whole_device.as_record(whole_card.fullest(made.planned, study, machine.load()))
        click.echo(json.dumps({**record, "device": device}, indent=2))
    else:
        _print(made, study, machine, asked.slower_link, points)
        written.print_difference(file, made)
    if write:
        written.write(file, made, changes)
    raise SystemExit(_code(made))


def _of_stages(study: Study, *, frontier: bool, baseline: Path | None) -> LayoutOptions:
    """The search of stages alone, on the YAML's own cards. Raises ValueError."""
    from swapconf.layout.layout import layout_of
    from swapconf.words.phrases import phrase

    for option, is_there in (("--frontier", frontier), ("--from", baseline is not None)):
        if is_there:
            raise ValueError(phrase("--stages runs other deals of layers, too; leave {option} out", option=option))
    return LayoutOptions(
        cards=layout_of(study).cards,
        fix=(),
        vary=(),
        top=layout.TOP,
        most_runs=layout.MOST_RUNS,
        composes=True,
        stages=True,
    )


def _code(made: Made) -> int:
    from swapconf.plan.planned import Verdict

    if made.planned.verdict is Verdict.IMPOSSIBLE:
        return EXIT_IMPOSSIBLE
    return EXIT_ERRORS if made.is_refuted else 0


def _frontier(planned: Planned) -> Frontier[Plan]:
    from swapconf.plan.budgets import frontier_of

    return frontier_of(planned, asked=0)


def _print(
    made: Made, study: Study, machine: MachineOptions, slower_link: float, points: Frontier[Plan] | None
) -> None:
    from swapconf.cli import whole_card
    from swapconf.cli.tables import print_rows
    from swapconf.report import plan_text, plan_told

    found = made.planned
    for line in plan_text.verdict_lines(found, study):
        say(line, bold=True)
    say(plan_text.link_line(found, slower_link))
    say(known_line(found.judge.nominal(found.chosen.plan).share))
    say(found.judge.evaluator.origin)
    for line in plan_text.order_lines(found):
        say(line)
    print_assumed(machine.load())
    print_rows(*plan_text.strategies(found, study))
    if found.chosen.entries:
        print_rows(*plan_told.worth(plan_text.entries(found)))
    print_rows(*plan_text.stages(found))
    say(whole_card.line(found, study, machine.load()))
    written.print_confirmed(made)
    if points is not None:
        written.print_frontier(points)
    written.say_why_not(made.why_not)
