"""FAST PLAN + SLOW PLAN -> PLAN: the fast one in as many layers as fit, the slow one in the rest."""

from __future__ import annotations

from collections.abc import Sequence

from swapconf.plan.judge import Judge
from swapconf.plan.modes import Plan


def fewest_slow(judge: Judge, fast: Plan, slow: Plan, *, backwards: bool = False) -> Plan | None:
    """As few layers of each stage as it takes are those of the slow plan, from its first on, or from its last. Each
    stage has a count of its own, found by halving; that more such layers hold less is taken for granted. None where the
    two have too many entries together."""
    low, high = [0] * len(judge.stages), [len(layers) for layers in judge.stages]
    while any(small < large for small, large in zip(low, high, strict=True)):
        middle = [(small + large) // 2 for small, large in zip(low, high, strict=True)]
        plan = _mixed(judge, fast, slow, middle, backwards)
        if not judge.allows(plan):
            return None
        for stage, is_enough in enumerate(judge.stage_fits(plan)):
            if low[stage] < high[stage]:
                low[stage], high[stage] = (low[stage], middle[stage]) if is_enough else (middle[stage] + 1, high[stage])
    return _mixed(judge, fast, slow, high, backwards)


def _mixed(judge: Judge, fast: Plan, slow: Plan, counts: Sequence[int], backwards: bool) -> Plan:
    """``counts``: by stage, how many layers are those of ``slow``."""
    plan = list(fast)
    for layers, count in zip(judge.stages, counts, strict=True):
        for index in layers[len(layers) - count :] if backwards else layers[:count]:
            plan[index] = slow[index]
    return tuple(plan)
