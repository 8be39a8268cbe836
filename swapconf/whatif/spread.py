"""EDGES + KERNELS -> what they lead to."""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Flags, Ints


def spread(to: Ints, from_: Ints, starts: Flags, among: Flags) -> Flags:
    """[kernels] those ``among`` which an edge, or a row of them, joins to ``starts``."""
    found = np.zeros(len(starts), dtype=np.bool_)
    while True:
        more = found.copy()
        more[to[among[to] & (starts | found)[from_]]] = True
        if (more == found).all():
            return found
        found = more
