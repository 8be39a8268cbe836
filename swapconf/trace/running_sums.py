"""BLOCKS + RUNNING SUMS of MindSpore -> where the two differ, and the releases that it did not write down.

What a swap brings back for nobody, as indices of a top-k, MindSpore 2.10.0 gives back in the next step without a word
of when. What is in use by the rows behind it tells how much went; where one choice of sizes alone makes that up, it was
these, those first that were made first. So every address of such a run is found again by the rules of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.blocks import Blocks, offsets
from swapconf.trace.lifetimes import NEVER

FILLED_AGAIN = "ResizeStorage"  # who makes a block that a swap brings back
_MOST_CHOICES, _MOST_SIZES = 10_000, 100  # that are looked at for one row
Places = NDArray[np.int64]


def used_bytes(start: Places, end: Places, size_bytes: Places) -> Places:
    """Bytes in use after each birth; ``start`` is ascending."""
    freed = end != NEVER
    order = np.argsort(end[freed], kind="stable")
    gone = offsets(size_bytes[freed][order])
    return np.asarray(np.cumsum(size_bytes) - gone[np.searchsorted(end[freed][order], start)])


def wrong_sums(start: Places, told: Places, used: Places) -> NDArray[np.bool_]:
    """Blocks made at once (outputs of a graph planned ahead, at successive events) carry the sum after the last."""
    wrong: NDArray[np.bool_] = told != used
    wrong[:-1] &= (start[1:] != start[:-1] + 1) | (told[1:] != told[:-1])
    return wrong


def with_releases(blocks: Blocks) -> Blocks:
    """The same, with each release that is not written and can be told, right before the first row that shows it."""
    if FILLED_AGAIN not in blocks.task_names:
        return blocks
    is_again = blocks.task_name == blocks.task_names.index(FILLED_AGAIN)
    kept = np.flatnonzero(is_again & (blocks.end == NEVER) & (blocks.size_bytes > 0) & ~blocks.on_host).tolist()
    if not kept:
        return blocks
    rows = np.flatnonzero(~blocks.on_host)
    rows = rows[np.argsort(blocks.start[rows], kind="stable")]
    start, told, size, end = blocks.start[rows], blocks.used_bytes[rows], blocks.size_bytes, blocks.end.copy()
    while True:
        used = used_bytes(start, end[rows], size[rows])
        wrong = np.flatnonzero(wrong_sums(start, told, used))
        if not len(wrong):
            return replace(blocks, end=end)
        first = int(wrong[0])
        event = int(start[first])
        there = [row for row in kept if end[row] == NEVER and blocks.start[row] < event]
        gone = _made_up(int(used[first] - told[first]), there, size)
        if not gone or blocks.start[gone].max() >= event - 1:
            return blocks
        end[gone] = event - 1


def _made_up(missing_bytes: int, rows: Sequence[int], size_bytes: Places) -> list[int]:
    """Those of ``rows`` that have so many bytes together; none where more than one choice has, or too many may."""
    by_size: dict[int, list[int]] = {}
    for row in sorted(rows):
        by_size.setdefault(int(size_bytes[row]), []).append(row)
    if len(by_size) > _MOST_SIZES:
        return []
    counts = [(size, len(those)) for size, those in sorted(by_size.items(), reverse=True)]
    looked_at = list(islice(_choices(missing_bytes, counts), _MOST_CHOICES))
    found = [choice for choice in looked_at if choice is not None]
    if len(found) != 1 or len(looked_at) == _MOST_CHOICES:
        return []
    return [row for size, count in found[0].items() for row in by_size[size][:count]]


def _choices(missing_bytes: int, counts: Sequence[tuple[int, int]]) -> Iterator[dict[int, int] | None]:
    """How many of each size make it up, in every way; None for each way that does not."""
    if missing_bytes <= 0 or not counts:
        yield None if missing_bytes else {}
        return
    size, most = counts[0]
    for count in range(min(most, missing_bytes // size), -1, -1):
        for found in _choices(missing_bytes - count * size, counts[1:]):
            yield None if found is None else {size: count, **found}
