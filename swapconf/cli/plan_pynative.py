"""``swapconf plan`` of a PyNative YAML: whole layers and modules recomputed, layers swapped, by its own what-if."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf.cli.cluster import cards_told
from swapconf.cli.common import print_findings, say, stop
from swapconf.cli.machine import MachineOptions, known_line, print_assumed
from swapconf.cli.outputs import asked_again
from swapconf.cli.planning import ROUNDS, PlanOptions, baselines, rewritten, run_plan
from swapconf.cli.progress import Progress
from swapconf.cli.written import Written, needs_more, print_frontier, say_why_not
from swapconf.words.phrases import mark, phrase

if TYPE_CHECKING:
    from swapconf.cli.child_options import RunOptions
    from swapconf.plan.frontier import Frontier
    from swapconf.plan.pynative.judge import NativeJudge
    from swapconf.plan.pynative.modes import NativePlan
    from swapconf.plan.pynative.planned import NativePlanned
    from swapconf.study.study import Study

_REASONS = {
    "--stages": mark("{option} is not there in PyNative mode: layers by stage are not compared there"),
    "--measured": mark("{option} is not there in PyNative mode: a profile of it is not matched with a trace"),
}


@dataclass(frozen=True, kw_only=True)
class NativeMade(Written):
    """A plan and the text that says it. ``frontier``: None where other budgets were not asked for."""

    planned: NativePlanned
    frontier: Frontier[NativePlan] | None = None

    @property
    def is_impossible(self) -> bool:
        from swapconf.plan.planned import Verdict

        return self.planned.verdict is Verdict.IMPOSSIBLE


def with_load(runs: RunOptions, words: str | None, study: Study, baseline: Path | None) -> RunOptions:
    """``words``: of the expert load that is asked for. Traces that are there have one, of which the true runs of a plan
    are, too. Raises ValueError where these are two, SwapconfError for its file."""
    from swapconf.dryrun.pynative.asked_load import load_of
    from swapconf.dryrun.pynative.expert_load import of_record
    from swapconf.plan.runs import trace_folders
    from swapconf.trace import run_record

    if words is not None:
        runs = replace(runs, load=load_of(words, study))
    for folder in trace_folders(baseline) if baseline is not None else ():
        recorded = of_record(run_record.read(folder).get("expert_load"))
        if runs.load is not None and runs.load != recorded:
            raise ValueError(
                phrase(
                    "--expert-load {words}: the trace in {folder} is of expert load {other}; make one: "
                    "swapconf dryrun {file} --expert-load {words} --keep DIR",
                    words=words or runs.load.name,
                    folder=folder,
                    other=recorded.name,
                    file=study.document.file,
                )
            )
        runs = replace(runs, load=recorded)
    return runs


def make(
    study: Study,
    changes: Sequence[str],
    asked: PlanOptions,
    runs: RunOptions,
    baseline: Path | None,
    options: MachineOptions,
    *,
    confirm: bool,
    widely: bool,
    refused: dict[str, bool],
) -> NativeMade:
    """The plan in words; where it is to be confirmed, planned again with what the true runs taught.

    ``widely``: other budgets are searched, too. ``refused``: options that have no answer in PyNative mode, and whether
    they were given. Raises ValueError, NoRun, SwapconfError."""
    from swapconf.dryrun.pynative.refusals import told_of_all_cards
    from swapconf.plan.confirmed import taught
    from swapconf.plan.pynative.confirmed import below
    from swapconf.plan.pynative.confirmed import confirm as confirmed_by

    for option, is_given in refused.items():
        if is_given:
            raise click.UsageError(phrase(_REASONS[option], option=option))
    if baseline is None or confirm:
        _stop_what_has_no_dry_run(study)
    print_findings(list(told_of_all_cards(study)), err=True)
    judge = _judge(study, changes, asked, runs, baseline, options)
    refuted: NativeMade | None = None
    for turn in range(ROUNDS):
        made = _said(*_searched(judge, asked.effort, widely=widely), study, asked, options)
        if made.is_impossible and refuted is not None:  # by what was taught
            lower = below(judge, refuted.planned.chosen, refuted.confirmed)
            less = _said(*_searched(lower, asked.effort, widely=widely), study, asked, options)
            judge, made = (judge, made) if less.is_impossible else (lower, less)
        if not confirm or made.is_impossible or not made.after:
            return made
        found = confirmed_by(judge, made.planned.chosen, run_plan(study, changes, made.after, runs))
        made = replace(made, confirmed=found)
        if not made.is_refuted or turn == ROUNDS - 1:
            return made
        say(needs_more(found), err=True)
        judge, refuted = replace(judge, limits=taught(judge.limits, found)), made
    raise AssertionError


def _stop_what_has_no_dry_run(study: Study) -> None:
    from swapconf.dryrun.pynative.refusals import LEVEL, refusals

    stop(list(refusals(study, LEVEL)))


def _judge(
    study: Study,
    changes: Sequence[str],
    asked: PlanOptions,
    runs: RunOptions,
    baseline: Path | None,
    options: MachineOptions,
) -> NativeJudge:
    from swapconf.dryrun.cluster import CARDS
    from swapconf.plan.pynative.judge import native_judge_of
    from swapconf.plan.runs import trace_folders
    from swapconf.study.beside import pool_room_bytes

    machine = options.load()
    found = [baseline] if baseline is not None else baselines(study, changes, runs)
    folders = [folder for place in found for folder in trace_folders(place) or [place]]
    judge = native_judge_of(
        study,
        folders,
        machine,
        asked.in_bytes(),
        slower_link=asked.slower_link,
        max_entries=asked.max_entries,
        cards_per_host=cards_told(click.get_current_context(), options.cards_per_host) or CARDS,
    )
    if asked.beside is not None:
        return judge
    room = pool_room_bytes([stage.question.trace for stage in judge.stages], study.config, machine, os.environ)
    return replace(judge, limits=replace(judge.limits, room_bytes=room))


def _searched(judge: NativeJudge, effort: float, *, widely: bool) -> tuple[NativePlanned, Frontier[NativePlan] | None]:
    from swapconf.plan.pynative.budgets import BUDGETS, chosen_again, frontier_of
    from swapconf.plan.pynative.menu import uniform
    from swapconf.plan.pynative.modes import KEEP
    from swapconf.plan.pynative.planned import families, plan

    is_plain = judge.fits(uniform(judge, KEEP)) or judge.is_out_of_reach
    tried = families(judge, effort) if widely or not is_plain else []
    with Progress(len(tried), phrase("plans")) as progress:
        found = plan(judge, () if is_plain else tried, progress.step)
    if not widely:
        return found, None
    with Progress(BUDGETS, phrase("budgets")) as progress:
        frontier = frontier_of(found, tried, progress.step)
    return chosen_again(found, frontier), frontier


def _said(
    planned: NativePlanned,
    frontier: Frontier[NativePlan] | None,
    study: Study,
    asked: PlanOptions,
    options: MachineOptions,
) -> NativeMade:
    """The YAML with the plan in it."""
    from swapconf.config.yaml_document import read_text
    from swapconf.plan.planned import Verdict
    from swapconf.report.native_plan_text import comment

    file = study.document.file
    before = read_text(file)
    if planned.verdict is Verdict.IMPOSSIBLE:
        return NativeMade(planned=planned, frontier=frontier, before=before, after="")
    told = comment(planned, asked.budget, options.profile or "", asked.slower_link)
    after, why_not = rewritten(file, planned.judge.config(planned.chosen), told)
    return NativeMade(planned=planned, frontier=frontier, before=before, after=after, why_not=why_not)


def write_page(path: Path, file: str, made: NativeMade, slower_link: float) -> None:
    """``file``: the YAML."""
    from swapconf import __version__
    from swapconf.cli.common import write_out
    from swapconf.report.plan_page import native_page

    write_out(path, native_page(made.planned, made.frontier, file, slower_link, __version__, asked_again()))


def show(file: str, made: NativeMade, options: MachineOptions, slower_link: float, form: str) -> None:
    from swapconf.cli.fixing import print_difference
    from swapconf.cli.tables import print_rows
    from swapconf.report import native_plan_text, plan_told

    found = made.planned
    if form == "json":
        record = native_plan_text.as_record(found, made.after, made.confirmed, slower_link, made.frontier)
        click.echo(json.dumps(record, indent=2))
        return
    for line in native_plan_text.verdict_lines(found):
        say(line, bold=True)
    say(native_plan_text.link_line(found, slower_link))
    say(known_line(found.judge.stages[0].times.shares()))
    say(native_plan_text.origin(found))
    print_assumed(options.load())
    print_rows(*native_plan_text.strategies(found))
    if found.chosen.entries:
        print_rows(*plan_told.worth(native_plan_text.entries(found)))
    if made.confirmed:
        say(phrase("confirmed by a dry run:"))
        print_rows(*native_plan_text.confirmation(found, made.confirmed))
    if made.frontier is not None:
        print_frontier(made.frontier)
    say_why_not(made.why_not)
    if made.after:
        print_difference(file, made.before, made.after)
