"""BASELINE -> PLACE: when MindSpore's queue comes to a copy that goes to the host."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from swapconf.whatif.baseline import Baseline

LONGEST = 40  # kernels that run at once behind another, at most


def queued(baseline: Baseline, kernel: int, copied: Set[tuple[int, int]]) -> int:
    """The kernel before which a copy of what one makes runs. ``copied``: all that is, as (block, face).

    MindSpore follows an only reader at once, then what was ready before, then what has become ready since; what
    reads the result of communication waits until nothing else is ready (see `order`). A copy is a reader, too; and who
    else reads what moves is tied to its copy, and runs behind it.
    """
    reads = baseline.reads
    for after in range(kernel + 1, min(kernel + LONGEST, len(baseline.kernels))):
        rows = baseline.rows_of(after)
        if not rows:
            return after
        if any(int(reads.face[row]) == kernel and (int(reads.block[row]), kernel) in copied for row in rows):
            return after
        last = max(rows, key=lambda row: int(max(baseline.maker[reads.block[row]], reads.face[row])))
        ready = int(max(baseline.maker[reads.block[last]], reads.face[last]))
        if ready >= kernel and (
            baseline.kernels.stream[ready] != 0
            or (int(reads.block[last]), ready) in copied
            or _is_shared(baseline, int(reads.block[last]), ready)
        ):
            return after
    return kernel + 1


def _is_shared(baseline: Baseline, block: int, face: int) -> bool:
    """Several kernels read what a face shows of a block."""
    low, high = np.searchsorted(baseline.reads.block, [block, block + 1])
    return int((baseline.reads.face[low:high] == face).sum()) > 1
