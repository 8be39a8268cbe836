"""STUDY + DRY RUNS -> WORLD: what the search asks of layouts, answered by their traces and the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TypeAlias

from swapconf.dryrun.rank_order import RankOrder
from swapconf.layout import runs
from swapconf.layout.coarse import coarse
from swapconf.layout.facts import Facts, facts_of, facts_of_two
from swapconf.layout.found import Final, Tried
from swapconf.layout.layout import Deal, Layout
from swapconf.layout.runs import Candidate, Refused, RunSettings
from swapconf.layout.shifts import shifts
from swapconf.layout.small import small_candidates, unlike_layers
from swapconf.layout.stages import Asked, Runner, Stages, Traced
from swapconf.plan.deal import better_deal
from swapconf.plan.judge import Judge
from swapconf.plan.keys import best_of_keys
from swapconf.plan.modes import KEEP, uniform
from swapconf.plan.planned import Planned
from swapconf.plan.runs import stage_runs, traces_of
from swapconf.study.study import Study
from swapconf.whatif.evaluate import Evaluator
from swapconf.words.findings import SwapconfError

JudgeOf: TypeAlias = Callable[[Study, Sequence[Path]], Judge]
EvaluatorOf: TypeAlias = Callable[[Study, Sequence[Path]], Evaluator]
_KEPT = 6  # judges, each with the traces of its layout


class Judged:
    """A `search.World`.

    Attributes:
        planned: By layout, what was planned in full.
        candidates: By layout, its YAML.

    Args:
        given: Changes of the command line.
        judge_of: Makes a judge of a layout's YAML and traces, under the budget.
        evaluator_of: Makes an evaluator of a small model's YAML and traces; without it no small models are run.
        small_runner: Runs them; None: as others.
        may_deal: Whether layers may be dealt to the stages otherwise than the layouts say.
        tells_shifts: Whether it is told of each that was run which other layers by stage may be faster.
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
        tells_shifts: bool = False,
        evaluator_of: EvaluatorOf | None = None,
        small_runner: Runner | None = None,
    ) -> None:
        self._study, self._given, self._settings = study, given, settings
        self._judge_of, self._effort = judge_of, effort
        self._may_deal, self._tells_shifts = may_deal, tells_shifts
        self.candidates: dict[Layout, Candidate] = {}
        self.planned: dict[Layout, Planned] = {}
        self._evaluator_of, self._small_runner = evaluator_of, small_runner or runner
        self._stages = Stages(runner=runner, composes=settings.composes)
        self._asked: dict[Layout, Asked] = {}
        self._traced: dict[Layout, Traced] = {}
        self._judges: dict[Layout, Judge] = {}

    def checked(self, layouts: Sequence[Layout]) -> list[Refused]:
        """What `check` finds errors in; all others can be run."""
        good, bad = runs.candidates(self._study, self._given, layouts)
        self.candidates.update((item.layout, item) for item in good)
        return bad

    def small(self, layouts: Sequence[Layout]) -> list[Facts]:
        """What dry runs of small models tell that are cut like these; nothing of those that tell nothing."""
        evaluator_of = self._evaluator_of
        if evaluator_of is None:
            return []
        unlike = unlike_layers(self._study) or 0
        pairs = [small_candidates(self._study, self._given, layout) for layout in layouts]
        asked = [[(item, runs.last_rank(item, self._settings)) for item in pair] for pair in pairs if pair]
        done = self._small_runner([order for pair in asked for _, order in pair]) if asked else {}
        facts = []
        for pair in asked:
            with suppress(ValueError, SwapconfError):  # of what does not end well, or cannot be asked, nothing is known
                told = [
                    (item.layout, evaluator_of(item.study, traces_of(stage_runs([order], done))))
                    for item, order in pair
                ]
                facts.append(facts_of_two(*told[0], *told[1], unlike=unlike))
        return facts

    def ranks(self, layouts: Sequence[Layout], *, truly: bool = False) -> int:
        self.checked([layout for layout in layouts if layout not in self.candidates])
        asked = self._of([layout for layout in layouts if layout in self.candidates])
        return self._stages.to_run(asked, asked if truly else ())

    def orders(self, layout: Layout) -> tuple[RankOrder, ...]:
        """The dry runs of one that can be run."""
        return self._of([layout])[layout].every

    def origins(self, layout: Layout) -> tuple[str, ...]:
        """By stage from what its trace is composed, "" where it was run."""
        return self._traced[layout].origins

    def not_composed(self) -> list[tuple[str, int]]:
        """Why stages were run that were to be composed, and how many of them, the most common reason first."""
        return self._stages.not_composed.most_common()

    def _of(self, layouts: Iterable[Layout]) -> dict[Layout, Asked]:
        """What they ask for."""
        for layout in layouts:
            if layout not in self._asked:
                self._asked[layout] = runs.asked_of(self.candidates[layout], self._settings)
        return {layout: self._asked[layout] for layout in layouts}

    def run(self, layouts: Sequence[Layout], *, truly: bool = False) -> tuple[list[Tried], list[Refused]]:
        refused = self.checked([layout for layout in layouts if layout not in self.candidates])
        asked = self._of([layout for layout in layouts if layout in self.candidates])
        found, broken = self._stages.traces(asked, asked if truly else ())
        self._traced.update(found)
        tried = []
        for layout in found:
            self._judges.pop(layout, None)
            try:
                tried.append(self._tried(layout))
            except ValueError as error:  # also a Mismatch: traces that cannot be judged
                if self._traced[layout].composed:
                    again, failed = self.run([layout], truly=True)
                    tried += again
                    refused += failed
                else:
                    broken[layout] = str(error)
        return tried, [*refused, *(Refused(layout=layout, rule="", why=why) for layout, why in broken.items())]

    def _tried(self, layout: Layout) -> Tried:
        judge, traced = self.judge(layout), self._traced[layout]
        best = coarse(judge)
        return Tried(
            layout=layout,
            facts=facts_of(layout, judge.evaluator),
            ranks=traced.ran,
            composed=traced.composed,
            floor_us=judge.evaluation(uniform(KEEP, judge.network)).step_us,
            coarse_us=best.cost_us if best.fits else inf,
            over_bytes=best.over_bytes,
            shifts=shifts(judge) if self._tells_shifts else (),
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
            self._judges[layout] = self._judge_of(self.candidates[layout].study, self._traced[layout].folders)
        return self._judges[layout]


def _deal(found: Planned) -> Deal | None:
    better = better_deal(found)
    return None if better is None else (better.counts,)
