"""YAML -> LAID OUT, as ``swapconf layout`` was asked: the search with its dry runs, and the best layout as text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from swapconf.cli.common import say, stop
from swapconf.cli.plan_runs import reports
from swapconf.cli.planning import ROUNDS, judge_of_traces, run_plan
from swapconf.cli.written import Written, needs_more
from swapconf.words.phrases import mark, phrase

if TYPE_CHECKING:
    from swapconf.cli.child_options import RunOptions
    from swapconf.cli.machine import MachineOptions
    from swapconf.cli.planning import PlanOptions
    from swapconf.dryrun.kept_runs import Reports
    from swapconf.dryrun.rank_order import RankOrder
    from swapconf.layout.judged import Judged
    from swapconf.layout.layout import Layout
    from swapconf.layout.legal import Wishes
    from swapconf.layout.ranked import Ranking, Row
    from swapconf.layout.runs import Refused
    from swapconf.plan.judge import Judge
    from swapconf.study.study import Study


_REASONS = 3  # why layouts cannot be trained, at most


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutOptions:
    """What is asked of a search of layouts. ``fix``, ``vary``: see `layout.legal.wishes`; ``top``: how many are shown;
    ``most_runs``: ranks; ``composes``: stages that runs of other layouts tell are not run;
    ``stages``: only layers by stage vary."""

    cards: int
    fix: tuple[str, ...]
    vary: tuple[str, ...]
    top: int
    most_runs: int
    composes: bool
    stages: bool


@dataclass(frozen=True, kw_only=True)
class Laid(Written):
    """What was found, and the YAML that says the best of it."""

    ranking: Ranking
    study: Study
    world: Judged = field(repr=False)


def laid_out(
    study: Study,
    changes: Sequence[str],
    asked: PlanOptions,
    wanted: LayoutOptions,
    runs: RunOptions,
    machine: MachineOptions,
) -> Laid:
    """Raises NoLayout, BadWish, NoRun, ValueError."""
    from swapconf.dryrun import capacity
    from swapconf.dryrun.fold.orders import expected_seconds
    from swapconf.dryrun.no_dry_run import no_dry_run
    from swapconf.layout.judged import Judged
    from swapconf.layout.layout import layout_of
    from swapconf.layout.legal import Degree, layouts, nearest, of_stages, wishes
    from swapconf.layout.ranked import ranked
    from swapconf.layout.runs import RunSettings
    from swapconf.layout.search import Limit, Search
    from swapconf.memory.allocators import default_policy
    from swapconf.plan.runs import LEVEL
    from swapconf.report.layout_progress import beforehand, not_composed, shifting, so_far
    from swapconf.whatif.evaluate import Evaluator
    from swapconf.whatif.question import network_asked

    budget, on = asked.in_bytes(), machine.load()  # these before dry runs that would be for nothing
    stop(list(no_dry_run(study, LEVEL, os.environ, runs.register_path or "")))
    own, wish = layout_of(study), wishes(wanted.fix, wanted.vary)
    network_asked(study)
    settings = RunSettings(
        fold=runs.fold,
        composes=wanted.composes,
        timeout_seconds=runs.timeout,
        keep=runs.keep.resolve() if runs.keep is not None else None,
        register_path=runs.register_path or "",
    )

    findings = set[tuple[str, str]]()

    def judge(candidate: Study, folders: Sequence[Path]) -> Judge:
        return judge_of_traces(candidate, folders, asked, machine, on, findings)

    def evaluator(candidate: Study, folders: Sequence[Path]) -> Evaluator:
        return Evaluator(folders, candidate, [on], default_policy(os.environ))

    def small(orders: Sequence[RankOrder]) -> Reports:
        return reports(orders, runs, phrase("small models of each kind of layers"), remembers=True)

    may_deal = Degree.OFFSET not in wish.fixed
    found = of_stages(own, wanted.cards, wish) if wanted.stages else layouts(own, wanted.cards, wish)
    here = own if own.cards == wanted.cards else None
    told = _Told(runs)
    world = Judged(
        study,
        changes,
        settings,
        told,
        judge,
        effort=asked.effort,
        may_deal=may_deal,
        tells_shifts=wanted.stages,
        evaluator_of=evaluator,
        small_runner=small,
    )
    refused = world.checked(list(dict.fromkeys([*found, *([here] if here is not None else [])])))
    trainable = [layout for layout in found if layout in world.candidates]
    if not trainable:
        raise ValueError(_none(world, own, wanted.cards, wish, refused))
    instead = None if here in world.candidates else nearest(own, trainable)
    every = list(world.candidates)
    needed = world.ranks(every)
    told.left = min(wanted.most_runs, needed)
    composed = world.ranks(every, truly=True) - needed
    if wanted.stages:
        say(shifting(wanted.most_runs), err=True)
    else:
        orders = world.orders(instead or own)
        least, most = (sum(each) / len(orders) for each in zip(*map(expected_seconds, orders), strict=True))
        children = capacity.jobs_at_once(orders, runs.jobs)
        say(beforehand(len(every), needed, composed, wanted.most_runs, (least, most), children, instead), err=True)
    search = Search(
        world=world,
        layouts=trainable,
        own=None if instead is not None else own,
        nearest=instead,
        limit=Limit(usable_bytes=budget.card_bytes, hardware=on.hardware, runs=wanted.most_runs),
        refused=refused,
        told=lambda found: say(so_far(found), err=True),
    )
    result = search.run()
    for why, count in world.not_composed()[:_REASONS]:
        say(not_composed(count, why), err=True)
    usable = next((item.judge.limits.usable_bytes for item in world.planned.values()), budget.card_bytes)
    ranking = ranked(result, world, study, search.own, usable)
    return _said(ranking, study, world, asked, machine)


def _none(world: Judged, own: Layout, cards: int, wish: Wishes, refused: Sequence[Refused]) -> str:
    """Why none is left, each reason once, and with how many sequences a step there would be one."""
    from swapconf.layout.layout import ACCUMULATION, MICRO_BATCHES
    from swapconf.layout.legal import more_sequences

    why = {item.rule: item.why for item in reversed(refused)}
    how_many = Counter(item.rule for item in refused)
    none = (
        mark("none of the layouts of {cards} cards for the same {number} sequences a step can be trained")
        if refused
        else mark("no layout of {cards} cards trains the same {number} sequences a step")
    )
    lines = [phrase(none, cards=cards, number=own.sequences)]
    for rule, number in how_many.most_common(_REASONS):
        lines.append(phrase("{why} ({number} layouts)", why=why[rule], number=number))
    larger = next((layout for layout in more_sequences(own, cards, wish) if not world.checked([layout])), None)
    if larger is not None:
        key = MICRO_BATCHES if own.stages > 1 else ACCUMULATION
        lines.append(
            phrase(
                "with {number} sequences a step there are some, such as {layout}: --set {key}={value}",
                number=larger.sequences,
                layout=larger.name,
                key=key,
                value=larger.sequences // (own.batch * own.data),
            )
        )
    else:
        lines.append(phrase("fix or vary less, or take another number of cards"))
    return "\n  ".join(lines)


class _Told:
    """Runs dry runs, and says each time about how long the others take, as those so far did. ``left``: ranks, at
    most."""

    def __init__(self, runs: RunOptions) -> None:
        self._runs, self.left, self._took = runs, 0, list[float]()

    def __call__(self, orders: Sequence[RankOrder]) -> Reports:
        from swapconf.dryrun import capacity
        from swapconf.report.layout_progress import time_left

        found = reports(orders, self._runs, phrase("dry run"), remembers=True)
        self.left -= len(orders)
        self._took += [seconds for item in found.values() if (seconds := item.get("seconds"))]
        if self._took and self.left > 0:
            children = capacity.jobs_at_once(orders[:1], self._runs.jobs)
            say(time_left(self.left, sum(self._took) / len(self._took), children), err=True)
        return found


# --- from ranking to text ---------------------------------------------------------------------------------------------


def _said(ranking: Ranking, study: Study, world: Judged, asked: PlanOptions, machine: MachineOptions) -> Laid:
    from swapconf.config.yaml_document import read_text

    before = read_text(study.document.file)
    best, after, why_not = ranking.best, "", ""
    if best is not None:
        after, why_not = _text(best, before, study, asked, machine)
    return Laid(ranking=ranking, study=study, world=world, before=before, after=after, why_not=why_not)


def _text(best: Row, before: str, study: Study, asked: PlanOptions, machine: MachineOptions) -> tuple[str, str]:
    """The YAML with the layout and its strategy, and where it cannot be rewritten "" and why not."""
    from swapconf.config import base_config
    from swapconf.config.rewriting import CannotRewrite
    from swapconf.decide.compact import CannotCompact
    from swapconf.layout import written as layouts
    from swapconf.layout.layout import NoLayout
    from swapconf.plan import written as plans
    from swapconf.report.plan_text import comment
    from swapconf.study.study import study_for_check

    file, planned = study.document.file, best.planned
    assert planned is not None
    told = comment(planned, asked.budget, machine.profile or "", asked.slower_link)
    try:
        plain = study_for_check(base_config.of_text(before, file), os.environ)
        cut = layouts.write(before, plain, best.layout)
        made = planned.judge.written(best.plan)
        after = plans.write(cut, base_config.of_text(cut, file), made, told)
    except CannotRewrite as error:
        return "", phrase("{error}; {hint}", error=error, hint=error.hint)
    except (CannotCompact, NoLayout) as error:
        return "", str(error)
    again = study_for_check(base_config.of_text(after, file), os.environ)
    if again.is_refused:
        return "", phrase("what would be written has errors: {why}", why=again.findings[0].message)
    return after, ""


# --- from text to true runs -------------------------------------------------------------------------------------------


def confirmed(laid: Laid, asked: PlanOptions, runs: RunOptions, machine: MachineOptions) -> Laid:
    """The best layout with its strategy really dry-run on all stages; planned again with what that taught where it
    needs more. Raises NoRun."""
    from swapconf.plan.confirmed import confirm, taught

    for turn in range(ROUNDS):
        best = laid.ranking.best
        if best is None or not laid.after:
            return laid
        planned = laid.world.planned[best.layout]
        candidate = laid.world.candidates[best.layout]
        stages = run_plan(candidate.study, candidate.changes, laid.after, runs)
        found = confirm(planned.judge, planned.chosen, stages)
        laid = replace(laid, confirmed=found)
        if not laid.is_refuted or turn == ROUNDS - 1:
            return laid
        say(needs_more(found), err=True)
        judge = planned.judge.under(taught(planned.judge.limits, found))
        laid = _planned_again(laid, best.layout, judge, asked, machine)
    raise AssertionError


def _planned_again(laid: Laid, layout: Layout, judge: Judge, asked: PlanOptions, machine: MachineOptions) -> Laid:
    """By what a true run taught its judge; another layout may be the best then."""
    from swapconf.layout.ranked import ranked

    found = laid.ranking.found.having(laid.world.plan_by(layout, judge))
    own = laid.ranking.as_it_is.layout if laid.ranking.as_it_is is not None else None
    ranking = ranked(found, laid.world, laid.study, own, laid.ranking.usable_bytes)
    return _said(ranking, laid.study, laid.world, asked, machine)
