"""STUDY + DRY RUNS -> WORLD: what the search asks of layouts, answered by their traces and the planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import TypeAlias

from swapconf.dryrun.rank_order import RankOrder
from swapconf.layout import runs
from swapconf.layout.coarse import coarse
from swapconf.layout.facts import facts_of
from swapconf.layout.layout import Deal, Layout
from swapconf.layout.runs import Candidate, Refused, Runner, RunSettings
from swapconf.layout.search import Final, Tried
from swapconf.plan.deal import better_deal
from swapconf.plan.judge import Judge
from swapconf.plan.keys import best_of_keys
from swapconf.plan.modes import KEEP, uniform
from swapconf.plan.planned import Planned
from swapconf.study.study import Study

JudgeOf: TypeAlias = Callable[[Study, Sequence[Path]], Judge]
_KEPT = 6  # judges, each with the traces of its layout


class Judged:
    """A `search.World`.

    Attributes:
        planned: By layout, what was planned in full.
        candidates: By layout, its YAML.

    Args:
        given: Changes of the command line.
        judge_of: Makes a judge of a layout's YAML and traces, under the budget.
        may_deal: Whether layers may be dealt to the stages otherwise than the layouts say.
    """

    def __init__(
        self,
        study: Study,
        given: Sequence[str],
        settings: RunSettings,
        runner: Runner,
        judge_of: JudgeOf,
        *,
        effort: float = 1.0,
        may_deal: bool = True,
    ) -> None:
        self._study, self._given, self._settings, self._runner = study, given, settings, runner
        self._judge_of, self._effort, self._may_deal = judge_of, effort, may_deal
        self.candidates: dict[Layout, Candidate] = {}
        self.planned: dict[Layout, Planned] = {}
        self._orders: dict[Layout, list[RankOrder]] = {}
        self._folders: dict[Layout, tuple[Path, ...]] = {}
        self._judges: dict[Layout, Judge] = {}

    def checked(self, layouts: Sequence[Layout]) -> list[Refused]:
        """What `check` finds errors in; all others can be run."""
        good, bad = runs.candidates(self._study, self._given, layouts)
        self.candidates.update((item.layout, item) for item in good)
        return bad

    def ranks(self, layout: Layout) -> int:
        if layout not in self.candidates:
            self.checked([layout])
        return len(self._orders_of(layout)) if layout in self.candidates else 0

    def _orders_of(self, layout: Layout) -> list[RankOrder]:
        if layout not in self._orders:
            self._orders[layout] = runs.orders_of(self.candidates[layout], self._settings)
        return self._orders[layout]

    def run(self, layouts: Sequence[Layout]) -> tuple[list[Tried], list[Refused]]:
        refused = self.checked([layout for layout in layouts if layout not in self.candidates])
        chosen = {layout: self._orders_of(layout) for layout in layouts if layout in self.candidates}
        found, broken = runs.run(chosen, self._runner)
        self._folders.update(found)
        tried = []
        for layout in found:
            try:
                tried.append(self._tried(layout))
            except ValueError as error:  # also a Mismatch: traces that cannot be judged
                broken.append(Refused(layout=layout, rule="", why=str(error)))
        return tried, [*refused, *broken]

    def _tried(self, layout: Layout) -> Tried:
        judge = self.judge(layout)
        best = coarse(judge)
        return Tried(
            layout=layout,
            facts=facts_of(layout, judge),
            ranks=self.ranks(layout),
            floor_us=judge.evaluation(uniform(KEEP, judge.network)).step_us,
            coarse_us=best.cost_us if best.fits else inf,
        )

    def plan(self, layout: Layout) -> Final:
        return self.plan_by(layout, self.judge(layout))

    def plan_by(self, layout: Layout, judge: Judge) -> Final:
        """The same by another judge of it."""
        found = best_of_keys(judge, self._effort)
        self.planned[layout] = found
        return Final(
            layout=layout,
            cost_us=found.chosen.cost_us if found.chosen.fits else inf,
            deal=_deal(found) if self._may_deal else None,
            is_interrupted=found.is_interrupted,
        )

    def judge(self, layout: Layout) -> Judge:
        """Made again where it was given up for others."""
        if layout not in self._judges:
            if len(self._judges) >= _KEPT:
                del self._judges[next(iter(self._judges))]
            self._judges[layout] = self._judge_of(self.candidates[layout].study, self._folders[layout])
        return self._judges[layout]


def _deal(found: Planned) -> Deal | None:
    better = better_deal(found)
    return None if better is None else (better.counts,)
