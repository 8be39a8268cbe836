"""CODES of two runs -> how far they launch the same, where launches that do not depend on each other change places.

MindSpore 2.9.0 launches the branches of a router, and what is independent of the layers (the embedding of a layer of
multi-token prediction), in an order that differs from graph to graph. Two runs are *alike but for the order* where a
stretch of one has the launches of the same stretch of the other, each as often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from swapconf.trace.columns import Ints

_LONGEST = 1024  # launches of a stretch; a layer of experts has some 200 in a pass
SEEN = 4096  # places behind what was added, or a stretch, that tell how well both go on alike


def alike(one: Ints, two: Ints, most: int | None = None) -> int:
    """How many launches from the first on are the same in the same order."""
    count = min(len(one), len(two), most or len(one))
    differing = np.flatnonzero(one[:count] != two[:count])
    return int(differing[0]) if len(differing) else count


def shuffled(one: Ints, two: Ints) -> int:
    """The length of the shortest stretch at the begin of both that has the same launches in another order; 0: none."""
    return next(with_more(one, two, 0), 0)


def with_more(one: Ints, two: Ints, more: int) -> Iterator[int]:
    """The lengths of stretches at the begin of ``one``, the shortest first, whose launches are all in a stretch of
    ``two`` that is longer by ``more``."""
    open_: defaultdict[int, int] = defaultdict(int)
    lacking = 0
    for code in two[:more].tolist():
        open_[code] -= 1
    pairs = zip(one[:_LONGEST].tolist(), two[more : more + _LONGEST].tolist(), strict=False)
    for length, (mine, other) in enumerate(pairs, 1):
        for code, sign in ((mine, 1), (other, -1)):
            was = open_[code]
            open_[code] = was + sign
            lacking += (was + sign > 0) - (was > 0)
        if not lacking:
            yield length


def reach(one: Ints, two: Ints, most: int = SEEN) -> int:
    """How far both are alike but for the order."""
    here = 0
    while here < most:
        here += alike(one[here:], two[here:])
        length = shuffled(one[here:], two[here:])
        if not length:
            break
        here += length
    return here


def are_alike(one: Ints, two: Ints) -> bool:
    """But for the order."""
    return len(one) == len(two) == reach(one, two, len(one) + 1)
