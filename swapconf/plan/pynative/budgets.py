"""NATIVE PLANNED -> FRONTIER: what the plan of every budget takes.

Budgets between what the lowest simple strategy needs and what nothing of it needs are planned for, the middle before
the quarters, as far as the work goes. So a point is what a plan for its memory is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from swapconf.plan.frontier import Candidate, Frontier, FrontierPoint, PointEntry, front
from swapconf.plan.planned import Verdict
from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.menu import uniform
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativePlan
from swapconf.plan.pynative.planned import Family, NativePlanned, plan, verdict
from swapconf.plan.pynative.simple import first_layers, simple

BUDGETS = 32  # as far as ASKED goes
ASKED = 600  # plans, over all budgets, beside those that are known


def frontier_of(
    planned: NativePlanned, tried: Sequence[Family], progress: Callable[[], None] = lambda: None
) -> Frontier[NativePlan]:
    """``tried``: all families, whatever the plan was searched in. ``progress``: called after each budget."""
    judge = planned.judge
    keep = uniform(judge, KEEP)
    found = [keep, planned.chosen, *_simple(judge), *_plans(judge, tried, progress)]
    candidates = [_candidate(judge, made) for made in dict.fromkeys(found)]
    holding = [one for one in candidates if judge.under(one.bare_bytes).fits(one.plan)]
    on_it = [made for _, made in front(holding, judge.needed_bytes)]
    fitting = filter(judge.fits, [planned.chosen, *on_it])
    return Frontier(
        points=tuple(point_of(judge, made) for made in on_it),
        chosen=point_of(judge, min(fitting, key=judge.cost_us, default=planned.chosen)),
        simple=tuple(point_of(judge, made, name) for name, made in simple(judge).items()),
        nothing=point_of(judge, keep),
        budget_bytes=judge.limits.budget_bytes,
        num_layers=judge.num_layers,
        has_workspace=False,
    )


def chosen_again(planned: NativePlanned, frontier: Frontier[NativePlan]) -> NativePlanned:
    """The same after other budgets were looked at: what is better than the plan takes its place."""
    best = frontier.chosen.plan
    if best == planned.chosen:
        return planned
    return replace(planned, chosen=best, verdict=verdict(planned.judge, best))


def _simple(judge: NativeJudge) -> Iterator[NativePlan]:
    """From none of the first layers recomputed or swapped to all: none may fit in a budget and be faster than the
    frontier has there."""
    for mode in (FULL, SWAP):
        yield from filter(judge.allows, first_layers(judge, mode))


def _plans(judge: NativeJudge, tried: Sequence[Family], progress: Callable[[], None]) -> Iterator[NativePlan]:
    """Of each budget, and what needs least."""
    most = judge.asked + ASKED
    high = judge.needed_bytes(uniform(judge, KEEP)) - 1
    low = min(high, *(judge.needed_bytes(made) for made in _simple(judge)))
    known: list[range] = []  # budgets whose plan is known
    for number in _coarse_first(BUDGETS):
        budget = low + (high - low) * number // BUDGETS
        while judge.asked < most and not any(budget in those for those in known):
            made = plan(judge.under(budget), tried)
            yield made.chosen
            if made.is_interrupted:
                return
            needed = 0 if made.verdict is Verdict.IMPOSSIBLE else judge.needed_bytes(made.chosen)
            known.append(range(needed, budget + 1))
            if not number and needed:  # there may be something that needs still less
                budget = needed - 1
        progress()


def _coarse_first(count: int) -> list[int]:
    """From 0 to ``count``: the ends, the middle, the quarters, and so on."""
    found = [0, count]
    while count > 1:
        found += range(count // 2, found[1], count)
        count //= 2
    return found


def _candidate(judge: NativeJudge, made: NativePlan) -> Candidate[NativePlan]:
    """Placed, as the search has placed most of them."""
    return Candidate(
        plan=made, step_us=judge.time(made).step_us, num_entries=len(made.entries), bare_bytes=judge.needed_bytes(made)
    )


def point_of(judge: NativeJudge, made: NativePlan, name: str = "") -> FrontierPoint[NativePlan]:
    """A plan on the axes of the frontier, whether it fits or not."""
    return FrontierPoint(
        plan=made,
        name=name,
        entries=entries_of(made),
        needed_bytes=judge.needed_bytes(made),
        used_bytes=judge.used_bytes(made),
        step_us=judge.time(made).step_us,
        nominal_us=judge.nominal(made).step_us,
        host_bytes=judge.host_bytes(made),
        moved_bytes=judge.moved_bytes(made),
    )


def entries_of(made: NativePlan) -> tuple[PointEntry, ...]:
    return tuple(
        PointEntry(path=entry.path, prefetch=made.prefetch if entry.is_swap else None, layers=entry.layers)
        for entry in made.entries
    )
