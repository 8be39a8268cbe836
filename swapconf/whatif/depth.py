"""READS -> DEPTH: how far each kernel stands from the end of the step."""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Ints


def hops(count: int, reader: Ints, source: Ints) -> Ints:
    """[count] readers that follow one another up to the nearest kernel that nothing reads. ``reader``, ``source``: of
    each read, -1 for a source that no kernel made."""
    reader, source = reader[source >= 0], source[source >= 0]
    found = np.zeros(count, dtype=np.int64)
    found[source] = count
    level = 0
    while True:
        near = source[(found[reader] == level) & (found[source] > level + 1)]
        if not len(near):
            return found
        level += 1
        found[near] = level
