"""BEST PLAN -> REGULAR PLAN: ranges and strides of layers, and few modes, wherever that hardly costs.

A search takes whatever is fastest, and often ends in lists of layers that nobody would write: which of equal layers has
which mode makes little difference. So of all plans that are at most a little slower, that are no slower than what
people use today, and that fit as the best one does, the one is taken that is said in the fewest words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from itertools import groupby
from math import inf
from typing import NamedTuple

from swapconf.plan.arranged import arranged, nearby
from swapconf.plan.judge import Judge, Scored
from swapconf.plan.modes import Plan, entries, is_counted, num_ranges

HARDLY = 0.003  # of a step: what regular layers may cost
_SETTLED = 6  # plans that are asked for in MindSpore's own order
_FAR, _OFTEN = 0.01, 3  # of the budget or a step; so many plans with the same numbers of layers tell that none is near


class Words(NamedTuple):
    """How much has to be said: fewer is better, the first first."""

    entries_and_ranges: int
    is_listed: bool  # layer by layer, not as counts
    modes: int
    warned_of: int = 0  # entries with a backward_prefetch that `check` calls too large


def words(judge: Judge, plan: Plan) -> Words:
    """``entries_and_ranges``: each entry, and each range of layers that it has, unless it is for all of them."""
    asked = entries(plan)
    return Words(
        entries_and_ranges=len(asked) + num_ranges(plan, judge.base),
        is_listed=not is_counted(plan, judge.base),
        modes=len(frozenset(plan)),
        warned_of=sum(atom.prefetch >= judge.warned_prefetch for atom in asked),
    )


def regular(
    judge: Judge, best: Scored, simple: Iterable[Plan], most: int, progress: Callable[[int], None] = lambda asked: None
) -> Scored:
    """``simple``: what people use today; the plan is never slower than one of them that fits, unless ``best`` is.
    ``most``: how many more plans may be asked for."""
    return _Regular(judge, best, simple, judge.asked + most, progress).found()


class _Near(NamedTuple):
    """A plan that may be asked for. ``deal``: plans with an equal one need nearly as much as each other."""

    words: Words
    plan: Plan
    deal: Hashable = None


class _Regular:
    def __init__(
        self, judge: Judge, best: Scored, simple: Iterable[Plan], stop: int, progress: Callable[[int], None]
    ) -> None:
        self._judge, self._best, self._simple = judge, best, list(simple)
        self._stop, self._progress, self._unsettled = stop, progress, _SETTLED
        self._known: dict[Plan, Words] = {}
        self._far: Counter[Hashable] = Counter()

    def found(self) -> Scored:
        here = self._best
        while (plainer := self._plainer(here, self._whole(here.plan))) is not None:
            here = plainer
        while (plainer := self._plainer(here, self._seen(nearby(self._judge, here.plan)))) is not None:
            here = plainer
        return here

    def _whole(self, plan: Plan) -> Iterator[_Near]:
        """All that was asked for already, and all arrangements of the plan."""
        yield from self._seen(self._judge.seen)
        for item in arranged(self._judge, plan):
            yield _Near(self._words(item.plan), item.plan, item.deal)

    def _seen(self, plans: Iterable[Plan]) -> Iterator[_Near]:
        return (_Near(self._words(plan), plan) for plan in plans if self._judge.allows(plan))

    def _words(self, plan: Plan) -> Words:
        if plan not in self._known:
            self._known[plan] = words(self._judge, plan)
        return self._known[plan]

    @cached_property
    def _most_us(self) -> float:
        """The longest step that a plan may have."""
        best_us = self._best.found.step_us
        fitting = (item.found.step_us for item in map(self._judge.score, self._simple) if item.fits)
        return min(best_us * (1 + HARDLY), max(best_us, min(fitting, default=inf)))

    def _plainer(self, here: Scored, plans: Iterable[_Near]) -> Scored | None:
        """What is said in the fewest words, the fastest of equals; None where nothing is said in fewer than ``here``
        that may be chosen."""
        ranges = num_ranges(here.plan, self._judge.base)
        fewer = [
            item
            for item in plans
            if item.words < self._words(here.plan) and num_ranges(item.plan, self._judge.base) <= ranges
        ]
        known = frozenset(self._judge.seen)
        for _, equal in groupby(sorted(fewer, key=lambda item: item.words), lambda item: item.words):
            could = [item.plan for item in equal if (item.plan in known or self._may_ask(item)) and self._could(item)]
            for plan in sorted(could, key=self._judge.cost_us):
                if (found := self._fitting(plan)) is not None:
                    return found
        return None

    def _may_ask(self, item: _Near) -> bool:
        return self._judge.asked < self._stop and self._far[item.deal] < _OFTEN

    def _could(self, item: _Near) -> bool:
        """Whether the time of a plan is right and it may fit."""
        judge = self._judge
        found = judge.evaluation(item.plan)
        self._progress(judge.asked)
        over_bytes = judge.limits.over_bytes(judge.used_bytes(item.plan))
        is_far = over_bytes > judge.limits.budget_bytes * _FAR or found.step_us > self._most_us * (1 + _FAR)
        if item.deal is not None and is_far:
            self._far[item.deal] += 1
        return found.step_us <= self._most_us and not over_bytes and not found.crashes

    def _fitting(self, plan: Plan) -> Scored | None:
        """Its score, where it fits in MindSpore's own order, too, as far as that may still be asked for."""
        judge = self._judge
        if not judge.score(plan).fits:
            return None
        if not judge.is_settled(plan):
            if not self._unsettled:
                return None
            self._unsettled -= 1
            judge.settle(plan)
        found = judge.score(plan)
        return found if found.fits and found.found.step_us <= self._most_us else None
