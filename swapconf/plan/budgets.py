"""PLANNED -> FRONTIER of graph mode: plans are searched at other budgets, too.

All that was asked while a plan was searched is looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from swapconf.plan.frontier import Candidate, Frontier, FrontierPoint, PointEntry, front
from swapconf.plan.judge import Judge
from swapconf.plan.modes import KEEP, Plan, entries, uniform
from swapconf.plan.planned import Planned, needed_bytes
from swapconf.plan.search import Search

ASKED = 400  # plans, over all budgets
_BUDGETS = 8
_ROUNDS = 3  # of asking for the memory of what lies on the front
_ANYTHING = 1 << 62


def frontier_of(
    planned: Planned, asked: int = ASKED, progress: Callable[[int], None] = lambda asked: None
) -> Frontier[Plan]:
    """``asked``: how many plans may be asked for beside those that are known. ``progress``: called with how many plans
    were asked for so far."""
    judge = planned.judge.under(replace(planned.judge.limits, budget_bytes=_ANYTHING))
    nothing = point_of(judge, uniform(KEEP, judge.network))
    known = front_of(judge)
    low = min((needed for needed, _ in known), default=nothing.needed_bytes)
    modes = list(dict.fromkeys([*planned.modes, *planned.chosen.plan]))
    for number in range(_BUDGETS):
        budget = low + (nothing.needed_bytes - low) * number // _BUDGETS
        there = judge.under(replace(judge.limits, budget_bytes=budget))
        Search(there, modes, progress).run(asked // _BUDGETS, [plan for needed, plan in known if needed <= budget])
    for scored in planned.simple.values():
        judge.settle(scored.plan)
    return Frontier(
        points=tuple(point_of(judge, plan) for plan in _settled_front(judge)),
        chosen=point_of(judge, planned.chosen.plan),
        simple=tuple(
            point_of(judge, scored.plan, name) for name, scored in planned.simple.items() if not scored.found.crashes
        ),
        nothing=nothing,
        budget_bytes=planned.judge.limits.budget_bytes,
        num_layers=len(judge.layers),
        has_workspace=True,
    )


def front_of(judge: Judge) -> list[tuple[int, Plan]]:
    """Of all that was evaluated."""
    return front(_candidates(judge, judge.seen), lambda plan: needed_bytes(judge, plan))


def _settled_front(judge: Judge) -> list[Plan]:
    """By what plans need in MindSpore's own order alone, so that each point is what planning for its budget would tell
    of it. What comes to the front as others turn out to need more is asked for, too."""
    for _ in range(_ROUNDS):
        unsure = [plan for _, plan in front_of(judge) if not judge.is_settled(plan)]
        if not unsure:
            break
        for plan in unsure:
            judge.settle(plan)
    return [plan for _, plan in front(_candidates(judge, judge.settled), lambda plan: needed_bytes(judge, plan))]


def _candidates(judge: Judge, plans: Iterable[Plan]) -> Iterator[Candidate[Plan]]:
    """Those of them that could be chosen."""
    for plan in plans:
        found = judge.evaluation(plan)
        if not judge.host_over_bytes(found) and not found.crashes and judge.allows(plan):
            bare = judge.limits.needed_bytes(judge.used_bytes(plan))
            yield Candidate(plan=plan, step_us=found.step_us, num_entries=len(entries(plan)), bare_bytes=bare)


def point_of(judge: Judge, plan: Plan, name: str = "") -> FrontierPoint[Plan]:
    """A plan on the axes of the frontier, whether it fits or not."""
    found = judge.evaluation(plan)
    return FrontierPoint(
        plan=plan,
        name=name,
        entries=entries_of(plan),
        needed_bytes=needed_bytes(judge, plan),
        used_bytes=max(rank.used_peak_bytes for rank in found.ranks),
        step_us=found.step_us,
        nominal_us=judge.nominal(plan).us,
        host_bytes=judge.host_bytes(found),
        moved_bytes=found.moved_bytes,
    )


def entries_of(plan: Plan) -> tuple[PointEntry, ...]:
    return tuple(
        PointEntry(
            path=atom.path,
            prefetch=atom.prefetch if atom.kind == "swap" else None,
            layers=tuple(index for index, mode in enumerate(plan) if atom in mode),
        )
        for atom in entries(plan)
    )
