"""LAYOUTS + WORLD -> FOUND: the layouts that a step is fastest with, without running or planning all of them.

A layout is left out where it is proven that it cannot be the best: its layers alone hold more than a card may, its
compute alone takes longer than another layout with its strategy, or its step without any strategy does. What is left is
planned in full, the most promising first. The YAML's own layout always is, before others are run, so that nothing that
is found is worse.
Work is counted in dry runs and plans, so the same input gives the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Protocol

from swapconf.layout.bounds import fastest, kind, least_bytes, least_us, likeness, of_others, tells, told_apart
from swapconf.layout.facts import Facts
from swapconf.layout.found import Fate, Final, Found, Lost, Tried, ordered
from swapconf.layout.layout import Layout
from swapconf.layout.runs import Refused
from swapconf.timing.cost import Hardware

AT_ONCE = 2  # layouts that are run before what they tell is looked at: the fewer, the more are left out by the first
SMALL_AT_ONCE = 8  # small models
NEAR = 0.1  # of a step: what is so near is planned as well, as far as plans are left, since it may be called equal
FAR = 0.25  # of the budget: what the leanest of a few plans is over by that much no plan makes fit
MOST_RUNS, MOST_PLANS = 40, 5  # ranks to dry-run, and layouts to plan in full beside the YAML's own
LAST = 3  # of those planned, the best: all their stages are really run


class World(Protocol):
    """What can be asked of layouts."""

    def run(self, layouts: Sequence[Layout], *, truly: bool = False) -> tuple[list[Tried], list[Refused]]:
        """Dry-run what cannot be composed of them, with ``truly`` all, and try a few strategies on each."""

    def plan(self, layout: Layout) -> Final:
        """The best strategy of one that was run."""

    def ranks(self, layouts: Sequence[Layout], *, truly: bool = False) -> int:
        """How many ranks `run` would dry-run."""

    def small(self, layouts: Sequence[Layout]) -> list[Facts]:
        """What dry runs of small models tell that are cut like these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """What bounds a search. ``usable_bytes``: of a card; ``hardware``: what it is, with its links."""

    usable_bytes: int
    hardware: Hardware
    runs: int = MOST_RUNS
    plans: int = MOST_PLANS


@dataclass(kw_only=True)
class Search:
    """``own``: the YAML's layout, None where it is not for these cards; then what is ``nearest`` to it is run and
    planned first. ``told``: called with what is known after each batch of runs and each plan. ``refused``: what is
    known not to be trainable before."""

    world: World
    layouts: Sequence[Layout]
    own: Layout | None
    limit: Limit
    nearest: Layout | None = None
    refused: Sequence[Refused] = ()
    told: Callable[[Found], None] = lambda found: None
    _tried: dict[Layout, Tried] = field(default_factory=dict)
    _finals: dict[Layout, Final] = field(default_factory=dict)
    _lost: dict[Layout, Lost] = field(default_factory=dict)
    _small: list[Facts] = field(default_factory=list)
    _asked_small: list[Layout] = field(default_factory=list)
    _ran: int = 0
    _runs_more: bool = True

    def run(self) -> Found:
        """An interrupt ends the runs, and the best of what was run is planned; another one ends that, too."""
        self._refuse(self.refused)
        interrupted, most = False, self.limit.plans
        try:
            self._run_all()
        except KeyboardInterrupt:
            interrupted, most, self._runs_more = True, 1, False
        try:
            interrupted = self._plan_all(most) or interrupted
        except KeyboardInterrupt:
            interrupted = True
        return self._found(interrupted=interrupted)

    @property
    def best_us(self) -> float:
        """Of all that is known to fit."""
        known = [item.coarse_us for item in self._tried.values()] + [item.cost_us for item in self._finals.values()]
        return min(known, default=inf)

    # --- which are run ------------------------------------------------------------------------------------------------

    def _run_all(self) -> None:
        first = self.own or self.nearest
        waiting = [layout for layout in self.layouts if layout != first]
        if first is not None:
            self._run([first], truly=first == self.own)
            if first in self._tried and self._plan(first):  # the better the best that is known, the fewer are run
                raise KeyboardInterrupt
        while waiting := self._not_proven_worse(waiting):
            if len(waiting) > AT_ONCE and self._run_small(waiting):
                continue
            chosen = self._affordable(self._most_promising(waiting))
            if not chosen:
                self._lost.update((layout, Lost(layout=layout, fate=Fate.NOT_RUN)) for layout in waiting)
                break
            self._run(chosen)
            waiting = [layout for layout in waiting if layout not in chosen]
        self._shift()

    def _run_small(self, waiting: Sequence[Layout]) -> bool:
        """Whether small models were run: of each kind of layers that is not known yet, then of those whose steps end
        otherwise, the most promising first."""
        chosen = told_apart(waiting, self._asked_small, self._facts, self.limit.hardware)[:SMALL_AT_ONCE]
        self._asked_small += chosen
        self._small += self.world.small(chosen) if chosen else []
        return bool(chosen)

    @property
    def _facts(self) -> list[Facts]:
        return [*(item.facts for item in self._tried.values()), *self._small]

    def _shift(self) -> None:
        """From the best layout on to those with other layers by stage, as long as one of them is better."""
        while self._tried:
            best = min(self._tried.values(), key=lambda item: (item.coarse_us, item.floor_us, item.layout))
            near = [replace(best.layout, deal=deal) for deal in best.shifts]
            waiting = self._not_proven_worse(one for one in near if one not in self._tried and one not in self._lost)
            chosen = self._affordable(waiting)
            if not chosen:
                self._lost.update((layout, Lost(layout=layout, fate=Fate.NOT_RUN)) for layout in waiting)
                return
            self._run(chosen)

    def _run(self, layouts: Sequence[Layout], *, truly: bool = False) -> None:
        tried, refused = self.world.run(layouts, truly=truly)
        self._tried.update((item.layout, item) for item in tried)
        self._ran += sum(item.ranks for item in tried)
        self._refuse(refused)
        self.told(self._found())

    def _refuse(self, refused: Iterable[Refused]) -> None:
        for item in refused:
            fate = Fate.CHECK if item.rule else Fate.REFUSED
            self._tried.pop(item.layout, None)
            self._lost[item.layout] = Lost(layout=item.layout, fate=fate, told=item.rule or item.why)

    def _not_proven_worse(self, waiting: Iterable[Layout]) -> list[Layout]:
        facts, left = self._facts, []
        for layout in waiting:
            held, us = least_bytes(layout, facts), least_us(layout, facts, self.limit.hardware)
            if held > self.limit.usable_bytes:
                self._lost[layout] = Lost(layout=layout, fate=Fate.TOO_LARGE, told=float(held))
            elif us >= self.best_us:
                self._lost[layout] = Lost(layout=layout, fate=Fate.COMPUTES, told=us)
            else:
                left.append(layout)
        return left

    def _most_promising(self, waiting: Sequence[Layout]) -> Iterator[Layout]:
        """First what tells most of others that are cut alike and not known yet; then one of each kind of layers that is
        not known, then what could be fastest."""
        facts = self._facts
        alike = {likeness(item.layout) for item in facts}
        telling = {likeness(one): one for one in sorted(waiting, key=tells) if likeness(one) not in alike}
        if telling:
            yield from telling.values()
            return
        best_first = fastest(waiting, facts, self.limit.hardware)
        new = of_others(best_first, kind, [item.layout for item in facts])
        yield from new
        yield from (layout for layout in best_first if layout not in new)

    def _affordable(self, layouts: Iterable[Layout]) -> list[Layout]:
        """As many as are run at once, as far as runs are left, those among them that the last ones will take."""
        chosen: list[Layout] = []
        ranks, composed = 0, list[int]()
        for layout in layouts:
            more = self.world.ranks([*chosen, layout]) - ranks
            without = self.world.ranks([layout], truly=True) - more
            if self._ran + ranks + more + self._reserved([*composed, without]) <= self.limit.runs:
                chosen.append(layout)
                ranks += more
                composed.append(without)
            if len(chosen) == AT_ONCE:
                break
        return chosen

    def _reserved(self, more: Sequence[int] = ()) -> int:
        """Ranks that it may take to run all stages of the last ones. ``more``: composed stages of layouts to come."""
        return sum(sorted([*(item.composed for item in self._tried.values()), *more])[-LAST:])

    # --- which are planned --------------------------------------------------------------------------------------------

    def _plan_all(self, most: int) -> bool:
        """Whether it was interrupted. ``most``: layouts beside the YAML's own."""
        for _ in range(most):
            left = [item for item in self._open() if item.floor_us < self.best_planned_us]
            left = left or [item for item in self._open() if item.floor_us <= self.best_planned_us * (1 + NEAR)]
            if not left:
                break
            if self._plan(min(left, key=lambda item: (item.coarse_us, item.floor_us, item.layout)).layout):
                return True
        if self._run_last():
            return True
        for item in self._unplanned():
            if self._is_far_over(item):
                self._lost[item.layout] = Lost(layout=item.layout, fate=Fate.OVER, told=item.over_bytes)
                continue
            is_slower = item.floor_us >= self.best_planned_us
            fate, us = (Fate.FLOOR, item.floor_us) if is_slower else (Fate.COARSE, item.coarse_us)
            self._lost[item.layout] = Lost(layout=item.layout, fate=fate, told=us)
        return False

    def _run_last(self) -> bool:
        """What was composed of the best is run, and they are planned by that. Whether it was interrupted."""
        while True:
            last = ordered(self._finals.values())[:LAST]
            composed = next((item.layout for item in last if self._may_run(item.layout)), None)
            if composed is None:
                return False
            if not self._run_truly(composed):
                del self._finals[composed]
            elif self._plan(composed):
                return True

    def _may_run(self, layout: Layout) -> bool:
        """Whether some of it is composed, and runs are left for that."""
        missing = self._tried[layout].composed
        return self._runs_more and 0 < missing <= self.limit.runs - self._ran

    def _run_truly(self, layout: Layout) -> bool:
        """Whether it can be."""
        self._run([layout], truly=True)
        return layout in self._tried

    def _open(self) -> list[Tried]:
        """What may be worth a plan."""
        return [item for item in self._unplanned() if not self._is_far_over(item)]

    def _unplanned(self) -> list[Tried]:
        return [item for layout, item in self._tried.items() if layout not in self._finals]

    def _is_far_over(self, item: Tried) -> bool:
        """Where something else fits."""
        return isfinite(self.best_planned_us) and item.over_bytes > FAR * self.limit.usable_bytes

    @property
    def best_planned_us(self) -> float:
        return min((item.cost_us for item in self._finals.values()), default=inf)

    def _plan(self, layout: Layout) -> bool:
        """Whether it was interrupted. The first ones will most likely be the best, so that all their stages are run
        before. Other layers by stage that promise more are one more layout."""
        is_early = sum(not self._tried[item].composed for item in self._finals) < LAST
        if is_early and self._may_run(layout) and not self._run_truly(layout):
            return False
        final = self.world.plan(layout)
        self._finals[layout] = final
        self.told(self._found())
        if final.deal is not None and not final.is_interrupted:
            other = replace(layout, deal=final.deal)
            is_new = other not in self._tried and other not in self._lost
            if is_new and self._affordable([other]):
                self._run([other])
        return final.is_interrupted

    def _found(self, *, interrupted: bool = False) -> Found:
        if interrupted:
            unknown = [layout for layout in self.layouts if layout not in self._tried and layout not in self._lost]
            self._lost.update((layout, Lost(layout=layout, fate=Fate.NOT_RUN)) for layout in unknown)
        return Found(
            finals=ordered(self._finals.values()),
            lost=tuple(self._lost.values()),
            tried=tuple(self._tried.values()),
            ran=self._ran,
            is_interrupted=interrupted,
        )
