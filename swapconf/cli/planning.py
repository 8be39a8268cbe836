"""YAML -> PLAN, as ``swapconf plan`` was asked: with baselines made where there are none, and true runs of the plan."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf.cli.cluster import cards_told
from swapconf.cli.common import go_on, print_findings, say, stop
from swapconf.cli.machine import MachineOptions
from swapconf.cli.plan_runs import dry_run
from swapconf.cli.progress import counted
from swapconf.cli.written import Written, needs_more
from swapconf.words.phrases import phrase
from swapconf.words.units import parse_bytes

if TYPE_CHECKING:
    from swapconf.cli.child_options import RunOptions
    from swapconf.config.config import Config
    from swapconf.plan.judge import Judge
    from swapconf.plan.limits import Budget
    from swapconf.plan.modes import Atom, Plan
    from swapconf.plan.planned import Planned
    from swapconf.plan.runs import StageRun
    from swapconf.study.study import Study
    from swapconf.timing.cost import Machine
    from swapconf.words.findings import Finding

ROUNDS = 5  # of planning, where a true run needs more than was predicted


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanOptions:
    """What is asked of a plan.

    Attributes:
        budget: Of a card, as text.
        host_budget: Of a host, as text; None for no limit.
        beside: What a card holds beside MindSpore's pool, as text; None for what it holds at most, as far as the budget
            reaches into that.
        slower_link: By which share the host link may be slower than told, 0 to 0.9.
        effort: Scales how many plans are asked for.
    """

    budget: str
    host_budget: str | None
    beside: str | None
    slower_link: float
    max_entries: int
    effort: float

    def in_bytes(self) -> Budget:
        """What a card and a host may hold. Raises ValueError."""
        from swapconf.plan.limits import Budget

        return Budget(
            card_bytes=parse_bytes(self.budget),
            beside_bytes=parse_bytes(self.beside or "0"),
            host_bytes=parse_bytes(self.host_budget) if self.host_budget else None,
        )


@dataclass(frozen=True, kw_only=True)
class Made(Written):
    """A plan and the text that says it."""

    planned: Planned


# --- from YAML to judge -----------------------------------------------------------------------------------------------


def judge_of_yaml(
    study: Study,
    changes: Sequence[str],
    asked: PlanOptions,
    runs: RunOptions,
    baseline: Path | None,
    options: MachineOptions,
) -> Judge:
    from swapconf.plan.runs import trace_folders
    from swapconf.whatif.question import network_asked

    asked.in_bytes()  # these before dry runs that would be for nothing
    machine = options.load()
    if baseline is None:
        stop(_no_dry_run(study, runs))
    network_asked(study)
    folders = trace_folders(baseline) if baseline is not None else baselines(study, changes, runs)
    return judge_of_traces(study, folders, asked, options, machine, set())


def judge_of_traces(
    study: Study,
    folders: Sequence[Path],
    asked: PlanOptions,
    options: MachineOptions,
    machine: Machine,
    told: set[tuple[str, str]],
) -> Judge:
    """The judge of one layout, from its traces without swap and recompute. ``machine``: what ``options`` load.
    ``told``: rules and messages that were printed of other layouts, each of which is told once."""
    from swapconf.dryrun.cluster import CARDS
    from swapconf.memory.allocators import default_policy
    from swapconf.plan.judge import judge_of

    found = judge_of(
        study,
        folders,
        machine,
        asked.in_bytes(),
        slower_link=asked.slower_link,
        max_entries=asked.max_entries,
        cards_per_host=cards_told(click.get_current_context(), options.cards_per_host) or CARDS,
        policy=default_policy(os.environ),
    )
    findings = found.evaluator.findings
    print_findings([item for item in findings if (item.rule, item.message) not in told], err=True)
    told.update((item.rule, item.message) for item in findings)
    return found if asked.beside is not None else _in_room(found, study, machine)


def _no_dry_run(study: Study, runs: RunOptions) -> list[Finding]:
    from swapconf.dryrun.no_dry_run import no_dry_run
    from swapconf.plan.runs import LEVEL

    return list(no_dry_run(study, LEVEL, os.environ, runs.register_path or ""))


def _in_room(judge: Judge, study: Study, machine: Machine) -> Judge:
    """The same, where pools stay in what a card has left beside what else it holds at most."""
    from swapconf.study.beside import pool_room_bytes

    room_bytes = pool_room_bytes(judge.evaluator.traces, study.config, machine, os.environ)
    return judge.under(replace(judge.limits, room_bytes=room_bytes))


def baselines(study: Study, changes: Sequence[str], runs: RunOptions) -> list[Path]:
    """The folders of the traces, made where they are not there; with those of runs with swap on where that decides how
    MindSpore compiles the step."""
    from swapconf.dryrun.pynative.expert_load import EVEN
    from swapconf.plan import runs as dry_runs
    from swapconf.study.study import study_for_run
    from swapconf.whatif.inlined import NOTHING_SWAPPED, SWAP_ON, is_turned_by_swap

    document = dry_runs.without_strategy(study.document.file, changes)
    plain = study_for_run(document, os.environ)
    go_on(plain, study.findings)
    place = dry_runs.place_of_baselines(document, runs.keep, runs.load or EVEN)
    found = dry_runs.traces_of(dry_run(plain, place, runs, phrase("baseline")))
    if is_turned_by_swap(plain.config, plain.versions):
        turned = study_for_run(dry_runs.without_strategy(study.document.file, changes, NOTHING_SWAPPED), os.environ)
        dry_runs.traces_of(dry_run(turned, place / SWAP_ON, runs, phrase("baseline")))
    return found


# --- from judge to text -----------------------------------------------------------------------------------------------


def planned(
    judge: Judge,
    study: Study,
    changes: Sequence[str],
    asked: PlanOptions,
    runs: RunOptions,
    options: MachineOptions,
    *,
    confirm: bool,
    widely: bool,
) -> Made:
    """The plan in words; where it is to be confirmed, planned again with what the true runs taught. ``widely``: other
    budgets are searched, too."""
    from swapconf.dryrun import fan_out
    from swapconf.plan.confirmed import confirm as confirmed_by
    from swapconf.plan.confirmed import taught
    from swapconf.plan.planned import EVIDENCE, Verdict
    from swapconf.plan.runs import NoRun
    from swapconf.upstream.primitives import FUSED_LEVEL

    assert study.network is not None
    is_fused = study.config.runtime.jit_level == FUSED_LEVEL
    if not confirm and (is_fused or study.network.family not in EVIDENCE):
        lacking = fan_out.missing(runs.dask)
        why = (
            phrase("what fused kernels (jit_level O1) hold is known less well, so this plan is confirmed by a true run")
            if is_fused
            else phrase("plans of this family are not known to hold in true runs, so this one is confirmed by one")
        )
        say(lacking or why, err=True)
        confirm = not lacking
    for turn in range(ROUNDS):
        made = _said(_searched(judge, asked.effort, widely=widely), study, asked, options)
        if not confirm:
            return made
        if made.planned.verdict is Verdict.IMPOSSIBLE or not made.after:
            return _no_slower(made, study, changes, asked, runs, options)
        try:
            stages = run_plan(study, changes, made.after, runs)
        except NoRun as error:
            if not error.crashed or turn == ROUNDS - 1:
                raise
            judge = judge.without(
                _culprit(made.planned.judge, made.planned.chosen.plan, study, changes, runs, error.crashed[0])
            )
            continue
        found = confirmed_by(made.planned.judge, made.planned.chosen, stages)
        made = replace(made, confirmed=found)
        if not made.is_refuted or turn == ROUNDS - 1:
            return _no_slower(made, study, changes, asked, runs, options)
        say(needs_more(found), err=True)
        judge = judge.under(taught(judge.limits, found))
    raise AssertionError


def _no_slower(
    made: Made, study: Study, changes: Sequence[str], asked: PlanOptions, runs: RunOptions, options: MachineOptions
) -> Made:
    """The same, or what people use today, where that is faster and its true run fits, though that was not predicted."""
    from swapconf.plan.confirmed import confirm as confirmed_by
    from swapconf.plan.gate import instead, rivals
    from swapconf.plan.runs import NoRun

    judge = made.planned.judge
    for name, plan in rivals(made.planned, is_refuted=made.is_refuted):
        text, _ = _text(judge, plan, study, "")
        if not text:
            continue
        say(phrase("{strategy} would be faster and may fit, so a true run decides", strategy=name), err=True)
        try:
            stages = run_plan(study, changes, text, runs)
        except NoRun:
            continue
        found = confirmed_by(judge, judge.score(plan), stages)
        if all(rank.fits for rank in found):
            other = instead(made.planned, plan, found)
            confirmed = confirmed_by(other.judge, other.chosen, stages)
            return replace(_said(other, study, asked, options), confirmed=confirmed)
    return made


def _searched(judge: Judge, effort: float, *, widely: bool) -> Planned:
    from swapconf.plan.budgets import ASKED, frontier_of
    from swapconf.plan.keys import bases, best_of_keys
    from swapconf.plan.planned import chosen_again, to_ask

    searches = 1 + sum(1 for _ in bases(judge.base))
    most = judge.asked + searches * sum(to_ask(judge, effort)) + ASKED * widely
    with counted(most, phrase("plans")) as step:
        found = best_of_keys(judge, effort, step)
        if not widely:
            return found
        frontier_of(found, progress=step)
        return chosen_again(found)


def _said(planned: Planned, study: Study, asked: PlanOptions, options: MachineOptions) -> Made:
    """The YAML with the plan in it."""
    from swapconf.config.yaml_document import read_text
    from swapconf.plan.planned import Verdict
    from swapconf.report.plan_text import comment

    before = read_text(study.document.file)
    if planned.verdict is Verdict.IMPOSSIBLE:
        return Made(planned=planned, before=before, after="")
    told = comment(planned, asked.budget, options.profile or "", asked.slower_link)
    after, why_not = _text(planned.judge, planned.chosen.plan, study, told)
    return Made(planned=planned, before=before, after=after, why_not=why_not)


def _text(judge: Judge, plan: Plan, study: Study, comment: str) -> tuple[str, str]:
    """The YAML with a plan in it, and where it cannot be rewritten "" and why not."""
    from swapconf.decide.compact import CannotCompact

    try:
        return rewritten(study.document.file, judge.written(plan), comment)
    except CannotCompact as error:
        return "", str(error)


def rewritten(file: str, config: Config, comment: str) -> tuple[str, str]:
    """The text of a YAML with the swap and recompute of a config, and where that cannot be "" and why not."""
    from swapconf.config import base_config
    from swapconf.config.rewriting import CannotRewrite
    from swapconf.config.yaml_document import read_text
    from swapconf.plan.written import write

    before = read_text(file)
    try:
        return write(before, base_config.of_text(before, file), config, comment), ""
    except CannotRewrite as error:
        return "", phrase("{error}; {hint}", error=error, hint=error.hint)


def _culprit(
    judge: Judge, plan: Plan, study: Study, changes: Sequence[str], runs: RunOptions, rank: int
) -> frozenset[Atom]:
    """What of a plan the MindSpore of ``rank`` does not compile."""
    from swapconf.plan.modes import told
    from swapconf.plan.refused import narrowed
    from swapconf.plan.runs import NoRun

    def fails(less: Plan) -> bool:
        text, _ = _text(judge, less, study, "")
        try:
            if text:
                run_plan(study, changes, text, runs, (rank,))
        except NoRun as error:
            return bool(error.crashed)
        return False

    say(phrase("rank {rank}: MindSpore fails on this plan; which entry it is, is found out now", rank=rank), err=True)
    found = narrowed(plan, fails)
    say(phrase("MindSpore fails on {entries}; planning again without", entries=told(found)), err=True)
    return found


def run_plan(
    study: Study, changes: Sequence[str], text: str, runs: RunOptions, ranks: Sequence[int] = ()
) -> list[StageRun]:
    """The true runs of the YAML with the plan: of ``ranks``, or of one rank of each stage."""
    from swapconf.config import base_config
    from swapconf.config.overrides import changed
    from swapconf.study.study import study_for_run

    document = changed(base_config.of_text(text, study.document.file), changes)
    written = study_for_run(document, os.environ)
    go_on(written, study.findings)
    with tempfile.TemporaryDirectory(prefix="swapconf-plan-", ignore_cleanup_errors=True) as folder:
        return dry_run(written, Path(folder), runs, phrase("plan"), ranks)
