"""JUDGE + ASKED PLANS -> SETTLED: the best plan by the memory that it needs in MindSpore's own order.

That order takes ten times as long to find out as all else of a plan, so it is asked of few, and each answer is learned
from: by as much as a plan needs more in it, plans that are like it are expected to need more, too. What is not expected
to fit is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from swapconf.plan.judge import NOISE, Judge, Scored
from swapconf.plan.modes import Mode, Plan, entries, num_rows

_RIVALS, _ROUNDS = 2, 8  # of each round two plans at most are asked for
_NEAR = 0.01  # of the budget


def settled(judge: Judge, best: Scored, plain: Iterable[Plan]) -> Scored:
    """The fastest plan that fits, said as plainly as it can be. First a few are asked for that are faster than ``best``
    and nearly fit, then what is expected to fit, the fastest first; where none of so many does, the best of them and
    of the ``plain`` ones is told, and not another whose memory is not known as well."""
    for item in sorted(_rivals(judge, best), key=_cost)[:_RIVALS]:
        judge.settle(item.plan)
    learned = _Learned(judge)
    for _ in range(_ROUNDS):
        hopeful = learned.fastest()
        if hopeful is None:
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


class _Learned:
    """What settled plans tell of others."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._more: dict[Plan, tuple[int, ...]] = {}

    def fastest(self) -> Scored | None:
        """Of what is settled and fits, or is not and expected to; None where nothing is."""
        judge = self._judge
        for made in judge.settled:
            if made not in self._more:
                pools, before = judge.pool_bytes(made), judge.pool_bytes(made, is_ordered=False)
                self._more[made] = tuple(pool - less for pool, less in zip(pools, before, strict=True))
        return next((judge.score(made) for made in _by_cost(judge) if self._could_fit(made)), None)

    def _could_fit(self, made: Plan) -> bool:
        judge = self._judge
        if judge.is_settled(made):
            return judge.score(made).fits
        more = self._expected(made)
        # that it could not fit without fragments is known without placing it
        return (
            not judge.over_bytes(made, judge.used_bytes(made), more)
            and judge.score(made).fits
            and not judge.over_bytes(made, judge.pool_bytes(made), more)
        )

    def _expected(self, made: Plan) -> list[float]:
        """By rank, how much more a plan needs than without the order: as the settled plan that is most like it, as far
        as it is like that."""
        like, more = max(((_likeness(made, other), more) for other, more in self._more.items()), default=(0.0, ()))
        return [like * max(size, 0) for size in more]


def _likeness(made: Plan, other: Plan) -> float:
    return sum(map(_alike, made, other)) / max(len(made), 1)


@lru_cache(maxsize=4096)
def _alike(mode: Mode, other: Mode) -> float:
    """1 where the same is asked of the same operators, whatever the prefetch; 0 where they have nothing in common."""
    mine, its = ({(atom.kind, atom.path) for atom in one} for one in (mode, other))
    return len(mine & its) / len(mine | its) if mine | its else 1.0


def _reduced(judge: Judge, best: Scored) -> Scored:
    """Of what is as fast, that with the fewest entries, then with the fewest rows of layers, then with the fewest bytes
    moved. Entries are left out, and gaps between their layers closed, as long as it stays as fast."""
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
    return len(entries(made)), num_rows(made), found.moved_bytes, found.step_us


def _plainer(judge: Judge, made: Plan) -> Iterator[Plan]:
    """Without an entry; with one in all layers; with one in all layers from its first to its last."""
    for atom in entries(made):
        yield tuple(mode - {atom} for mode in made)
        mine = [index for index, mode in enumerate(made) if atom in mode]
        for layers in (range(len(made)), range(mine[0], mine[-1] + 1)):
            yield judge.fitted(mode | {atom} if index in layers else mode for index, mode in enumerate(made))
