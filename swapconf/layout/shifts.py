"""JUDGE -> DEALS: other layers by stage that may make a step faster: near to those that a layout has, and one guess.

Under 1F1B the stage that is busy longest decides how long a step takes, and the one that holds most what has to be
swapped or recomputed. So a layer is taken from one of these two; where to is tried. The guess is what averages over the
layers of each stage promise (`plan.deal`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapconf.layout.layout import Deal
from swapconf.plan.deal import fairest
from swapconf.plan.judge import SLOWER, Judge
from swapconf.plan.modes import KEEP, uniform


def shifts(judge: Judge) -> tuple[Deal, ...]:
    """The most promising first; none for one stage and for interleaved ones."""
    if len(judge.stages) == 1 or any(layer.interleave for layer in judge.layers):
        return ()
    here = [len(layers) for layers in judge.stages]
    found = dict.fromkeys((*_guessed(judge, here), *_near(judge, here)))
    return tuple((counts,) for counts in found if list(counts) != here)


def _guessed(judge: Judge, here: Sequence[int]) -> Iterator[tuple[int, ...]]:
    counts = fairest(len(judge.layers), here, judge.evaluator.layer_shares(SLOWER), _spare(judge))
    if counts is not None:
        yield tuple(counts)


def _near(judge: Judge, here: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """One layer elsewhere. To a stage that would be as slow as the slowest only to hold less there."""
    shares, spare = judge.evaluator.layer_shares(SLOWER), _spare(judge)
    busy = [share.busy_us for share in shares]
    slowest, fullest = busy.index(max(busy)), spare.index(min(spare))
    takers = sorted(range(len(here)), key=lambda stage: busy[stage])
    for giver in dict.fromkeys((slowest, *([fullest] if spare[fullest] < 0 else []))):
        for taker in takers:
            is_slower = busy[taker] + shares[taker].layer_us >= busy[slowest]
            if taker == giver or here[giver] < 2 or (is_slower and spare[giver] >= 0):
                continue
            yield tuple(count + (stage == taker) - (stage == giver) for stage, count in enumerate(here))


def _spare(judge: Judge) -> list[int]:
    """By stage, what is left of its pool with nothing swapped or recomputed."""
    pools = judge.pool_bytes(uniform(KEEP, judge.network))
    return [most - pool for most, pool in zip(judge.limits.pool_bytes, pools, strict=True)]
