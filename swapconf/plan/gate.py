"""PLANNED -> RIVALS: simple strategies that are faster than a plan and might fit, though they are not predicted to.

What true runs taught of one plan, that it needs more than was predicted, is taken to hold for all, and where
MindSpore's own order is not known a prediction may be far too high. So before a plan is answered that is slower than
what people use today, a dry run of that decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.judge import NOISE, Scored
from swapconf.plan.modes import KEEP, Plan, uniform
from swapconf.plan.planned import Planned, verdict
from swapconf.upstream.launch_orders import doubt

MOST_RUNS = 2


def rivals(planned: Planned, *, is_refuted: bool = False) -> Iterator[tuple[str, Plan]]:
    """(name, plan), the fastest first; at most two, as each takes dry runs. ``is_refuted``: the plan does not truly
    fit, so that anything that does is better."""
    is_held = planned.chosen.fits and not is_refuted
    found = sorted(
        ((name, item) for name, item in planned.simple.items() if _is_rival(planned, item, is_held)),
        key=lambda pair: pair[1].cost_us,
    )
    for name, item in found[:MOST_RUNS]:
        yield name, item.plan


def _is_rival(planned: Planned, item: Scored, is_held: bool) -> bool:
    """``is_held``: the plan fits, so that a rival has to be faster. It is asked for in MindSpore's own order first, as
    far as that is known."""
    judge, chosen = planned.judge, planned.chosen
    if item.found.crashes or not judge.allows(item.plan) or judge.host_over_bytes(item.found):
        return False
    if is_held and (item.fits or item.found.step_us >= chosen.found.step_us * (1 - NOISE)):
        return False
    judge.settle(item.plan)
    nothing = judge.pool_bytes(uniform(KEEP, judge.network))
    least = [
        pool - doubt(way.order, way.source.mindspore, way.source.level) * max(none - pool, 0)
        for pool, none, way in zip(judge.pool_bytes(item.plan), nothing, judge.ways(item.plan), strict=True)
    ]
    return not replace(judge.limits, learned_bytes=()).over_bytes(least)


def instead(planned: Planned, plan: Plan, found: Sequence[ConfirmedRank]) -> Planned:
    """The same with a rival in place of the plan; that needs what its true run needed."""
    taught = tuple(rank.pool_bytes - rank.predicted_pool_bytes for rank in found)
    judge = planned.judge.under(replace(planned.judge.limits, learned_bytes=taught))
    chosen = judge.score(plan)
    return replace(planned, judge=judge, chosen=chosen, verdict=verdict(judge, chosen), fastest=None)
