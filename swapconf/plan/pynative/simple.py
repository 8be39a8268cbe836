"""NATIVE JUDGE -> what people use today, which a plan is held against."""

from __future__ import annotations

from bisect import bisect_left

from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.menu import mixed, uniform
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativeMode, NativePlan
from swapconf.words.phrases import phrase


def simple(judge: NativeJudge) -> dict[str, NativePlan]:
    """By name."""
    found: dict[str, NativePlan] = {
        phrase("no swap, no recompute"): uniform(judge, KEEP),
        phrase("full recompute"): uniform(judge, FULL),
        phrase("the first layers recomputed"): fewest(judge, FULL),
    }
    if judge.allows(uniform(judge, SWAP)):
        found[phrase("the first layers swapped")] = fewest(judge, SWAP)
    return found


def fewest(judge: NativeJudge, mode: NativeMode) -> NativePlan:
    """As few of the first layers with a mode as it takes, the rest kept; all of them where that is not enough."""
    family = first_layers(judge, mode)
    if judge.is_out_of_reach:
        return family[-1]
    low = bisect_left(family[:-1], True, key=judge.could_fit)
    return next(filter(judge.fits, family[low:]), family[-1])


def first_layers(judge: NativeJudge, mode: NativeMode) -> list[NativePlan]:
    """From none of the first layers with a mode to all, the rest kept."""
    count = judge.num_layers
    return [mixed(judge, [mode] * number + [KEEP] * (count - number)) for number in range(count + 1)]
