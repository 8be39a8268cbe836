"""TIMELINE of a step of few micro-batches -> how long one more takes.

Under 1F1B, and where gradients are accumulated, a rank does the same again from its first backward pass on: one forward
and one backward pass, as long as there are forward passes left. What a cell launches once in each backward pass is
there twice at least before that ends (measured: docs/explanation/timeline.md), so one round is from its first launch
to its second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from swapconf.timing.timing import Timeline
from swapconf.trace.columns import Ints
from swapconf.trace.trace import without_number
from swapconf.upstream.scopes import GRADIENTS


def rounds(names: Sequence[str], micro_batches: int) -> tuple[Ints, Ints]:
    """The first and the second launch of what is launched once in each of so many backward passes, by name of kernel in
    order of launches; empty where nothing is."""
    launches: defaultdict[str, list[int]] = defaultdict(list)
    for kernel, name in enumerate(names):
        if name.startswith(GRADIENTS):
            launches[without_number(name)].append(kernel)
    pairs = [found[:2] for found in launches.values() if len(found) == micro_batches > 1]
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return first, second


def round_us(line: Timeline, micro_batches: int) -> float | None:
    """From one micro-batch to the next, of a step with so many of them; None where no launch of the backward pass is
    there as often."""
    first, second = rounds(line.program.names, micro_batches)
    return float(np.median(line.end_us[second] - line.end_us[first])) if len(first) else None
