"""LAYOUTS + WORLD -> FOUND: the layouts that a step is fastest with, without running or planning all of them.

A layout is left out where it is proven that it cannot be the best: its layers alone hold more than a card may, its
compute alone takes longer than another layout with its strategy, or its step without any strategy does. What is left is
planned in full, the most promising first. The YAML's own layout always is, so that nothing that is found is worse.
Work is counted in dry runs and plans, so the same input gives the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import Protocol

from swapconf.layout.bounds import kind, least_bytes, least_us
from swapconf.layout.facts import Facts
from swapconf.layout.layout import Deal, Layout
from swapconf.layout.runs import Refused
from swapconf.words.phrases import mark

AT_ONCE = 4  # layouts that are run before what they tell is looked at
NEAR = 0.1  # of a step: what is so near is planned as well, as far as plans are left, since it may be called equal
MOST_RUNS, MOST_PLANS = 40, 5  # ranks to dry-run, and layouts to plan in full beside the YAML's own


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A layout that was run.

    Attributes:
        ranks: How many were dry-run for it, or read from the cache.
        floor_us: Its step without a strategy, which no strategy gets below.
        coarse_us: Its step with the best coarse plan; infinite where none fits.
    """

    layout: Layout
    facts: Facts
    ranks: int
    floor_us: float
    coarse_us: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Final:
    """A layout that was planned in full. ``deal``: other layers by stage that promise more, None for none."""

    layout: Layout
    cost_us: float
    deal: Deal | None = None
    is_interrupted: bool = False


class World(Protocol):
    """What can be asked of layouts."""

    def run(self, layouts: Sequence[Layout]) -> tuple[list[Tried], list[Refused]]:
        """Dry-run them and try a few strategies on each."""

    def plan(self, layout: Layout) -> Final:
        """The best strategy of one that was run."""

    def ranks(self, layout: Layout) -> int:
        """How many ranks of it would be dry-run."""


class Fate(Enum):
    """Why a layout is not among those that were planned; the text goes on "...: N layouts"."""

    CHECK = mark("`check` finds an error")
    REFUSED = mark("MindSpore or mindformers refuses them, or a run failed")
    TOO_LARGE = mark("weights, gradients and optimizer state alone take more than the budget")
    COMPUTES = mark("their compute alone takes longer than the best step")
    FLOOR = mark("even without swap and recompute their step is longer than the best")
    COARSE = mark("their best coarse plan is slower, and they were not planned in full")
    NOT_RUN = mark("not run, as the number of dry runs was reached or the search ended")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """``told``: what is known of it: bytes, microseconds, or words."""

    layout: Layout
    fate: Fate
    told: float | str = ""


@dataclass(frozen=True, kw_only=True)
class Found:
    """``finals``: planned in full, the fastest first; what does not fit is at the end. ``ran``: ranks."""

    finals: tuple[Final, ...] = ()
    lost: tuple[Lost, ...] = ()
    tried: tuple[Tried, ...] = ()
    ran: int = 0
    is_interrupted: bool = False

    def having(self, final: Final) -> Found:
        """The same with another plan of one layout."""
        others = [item for item in self.finals if item.layout != final.layout]
        return replace(self, finals=_ordered([*others, final]))


def _ordered(finals: Iterable[Final]) -> tuple[Final, ...]:
    """The fastest first; what does not fit is at the end."""
    return tuple(sorted(finals, key=lambda item: (item.cost_us, item.layout)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """What bounds a search. ``usable_bytes``: of a card; ``matrix_tflops``: of its matrix unit."""

    usable_bytes: int
    matrix_tflops: float
    runs: int = MOST_RUNS
    plans: int = MOST_PLANS


@dataclass(kw_only=True)
class Search:
    """``own``: the YAML's layout, None where it is not for these cards. ``told``: called with what is known after each
    batch of runs and each plan. ``refused``: what is known not to be trainable before."""

    world: World
    layouts: Sequence[Layout]
    own: Layout | None
    limit: Limit
    refused: Sequence[Refused] = ()
    told: Callable[[Found], None] = lambda found: None
    _tried: dict[Layout, Tried] = field(default_factory=dict)
    _finals: dict[Layout, Final] = field(default_factory=dict)
    _lost: dict[Layout, Lost] = field(default_factory=dict)
    _ran: int = 0

    def run(self) -> Found:
        """An interrupt ends the runs, and the best of what was run is planned; another one ends that, too."""
        self._refuse(self.refused)
        interrupted, most = False, self.limit.plans
        try:
            self._run_all()
        except KeyboardInterrupt:
            interrupted, most = True, 1
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
        waiting = [layout for layout in self.layouts if layout != self.own]
        if self.own is not None:
            self._run([self.own])
        while waiting := self._not_proven_worse(waiting):
            chosen = self._affordable(self._most_promising(waiting))
            if not chosen:
                self._lost.update((layout, Lost(layout=layout, fate=Fate.NOT_RUN)) for layout in waiting)
                break
            self._run(chosen)
            waiting = [layout for layout in waiting if layout not in chosen]

    def _run(self, layouts: Sequence[Layout]) -> None:
        tried, refused = self.world.run(layouts)
        self._tried.update((item.layout, item) for item in tried)
        self._ran += sum(item.ranks for item in tried)
        self._refuse(refused)
        self.told(self._found())

    def _refuse(self, refused: Iterable[Refused]) -> None:
        for item in refused:
            fate = Fate.CHECK if item.rule else Fate.REFUSED
            self._lost[item.layout] = Lost(layout=item.layout, fate=fate, told=item.rule or item.why)

    def _not_proven_worse(self, waiting: Iterable[Layout]) -> list[Layout]:
        facts, left = [item.facts for item in self._tried.values()], []
        for layout in waiting:
            held, us = least_bytes(layout, facts), least_us(layout, facts, self.limit.matrix_tflops)
            if held > self.limit.usable_bytes:
                self._lost[layout] = Lost(layout=layout, fate=Fate.TOO_LARGE, told=float(held))
            elif us >= self.best_us:
                self._lost[layout] = Lost(layout=layout, fate=Fate.COMPUTES, told=us)
            else:
                left.append(layout)
        return left

    def _most_promising(self, waiting: Sequence[Layout]) -> Iterator[Layout]:
        """First one of each kind of layers that is not known yet, then what could be fastest."""
        facts = [item.facts for item in self._tried.values()]
        known = {kind(item.layout) for item in self._tried.values()}
        ordered = sorted(waiting, key=lambda one: (least_us(one, facts, self.limit.matrix_tflops), one.stages, one))
        later = []
        for layout in ordered:
            if kind(layout) in known:
                later.append(layout)
            else:
                known.add(kind(layout))
                yield layout
        yield from later

    def _affordable(self, layouts: Iterable[Layout]) -> list[Layout]:
        """As many as are run at once, as far as runs are left."""
        chosen: list[Layout] = []
        left = self.limit.runs - self._ran
        for layout in layouts:
            ranks = self.world.ranks(layout)
            if ranks <= left:
                chosen.append(layout)
                left -= ranks
            if len(chosen) == AT_ONCE:
                break
        return chosen

    # --- which are planned --------------------------------------------------------------------------------------------

    def _plan_all(self, most: int) -> bool:
        """Whether it was interrupted. ``most``: layouts beside the YAML's own."""
        if self.own in self._tried and self._plan(self.own):
            return True
        for _ in range(most):
            left = [item for item in self._open() if item.floor_us < self.best_planned_us]
            left = left or [item for item in self._open() if item.floor_us <= self.best_planned_us * (1 + NEAR)]
            if not left:
                break
            if self._plan(min(left, key=lambda item: (item.coarse_us, item.floor_us, item.layout)).layout):
                return True
        for item in self._open():
            is_slower = item.floor_us >= self.best_planned_us
            fate, us = (Fate.FLOOR, item.floor_us) if is_slower else (Fate.COARSE, item.coarse_us)
            self._lost[item.layout] = Lost(layout=item.layout, fate=fate, told=us)
        return False

    def _open(self) -> list[Tried]:
        return [item for layout, item in self._tried.items() if layout not in self._finals]

    @property
    def best_planned_us(self) -> float:
        return min((item.cost_us for item in self._finals.values()), default=inf)

    def _plan(self, layout: Layout) -> bool:
        """Whether it was interrupted. Other layers by stage that promise more are one more layout."""
        final = self.world.plan(layout)
        self._finals[layout] = final
        self.told(self._found())
        if final.deal is not None and not final.is_interrupted:
            other = replace(layout, deal=final.deal)
            is_new = other not in self._tried and other not in self._lost
            if is_new and self.world.ranks(other) <= self.limit.runs - self._ran:
                self._run([other])
        return final.is_interrupted

    def _found(self, *, interrupted: bool = False) -> Found:
        if interrupted:
            unknown = [layout for layout in self.layouts if layout not in self._tried and layout not in self._lost]
            self._lost.update((layout, Lost(layout=layout, fate=Fate.NOT_RUN)) for layout in unknown)
        return Found(
            finals=_ordered(self._finals.values()),
            lost=tuple(self._lost.values()),
            tried=tuple(self._tried.values()),
            ran=self._ran,
            is_interrupted=interrupted,
        )
