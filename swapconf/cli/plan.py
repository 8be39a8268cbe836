"""``swapconf plan``: the best keep, swap and recompute under a budget of memory, written back into the YAML."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf.cli.child_options import DASK, JOBS, TIMEOUT, fold_option, keep_option, no_cache_option
from swapconf.cli.children import Children
from swapconf.cli.cluster import cards_told
from swapconf.cli.common import EXIT_ERRORS, as_one, format_option, go_on, print_findings, say, set_option
from swapconf.cli.complete import FILE
from swapconf.cli.fixing import difference, write_text
from swapconf.cli.help import Command
from swapconf.cli.machine import MachineOptions, machine_options
from swapconf.cli.numbers import Number
from swapconf.cli.outputs import html_option
from swapconf.cli.progress import Progress
from swapconf.words.phrases import phrase
from swapconf.words.units import parse_bytes

if TYPE_CHECKING:
    from swapconf.plan.confirmed import ConfirmedRank
    from swapconf.plan.frontier import Frontier
    from swapconf.plan.judge import Judge
    from swapconf.plan.planned import Planned
    from swapconf.plan.runs import StageRun
    from swapconf.study.study import Study

EXIT_IMPOSSIBLE = 3
_MOST_EFFORT = 100
_ROUNDS = 3  # of planning, where a true run needs more than was predicted


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanOptions:
    """What is asked of a plan.

    Attributes:
        budget: Of a card, as text.
        host_budget: Of a host, as text; None for no limit.
        beside: What a card holds beside MindSpore's pool, as text.
        slower_link: By which share the host link may be slower than told, 0 to 0.9.
        effort: Scales how many plans are asked for.
    """

    budget: str
    host_budget: str | None
    beside: str
    slower_link: float
    max_entries: int
    effort: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """How dry runs are made, as in `ChildOptions`."""

    jobs: int | None
    dask: str | None
    keep: Path | None
    fold: bool
    timeout: float
    no_cache: bool


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A plan and the text that says it; "" where the YAML cannot be rewritten, and ``why_not`` tells."""

    planned: Planned
    before: str
    after: str
    why_not: str = ""
    confirmed: tuple[ConfirmedRank, ...] = ()


@click.command(cls=Command)
@click.argument("file", metavar="YAML", type=FILE)
@click.option("--budget", required=True, metavar="54GB", help="What each card may hold.")
@click.option("--host-budget", metavar="200GB", help="What each host may pin for copies (default: no limit).")
@click.option(
    "--beside",
    default="0",
    show_default=True,
    metavar="4GB",
    help="What a card holds beside MindSpore's pool: driver, communication buffers. It counts in --budget.",
)
@click.option(
    "--from",
    "baseline",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Plan from the traces in DIR, of a run without swap and recompute, instead of making them.",
)
@machine_options("generic")
@click.option(
    "--slower-link",
    type=Number(0.0, 0.9),
    default=0.3,
    show_default=True,
    metavar="SHARE",
    help="Plans are judged with a host link that is slower by this share, because figures of cards are estimates.",
)
@click.option("--max-entries", type=click.IntRange(1, 64), default=6, show_default=True, help="Entries of the YAML.")
@click.option(
    "--effort",
    type=Number(0.05, _MOST_EFFORT),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="How many plans are tried, as a factor of the usual number.",
)
@set_option
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
    frontier: bool,
    html: Path | None,
    only_diff: bool,
    write: bool,
    confirm: bool,
    form: str,
) -> None:
    """Decide for every layer and operator: keep, swap or recompute, so that the step is fastest and the memory fits.

    Every plan is judged by the what-if, with the fragments of MindSpore's pool and the workspace of kernels. Without
    --from, the run without swap and recompute is dry-run first, one rank of each stage, and kept in the cache; with
    traces a plan takes seconds. Times are estimates, with a host link that is slower than told (--slower-link). The
    plan is a few entries of the YAML, which keeps all else as it is. See docs/how-to/plan.md.

    \b
    swapconf plan train.yaml --budget 54GB --hardware ascend_910b2
    swapconf plan train.yaml --budget 54GB --hardware ascend_910b2 --confirm --write
    swapconf plan train.yaml --budget 54GB --frontier --html plan.html
    swapconf plan train.yaml --budget 40GB --from traces/plain --format json

    Ctrl-C ends the search with the best plan so far.

    Exit codes: 0 planned, or nothing is needed; 1 the YAML has errors, or a dry run did not complete; 2 a file could
    not be read or written, the traces are not of this config without swap and recompute, or the command line is wrong;
    3 no plan fits.
    """
    from swapconf.config import overrides
    from swapconf.report import plan_text
    from swapconf.study.study import study_for_check

    try:
        study = study_for_check(overrides.of_file(file, changes), os.environ)
        go_on(study)
        if study.network is None:
            raise click.UsageError(study.why_no_strategy)
        judge = _judge(study, changes, asked, runs, baseline, machine)
        made = _planned(judge, study, changes, asked, runs, machine, confirm=confirm)
        points = _frontier(made.planned) if frontier or html is not None else None
    except ValueError as error:  # also a Mismatch, and a run that did not complete
        raise click.UsageError(str(error)) from None
    if html is not None:
        from swapconf.cli.common import writing
        from swapconf.report import plan_page

        with writing(html):
            plan_page.write(made.planned, points, html, title=file, origin=judge.evaluator.origin)
    if only_diff:
        _print_difference(file, made)
    elif form == "json":
        record = plan_text.as_record(made.planned, study, made.after, made.confirmed, asked.slower_link)
        click.echo(json.dumps(record, indent=2))
    else:
        _print(made, study, asked.slower_link, points)
        _print_difference(file, made)
    if write and made.after and made.after != made.before:
        write_text(file, made.after)
        say(phrase("written: {file}", file=file), err=True)
    raise SystemExit(_code(made))


def _code(made: _Made) -> int:
    from swapconf.plan.planned import Verdict

    if made.planned.verdict is Verdict.IMPOSSIBLE:
        return EXIT_IMPOSSIBLE
    return EXIT_ERRORS if any(not rank.fits for rank in made.confirmed) else 0


# --- from YAML to judge -----------------------------------------------------------------------------------------------


def _judge(
    study: Study,
    changes: Sequence[str],
    asked: PlanOptions,
    runs: RunOptions,
    baseline: Path | None,
    options: MachineOptions,
) -> Judge:
    from swapconf.dryrun.cluster import CARDS
    from swapconf.memory.allocators import default_policy
    from swapconf.plan.judge import judge_of
    from swapconf.plan.limits import Budget
    from swapconf.plan.runs import trace_folders

    budget = Budget(
        card_bytes=parse_bytes(asked.budget),
        beside_bytes=parse_bytes(asked.beside),
        host_bytes=parse_bytes(asked.host_budget) if asked.host_budget else None,
    )
    found = judge_of(
        study,
        trace_folders(baseline) if baseline is not None else _baselines(study, changes, runs),
        options.load(),
        budget,
        slower_link=asked.slower_link,
        max_entries=asked.max_entries,
        cards_per_host=cards_told(click.get_current_context(), options.cards_per_host) or CARDS,
        policy=default_policy(os.environ),
    )
    print_findings(found.evaluator.findings, err=True)
    return found


def _baselines(study: Study, changes: Sequence[str], runs: RunOptions) -> list[Path]:
    """The folders of the traces, made where they are not there."""
    from swapconf.plan import runs as dry_runs
    from swapconf.study.study import study_for_run

    document = dry_runs.without_strategy(study.document.file, changes)
    plain = study_for_run(document, os.environ)
    go_on(plain)
    return dry_runs.traces_of(_run(plain, dry_runs.place_of_baselines(document, runs.keep), runs, phrase("baseline")))


def _run(study: Study, keep: Path, runs: RunOptions, title: str) -> list[StageRun]:
    """Every stage of a config dry-run, its traces in ``keep``."""
    from swapconf.dryrun import capacity, fan_out
    from swapconf.dryrun.environment import prepare
    from swapconf.plan import runs as dry_runs

    if lacking := fan_out.missing(runs.dask):
        raise click.ClickException(lacking)
    prepare(sys.executable, os.environ, 1)  # once, before the children, so that the shim is built once
    orders = dry_runs.orders(study.document, study, keep, fold=runs.fold, timeout_seconds=runs.timeout)
    with Children(len(orders), title) as progress:
        return dry_runs.run(
            [replace(order, board=progress.board) for order in orders],
            capacity.jobs_at_once(orders, runs.jobs),
            reuse=not runs.no_cache,
            dask=runs.dask,
            progress=progress.step,
        )


# --- from judge to text -----------------------------------------------------------------------------------------------


def _planned(
    judge: Judge,
    study: Study,
    changes: Sequence[str],
    asked: PlanOptions,
    runs: RunOptions,
    options: MachineOptions,
    *,
    confirm: bool,
) -> _Made:
    """The plan in words; where it is to be confirmed, planned again with what the true runs taught."""
    from swapconf.dryrun import fan_out
    from swapconf.plan.confirmed import confirm as confirmed_by
    from swapconf.plan.confirmed import learned
    from swapconf.plan.planned import EVIDENCE, Verdict

    assert study.network is not None
    if not confirm and study.network.family not in EVIDENCE:
        lacking = fan_out.missing(runs.dask)
        say(lacking or phrase("no plan of this family was held against true runs yet, so this one is"), err=True)
        confirm = not lacking
    before: tuple[int, ...] = (0,) * len(judge.stages)
    for turn in range(_ROUNDS):
        made = _said(_searched(judge, asked.effort), study, asked, options)
        if not confirm or made.planned.verdict is Verdict.IMPOSSIBLE or not made.after:
            return made
        found = confirmed_by(judge, made.planned.chosen, _run_plan(study, changes, made.after, runs))
        made = replace(made, confirmed=found)
        if all(rank.fits for rank in found) or turn == _ROUNDS - 1:
            return made
        before = learned(found, before)
        say(phrase("a true run needs more than was predicted; planning again with that in mind"), err=True)
        judge = judge.under(replace(judge.limits, learned_bytes=before))
    raise AssertionError


def _searched(judge: Judge, effort: float) -> Planned:
    from swapconf.plan.planned import plan, to_ask

    with _counted(judge.asked + sum(to_ask(judge, effort))) as step:
        return plan(judge, effort, step)


@contextmanager
def _counted(total: int) -> Iterator[Step]:
    with Progress(total, phrase("plans")) as progress:
        yield Step(progress)


class Step:
    """Takes how many plans were asked for, and moves the bar there."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._at = progress, 0

    def __call__(self, asked: int) -> None:
        while self._at < asked:
            self._progress.step()
            self._at += 1


def _said(planned: Planned, study: Study, asked: PlanOptions, options: MachineOptions) -> _Made:
    """The YAML with the plan in it."""
    from swapconf.config.rewriting import CannotRewrite
    from swapconf.config.yaml_document import parse, read_text
    from swapconf.decide.compact import compact
    from swapconf.plan.planned import Verdict
    from swapconf.plan.written import write
    from swapconf.report.plan_text import comment

    judge, file = planned.judge, study.document.file
    before = read_text(file)
    if planned.verdict is Verdict.IMPOSSIBLE:
        return _Made(planned=planned, before=before, after="")
    strategy = judge.evaluator.strategy(judge.config(planned.chosen.plan))
    told = comment(planned, asked.budget, options.profile or "", asked.slower_link)
    try:
        after = write(before, parse(before, file), compact(strategy, study.config, study.versions), told)
    except CannotRewrite as error:
        return _Made(
            planned=planned, before=before, after="", why_not=phrase("{error}; {hint}", error=error, hint=error.hint)
        )
    return _Made(planned=planned, before=before, after=after)


def _run_plan(study: Study, changes: Sequence[str], text: str, runs: RunOptions) -> list[StageRun]:
    """The true runs of the YAML with the plan."""
    import tempfile

    from swapconf.config.overrides import changed
    from swapconf.config.yaml_document import parse
    from swapconf.study.study import study_for_run

    document = changed(parse(text, study.document.file), changes)
    written = study_for_run(document, os.environ)
    go_on(written)
    with tempfile.TemporaryDirectory(prefix="swapconf-plan-", ignore_cleanup_errors=True) as folder:
        return _run(written, Path(folder), runs, phrase("plan"))


def _frontier(planned: Planned) -> Frontier:
    from swapconf.plan.frontier import frontier_of

    return frontier_of(planned)


def _print(made: _Made, study: Study, slower_link: float, points: Frontier | None) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report import plan_text

    planned = made.planned
    for line in plan_text.verdict_lines(planned, study):
        say(line, bold=True)
    say(plan_text.link_line(planned, slower_link))
    print_rows(*plan_text.strategies(planned, study))
    if planned.chosen.entries:
        print_rows(*plan_text.worth(planned))
    print_rows(*plan_text.stages(planned))
    if made.confirmed:
        say(phrase("confirmed by dry runs of all stages:"))
        print_rows(*plan_text.confirmation(made.confirmed))
    if points is not None:
        from swapconf.report.plan_chart import chart

        for line in chart(points):
            say(line)
    if made.why_not:
        say(made.why_not, err=True)


def _print_difference(file: str, made: _Made) -> None:
    for line in difference(file, made.before, made.after) if made.after else ():
        click.secho(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1]))
