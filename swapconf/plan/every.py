"""MODES -> PLANS: all that give each layer one of them, where these are few."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from math import prod

from swapconf.plan.judge import Judge
from swapconf.plan.modes import Mode, Plan, fitted

_ALLOWED = 64  # of so many plans one at least has few enough entries, where it is worth looking through them


def every_plan(judge: Judge, modes: Sequence[Mode], most: int) -> list[Plan]:
    """None at all where there are more than ``most``."""
    choices = [list(dict.fromkeys(fitted(mode, layer.template) for mode in modes)) for layer in judge.layers]
    if prod(map(len, choices)) > _ALLOWED * most:
        return []
    plans = list(islice(filter(judge.allows, product(*choices)), most + 1))
    return plans if len(plans) <= most else []
