"""READS -> DEPTH: how far each kernel stands from the end of the step."""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Ints


def hops(count: int, reader: Ints, source: Ints, steps: Ints | None = None) -> Ints:
    """[count] readers that follow one another up to the nearest kernel that nothing reads. ``reader``, ``source``: of
    each read, -1 for a source that no kernel made; ``steps``: [count] how far the readers of each are, 1 without."""
    reader, source = reader[source >= 0], source[source >= 0]
    depth = np.zeros(count, dtype=np.int64)
    unknown = 2 * count
    depth[source] = unknown
    far = np.ones(count, dtype=np.int64) if steps is None else steps
    level = 0
    while level < unknown:
        near = source[(depth[reader] == level) & (depth[source] > level + far[source])]
        depth[near] = level + far[near]
        level = int(depth[depth > level].min(initial=unknown))
    return depth
