"""JUDGE + MENU -> PLAN: the fastest plan that fits, by exact questions: good starts, then changes as long as one helps.

Work is counted in plans that are asked for, so the same input gives the same plan on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any

from swapconf.plan.every import every_plan
from swapconf.plan.guess import Guess
from swapconf.plan.halving import fewest_slow
from swapconf.plan.judge import NOISE, Judge, Scored
from swapconf.plan.modes import KEEP, Atom, Mode, Plan, entries, uniform
from swapconf.plan.settled import best_of_all

_STARTS = 3  # of the best starts, changed further
_PAIRS = 6  # of modes, mixed by layers
_Move = tuple[Any, Any]  # (layers, mode), (layer, layer), (layers, places) or (swap, prefetch)
_QUIET = 20  # times that nothing new was found to ask
_SETTLED, _IN_A_ROW = 6, 2  # plans that are asked for in MindSpore's own order, at most, and one after the other
_EQUAL = 0.0001  # of a step: nothing that much faster is worth looking for
_THOROUGH = 12  # times as many plans as a search may ask for are asked for where a hair is missing
_GOOD, _CANDIDATES, _AT_ONCE, _HOPEFUL, _ROUNDS = 8, 150, 8, 40, 3


def with_fragments(item: Scored) -> Any:
    """What fits comes first, then what is fastest."""
    return item.rank


def without_fragments(item: Scored) -> Any:
    """The same of what would fit in a pool without fragments."""
    return item.found.crashes, item.used_over_bytes, item.cost_us


class Search:
    """The best plan so far, which an interrupt leaves as it is.

    Attributes:
        best: The best of all that were scored; it may not fit.
        progress: Called after each step of the search with how many plans have been asked for.
    """

    def __init__(
        self, judge: Judge, modes: Sequence[Mode], progress: Callable[[int], None] = lambda asked: None
    ) -> None:
        self._judge, self._modes = judge, list(dict.fromkeys([KEEP, *modes]))
        self._progress = progress
        self.best: Scored | None = None
        self._asked: dict[Plan, Scored] = {}
        self._unsettled, self._sure_us = _SETTLED, inf

    def run(self, most: int, also: Iterable[Plan] = ()) -> Scored:
        """The best plan, or where none fits what is least over.

        Args:
            most: How many plans may be asked for. Where the best misses the budget by a hair they may be 12 times as
                many, if all plans there are of the modes are no more.
            also: Plans to start from, as well as those that it makes.
        """
        stop = self._judge.asked + most
        starts = sorted(
            (scored for plan in self._starts(also) if (scored := self._scored(plan)) is not None),
            key=lambda item: item.rank,
        )
        for place, start in enumerate(starts[:_STARTS]):
            if place and self._is_over():
                break
            left = stop - self._judge.asked
            self._improve(
                self._judge.scored_again(start), self._judge.asked + left // (_STARTS + 5 - place), with_fragments
            )
            self._settle()
        self._promising(self._judge.asked + 4 * (stop - self._judge.asked) // 5)
        self._shaken(stop)
        assert self.best is not None
        if not self.best.fits and self.best.over_bytes <= NOISE * self._judge.limits.usable_bytes:
            self._every(_THOROUGH * most)
        return self.best

    def _every(self, most: int) -> None:
        """Whether the last 0.1 % of a budget suffices is up to how blocks happen to lie, of which nothing near tells
        anything: all plans are asked for, the fastest first, until one fits."""
        plans = every_plan(self._judge, self._modes, most)
        for plan in plans:
            self._judge.evaluation(plan)
            self._progress(self._judge.asked)
        for plan in sorted(plans, key=self._judge.cost_us):
            if self._note(self._judge.score(plan)).fits:
                break

    def _settle(self) -> None:
        """Ask for the best in MindSpore's own order, where it is faster than what was; the search goes on by what that
        tells of others."""
        for _ in range(_IN_A_ROW):
            best = self.best
            if best is None or not best.fits or not self._unsettled or best.cost_us >= self._sure_us * (1 - NOISE):
                break
            self._unsettled -= 1
            self._judge.settle(best.plan)
            self._asked = {plan: self._judge.scored_again(item) for plan, item in self._asked.items()}
            self.best = best_of_all(self._judge, self._judge.score(best.plan))
            if self.best.plan == best.plan:
                self._sure_us = best.cost_us
                break

    def _is_over(self) -> bool:
        """What fits is as fast as anything that was asked for, whether that fits or not: nothing is left to win."""
        evaluations = map(self._judge.evaluation, self._judge.seen)
        fastest = min(found.step_us for found in evaluations if not found.crashes)
        return self.best is not None and self.best.fits and self.best.found.step_us <= fastest * (1 + _EQUAL)

    def _shaken(self, stop: int) -> None:
        """Changes of several layers at once lead away from a plan that no single change makes better. Every second time
        fragments are left out of what leads on: they come and go with little, so that near a fast plan that would fit
        without them there often is one that fits with them."""
        chance, quiet, turn = random.Random(1), 0, 0
        loose: Scored | None = None
        while self._judge.asked < stop and quiet < _QUIET and self.best is not None and not self._is_over():
            asked, turn = self._judge.asked, turn + 1
            rank = with_fragments if turn % 2 else without_fragments
            plan = (self.best if turn % 2 or loose is None else loose).plan
            for _ in range(chance.randint(1, 3)):
                plan = self._moved(plan, chance.choice(self._moves(plan)))
            if self._judge.allows(plan):
                found = self._improve(self._note(self._judge.score(plan)), stop, rank)
                if rank is without_fragments and (loose is None or rank(found) <= rank(loose)):
                    loose = found
            quiet = quiet + 1 if self._judge.asked == asked else 0

    def _promising(self, stop: int) -> None:
        """What promises most is asked next, of plans near those that were fast or promised much."""
        chance, quiet = random.Random(2), 0
        hopeful: list[Plan] = []
        while self._judge.asked < stop and quiet < _QUIET and self.best is not None and not self._is_over():
            known = list(self._asked.values())
            good = sorted(known, key=with_fragments)[:_GOOD] + sorted(known, key=without_fragments)[:_GOOD]
            guess = Guess(self._judge, known, self.best)
            for _ in range(_ROUNDS):
                near = self._near([*(item.plan for item in good), *hopeful], chance)
                promise = guess.promise(near).tolist() if near else []
                hopeful = [
                    near[index] for index in sorted(range(len(near)), key=lambda item: -promise[item])[:_HOPEFUL]
                ]
            for plan in hopeful[:_AT_ONCE]:
                self._note(self._judge.score(plan, better_than=self.best))
            self._settle()
            quiet = 0 if hopeful else quiet + 1
            hopeful = hopeful[_AT_ONCE:]

    def _near(self, plans: Sequence[Plan], chance: random.Random) -> list[Plan]:
        """Plans that were not asked: some of these with changes, or two of them mixed by layers."""
        found = {plan: None for plan in plans if plan not in self._asked}
        for _ in range(_CANDIDATES):
            plan = chance.choice(plans)
            if chance.random() < 0.3:
                other = chance.choice(plans)
                plan = tuple(chance.choice(pair) for pair in zip(plan, other, strict=True))
            else:
                for _ in range(chance.randint(1, 3)):
                    plan = self._moved(plan, self._any_move(plan, chance))
            if plan not in self._asked and self._judge.allows(plan):
                found[plan] = None
        return list(found)

    def _any_move(self, plan: Plan, chance: random.Random) -> _Move:
        """As likely of one layer as of several."""
        index = chance.randrange(len(plan))
        return chance.choice(self._moves(plan)) if chance.random() < 0.3 else ((index,), chance.choice(self._modes))

    def _note(self, item: Scored) -> Scored:
        known = self._asked.get(item.plan)
        if known is None or known.pool_bytes is None:
            self._asked[item.plan] = item
        if self.best is None or item.rank < self.best.rank:
            self.best = item
        self._progress(self._judge.asked)
        return item

    def _scored(self, plan: Plan) -> Scored | None:
        if not self._judge.allows(plan):
            return None
        return self._note(self._judge.score(plan))

    def _starts(self, also: Iterable[Plan]) -> Iterator[Plan]:
        """Each mode in all layers, plans of others, and the fastest modes mixed with those that hold less."""
        uniforms = [uniform(mode, self._judge.network) for mode in self._modes]
        yield from uniforms
        yield from also
        ordered = sorted((self._judge.score(plan) for plan in uniforms if self._judge.allows(plan)), key=_time)
        fitting = [item for item in ordered if item.fits]
        faster = [item for item in ordered if not item.fits and not item.found.crashes]
        pairs = [(fast, slow) for slow in fitting[:2] for fast in faster if _time(fast) < _time(slow)]
        for fast, slow in pairs[:_PAIRS]:
            for backwards in (False, True):
                plan = fewest_slow(self._judge, fast.plan, slow.plan, backwards=backwards)
                if plan is None:
                    break
                yield plan

    def _improve(self, start: Scored, stop: int, rank: Callable[[Scored], Any]) -> Scored:
        """The first change that helps is made, until none does. What is faster than the best is asked whether it
        fits."""
        here, chance, changed = start, random.Random(0), True
        while changed and self._judge.asked < stop:
            changed = False
            moves = self._moves(here.plan)
            chance.shuffle(moves)
            for move in moves:
                if self._judge.asked >= stop:
                    break
                plan = self._moved(here.plan, move)
                if plan == here.plan or not self._judge.allows(plan):
                    continue
                found = self._note(self._judge.score(plan, better_than=here if rank is with_fragments else self.best))
                if rank(found) < rank(here):
                    here, changed = found, True
                    break
        return here

    def _moves(self, plan: Plan) -> list[_Move]:
        """Of one layer, of a row of layers, of all with the same mode; of two that change places, of all that move on
        by one; and of a prefetch."""
        found: list[_Move] = []
        for layers in self._judge.stages:
            rows: list[tuple[int, ...]] = [(index,) for index in layers]
            for length in _lengths(len(layers)):
                rows += [layers[first : first + length] for first in range(0, len(layers) - length + 1, length)]
            found += [(row, mode) for row in rows for mode in self._modes]
            found += [
                (index, other) for index in layers for other in layers if index < other and plan[index] != plan[other]
            ]
            if len({plan[index] for index in layers}) > 1:
                found += [(layers, 1), (layers, -1)]
        for known in dict.fromkeys(plan):
            alike = tuple(index for index, mode in enumerate(plan) if mode == known)
            found += [(alike, mode) for mode in self._modes]
        for atom in entries(plan):
            if atom.kind == "swap":
                found += [(atom, prefetch) for prefetch in _nearby(atom.prefetch)]
        return found

    def _moved(self, plan: Plan, move: _Move) -> Plan:
        what, to = move
        changed = list(plan)
        if isinstance(what, Atom):
            new = Atom("swap", what.path, to)
            changed = [frozenset(new if item == what else item for item in mode) for mode in plan]
        elif isinstance(what, int):
            changed[what], changed[to] = plan[to], plan[what]
        elif isinstance(to, int):
            for place, index in enumerate(what):
                changed[index] = plan[what[(place + to) % len(what)]]
        else:
            for index in what:
                changed[index] = to
        return self._judge.fitted(changed)


def _time(item: Scored) -> float:
    return item.found.step_us


def _lengths(count: int) -> list[int]:
    """Of rows of layers: 2, 4, 8, up to half of them."""
    return [length for length in (2, 4, 8, 16, 32) if length <= count // 2]


def _nearby(prefetch: int) -> list[int]:
    return [number for number in (max(1, prefetch // 2), prefetch * 2) if number != prefetch]
