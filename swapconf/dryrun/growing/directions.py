"""STEPS + PERIODS -> DIRECTIONS: whether the layers in the reach of each period follow one another upwards.

Names and parameters tell it of most. Of the others it follows from what is made in one period and released in another:
where the twin of a block is released a period later, both go the same way, and where it is a period earlier, they do
not. Where nothing tells, upwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from swapconf.dryrun.growing.layers import layer_in
from swapconf.dryrun.growing.periods import Period
from swapconf.dryrun.growing.steps import START, Steps


def upwards(steps: Steps, periods: Sequence[Period], layers: Sequence[int]) -> tuple[bool, ...]:
    """By period. ``layers``: [places] the layer of each, -1 where it is not known."""
    return directed(_by_layers(periods, layers), _ties(steps, periods), len(periods))


def directed(known: dict[int, int], ties: Mapping[tuple[int, int], int], count: int) -> tuple[bool, ...]:
    """``known``: 1 or -1 by period. ``ties``: by two of ``count`` periods how many say that both go the same way, less
    those that say the contrary."""
    while True:
        votes: Counter[int] = Counter()
        for (one, other), sign in ties.items():
            if one in known and other not in known:
                votes[other] += known[one] * sign
            elif other in known and one not in known:
                votes[one] += known[other] * sign
        if not votes:
            return tuple(known.get(number, 1) > 0 for number in range(count))
        surest = max(votes, key=lambda number: abs(votes[number]))
        known[surest] = 1 if votes[surest] >= 0 else -1


def _by_layers(periods: Sequence[Period], layers: Sequence[int]) -> dict[int, int]:
    layer = np.asarray(layers, dtype=np.int64)
    found = {}
    for number, period in enumerate(periods):
        one, other = layer[period.low : period.high - period.length], layer[period.low + period.length : period.high]
        both = (one >= 0) & (other >= 0)
        if way := int(np.sign((other - one)[both]).sum()):
            found[number] = 1 if way > 0 else -1
    return found


def _ties(steps: Steps, periods: Sequence[Period]) -> Counter[tuple[int, int]]:
    """By two periods how many blocks say that both go the same way, less those that say the contrary."""
    where = np.full(steps.length, -1, dtype=np.int64)
    for number, period in enumerate(periods):
        where[period.low : period.high] = number
    ties: Counter[tuple[int, int]] = Counter()
    released = np.where(steps.freed >= 0, steps.place[np.maximum(steps.freed, 0)], START)
    first, born = steps.first_born.tolist(), steps.birthplace.tolist()
    for number, period in enumerate(periods):
        for place in range(period.low, period.high - period.length):
            rows = range(first[place], first[place + 1])
            twins = range(first[place + period.length], first[place + period.length + 1])
            for row, twin in zip(rows, twins, strict=False):
                end, later = int(released[row]), int(released[twin])
                if (
                    0 <= end < steps.length > later >= 0 <= born[row]
                    and where[end] not in (-1, number)
                    and abs(later - end) == periods[where[end]].length
                ):
                    ties[number, int(where[end])] += 1 if later > end else -1
    return ties


def layers_of(steps: Steps) -> list[int]:
    """[places] the layer of each launch by its name, else by the parameter that it uses; -1 where neither tells."""
    blocks = steps.trace.blocks
    known = {
        int(blocks.start[row]): layer
        for row in np.flatnonzero(steps.birthplace < 0).tolist()
        if (layer := layer_in(blocks.nodes[blocks.node[row]])) >= 0
    }
    found = []
    for kernel, task in zip(steps.kernels, steps.task_at.tolist(), strict=True):
        layer = layer_in(kernel.name)
        if layer < 0 and task >= 0:
            layer = next((known[tensor] for tensor in steps.trace.tasks[task].inputs if tensor in known), -1)
        found.append(layer)
    return found
