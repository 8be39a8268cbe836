"""PLANNED -> FRONTIER: what a step takes at the least for every budget, and where the simple strategies lie.

All that was asked while a plan was searched is looked at first. Where it is known that others hold less and are faster,
where MindSpore's pool puts blocks is not asked, as that takes longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from swapconf.plan.judge import Judge
from swapconf.plan.modes import KEEP, Atom, Plan, entries, uniform
from swapconf.plan.planned import Planned, needed_bytes
from swapconf.plan.search import Search

ASKED = 400  # plans, over all budgets
_BUDGETS = 8
_FRACTION = 0.0002  # of a step, and of memory: less is no point of its own
_LOOSE = 1.02  # fragments that every plan has, of what it uses, as far as is known before any was placed
_ANYTHING = 1 << 62


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierPoint:
    """A plan and what it takes.

    Attributes:
        name: Of a simple strategy; "" of others.
        needed_bytes: The least budget of a card that it fits in: the most of all ranks, with fragments and all else
            that limits count. ``used_bytes``: the highest used peak.
        step_us: With the slower link; ``nominal_us``: with the link as told.
        host_bytes: Of the host that holds most.
    """

    plan: Plan
    name: str = ""
    needed_bytes: int
    used_bytes: int
    step_us: float
    nominal_us: float
    host_bytes: int
    moved_bytes: int

    @property
    def entries(self) -> tuple[Atom, ...]:
        return entries(self.plan)


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """What can be had.

    Attributes:
        points: Those that no other is better than, from the lowest memory and the longest step on.
        chosen: What was planned for ``budget_bytes``.
        simple: What people use today, whether it fits or not.
        nothing: Without swap and recompute.
    """

    points: tuple[FrontierPoint, ...]
    chosen: FrontierPoint
    simple: tuple[FrontierPoint, ...]
    nothing: FrontierPoint
    budget_bytes: int

    def change(self, point: FrontierPoint) -> float:
        """How much longer a step takes than without swap and recompute: 0.05 for 5 %."""
        return point.step_us / self.nothing.step_us - 1


def frontier_of(planned: Planned, asked: int = ASKED, progress: Callable[[int], None] = lambda asked: None) -> Frontier:
    """``asked``: how many plans may be asked for beside those that are known. ``progress``: called with how many plans
    were asked for so far."""
    judge = planned.judge.under(replace(planned.judge.limits, budget_bytes=_ANYTHING))
    nothing = point_of(judge, uniform(KEEP, judge.network))
    known = front(judge)
    low = min((needed for needed, _ in known), default=nothing.needed_bytes)
    modes = list(dict.fromkeys([*planned.modes, *planned.chosen.plan]))
    for number in range(_BUDGETS):
        budget = low + (nothing.needed_bytes - low) * number // _BUDGETS
        there = judge.under(replace(judge.limits, budget_bytes=budget))
        Search(there, modes, progress).run(asked // _BUDGETS, [plan for needed, plan in known if needed <= budget])
    return Frontier(
        points=tuple(point_of(judge, plan) for _, plan in front(judge)),
        chosen=point_of(judge, planned.chosen.plan),
        simple=tuple(
            point_of(judge, scored.plan, name) for name, scored in planned.simple.items() if not scored.found.crashes
        ),
        nothing=nothing,
        budget_bytes=planned.judge.limits.budget_bytes,
    )


def front(judge: Judge) -> list[tuple[int, Plan]]:
    """(bytes that it needs, plan) of what was evaluated and nothing else is better than, the slowest first. No two are
    as fast as one another. A plan that would be better only with fewer fragments than any other has is not placed."""
    found: list[tuple[int, Plan]] = []
    least, last_us, ratio = 2 * _ANYTHING, 0.0, _LOOSE
    for used, plan in _by_time(judge):
        if used * ratio >= least:
            continue
        needed = needed_bytes(judge, plan)
        ratio = min(ratio, needed / used)
        if needed >= least * (1 - _FRACTION):
            continue
        step_us = judge.evaluation(plan).step_us
        if found and step_us <= last_us * (1 + _FRACTION):
            found.pop()  # as fast, and needs less
        else:
            last_us = step_us
        least = needed
        found.append((needed, plan))
    return found[::-1]


def _by_time(judge: Judge) -> Iterator[tuple[int, Plan]]:
    """(bytes that it needs without fragments, plan) of what could be chosen, the fastest first."""
    found = []
    for number, plan in enumerate(judge.seen):
        evaluation = judge.evaluation(plan)
        if not judge.host_over_bytes(evaluation) and not evaluation.crashes and judge.allows(plan):
            found.append((evaluation.step_us, len(entries(plan)), number, plan))
    for *_, plan in sorted(found):
        yield judge.limits.needed_bytes(judge.used_bytes(plan)), plan


def point_of(judge: Judge, plan: Plan, name: str = "") -> FrontierPoint:
    """A plan on the axes of the frontier, whether it fits or not."""
    found = judge.evaluation(plan)
    return FrontierPoint(
        plan=plan,
        name=name,
        needed_bytes=needed_bytes(judge, plan),
        used_bytes=max(rank.used_peak_bytes for rank in found.ranks),
        step_us=found.step_us,
        nominal_us=judge.nominal(plan).us,
        host_bytes=judge.host_bytes(found),
        moved_bytes=found.moved_bytes,
    )
