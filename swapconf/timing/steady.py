"""TIMELINE of a step of few micro-batches -> how long one more takes.

Under 1F1B, and where gradients are accumulated, a rank does the same again from its first backward pass on: one forward
and one backward pass, as long as there are forward passes left. What a cell launches once in each backward pass is
there twice at least before that ends (measured: docs/explanation/timeline.md), so one round is from its first launch
to its second.
"""

from __future__ import annotations

import re
from collections import defaultdict
from statistics import median

from swapconf.timing.timing import Timeline
from swapconf.upstream.scopes import GRADIENTS

_NUMBER = re.compile(r"-op\d+$")  # counts the launches of a cell


def round_us(line: Timeline, micro_batches: int) -> float | None:
    """From one micro-batch to the next, of a step with so many of them; None where no launch of the backward pass is
    there as often."""
    ends: defaultdict[str, list[float]] = defaultdict(list)
    for name, end in zip(line.program.names, line.end_us.tolist(), strict=True):
        if name.startswith(GRADIENTS):
            ends[_NUMBER.sub("", name)].append(end)
    rounds = [found[1] - found[0] for found in ends.values() if len(found) == micro_batches > 1]
    return median(rounds) if rounds else None
