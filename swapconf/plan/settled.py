"""JUDGE + ASKED PLANS -> SETTLED: the best plan by the memory that it needs in MindSpore's own order.

That order takes ten times as long to find out as all else of a plan, so it is asked of few. A judge learns from each
answer what plans like that need, so that what is not expected to fit is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swapconf.plan.judge import NOISE, Judge, Scored
from swapconf.plan.modes import Plan, entries, num_ranges

_RIVALS, _ROUNDS = 2, 5  # of each round two plans at most are asked for
_NEAR = 0.01  # of the budget


def settled(judge: Judge, best: Scored, plain: Iterable[Plan]) -> Scored:
    """The fastest plan that fits, said as plainly as it can be. First a few are asked for that are faster than ``best``
    and nearly fit, then what is expected to fit, the fastest first; where none of so many does, the best of them and
    of the ``plain`` ones is told, and not another whose memory is not known as well."""
    for item in sorted(_rivals(judge, best), key=_cost)[:_RIVALS]:
        judge.settle(item.plan)
    for _ in range(_ROUNDS):
        hopeful = best_of_all(judge, judge.score(best.plan))
        if not hopeful.fits:
            break
        plainer = _reduced(judge, hopeful)
        judge.settle(plainer.plan)
        if judge.score(plainer.plan).fits:
            return judge.score(plainer.plan)
        judge.settle(hopeful.plan)
    for item in sorted(map(judge.score, plain), key=_cost):
        judge.settle(item.plan)
        if judge.allows(item.plan) and judge.score(item.plan).fits:
            break
    return min((judge.score(made) for made in judge.settled if judge.allows(made)), key=lambda item: item.rank)


def best_of_all(judge: Judge, best: Scored) -> Scored:
    """Whatever was evaluated for another reason may be better than ``best``."""
    for made in _by_cost(judge):
        best = min(best, judge.score(made, better_than=best), key=lambda item: item.rank)
    return best


def _by_cost(judge: Judge) -> list[Plan]:
    """What was evaluated and is allowed, the fastest first, so that little is placed until one fits."""
    return sorted(filter(judge.allows, judge.seen), key=judge.cost_us)


def _cost(item: Scored) -> float:
    return item.cost_us


def _rivals(judge: Judge, best: Scored) -> Iterator[Scored]:
    for made in _by_cost(judge):
        if judge.cost_us(made) >= best.cost_us:
            break
        item = judge.score(made)
        is_near = item.over_bytes <= judge.limits.budget_bytes * _NEAR
        if is_near and not item.found.crashes and not judge.is_settled(made):
            yield item


def _reduced(judge: Judge, best: Scored) -> Scored:
    """Of what is as fast, that with the fewest entries, then with the fewest ranges of layers, then with the fewest
    bytes moved. Entries are left out, and gaps between their layers closed, as long as it stays as fast."""
    most_us = best.found.step_us * (1 + NOISE)
    here = best
    fast = [made for made in judge.seen if judge.allows(made) and judge.evaluation(made).step_us <= most_us]
    for made in sorted(fast, key=lambda made: _plainness(judge, made)):
        found = judge.score(made)
        if found.fits:
            here = found
            break
    changed = True
    while changed:
        changed = False
        for made in _plainer(judge, here.plan):
            if (
                judge.allows(made)
                and _plainness(judge, made) < _plainness(judge, here.plan)
                and judge.evaluation(made).step_us <= most_us
                and judge.score(made).fits
            ):
                here, changed = judge.score(made), True
                break
    return here


def _plainness(judge: Judge, made: Plan) -> tuple[int, int, int, float]:
    found = judge.evaluation(made)
    return len(entries(made)), num_ranges(made, judge.base), found.moved_bytes, found.step_us


def _plainer(judge: Judge, made: Plan) -> Iterator[Plan]:
    """Without an entry; with one in all layers; with one in all layers from its first to its last."""
    for atom in entries(made):
        yield tuple(mode - {atom} for mode in made)
        mine = [index for index, mode in enumerate(made) if atom in mode]
        for layers in (range(len(made)), range(mine[0], mine[-1] + 1)):
            yield judge.fitted(mode | {atom} if index in layers else mode for index, mode in enumerate(made))
