"""RECTANGLES -> OFFSETS: stack blocks, time wide and bytes high, on the lowest stretch of the skyline."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

Columns = NDArray[np.int64]


def stack(start: Columns, end: Columns, size: Columns, order: NDArray[np.float64]) -> Columns:
    """Offsets of the blocks, [n], the highest in the order first. ``start`` ascends, so that those inside a stretch
    stand together. The heuristic is explained where it is used, in the policy ``offline``."""
    offset = np.zeros(len(start), dtype=np.int64)
    waiting = order - order.min() + 1.0  # 0 once placed
    skyline = _Skyline(int(start.min()), int(end.max()))
    todo = len(start)
    while todo:
        left, right, height = skyline.lowest()
        first, last = np.searchsorted(start, (left, right))
        inside = np.where(end[first:last] <= right, waiting[first:last], 0.0)
        if len(inside) and inside.max():
            block = first + int(inside.argmax())
            offset[block], waiting[block] = height, 0.0
            skyline.build(left, int(start[block]), int(end[block]), int(size[block]))
            todo -= 1
        else:
            skyline.fill(left)
    return offset


class _Skyline:
    """Stretches of time with the height reached in each, side by side. ``_after``: left edge -> (right edge, height);
    ``_before``: right edge -> left edge."""

    def __init__(self, left: int, right: int) -> None:
        self._after: dict[int, tuple[int, int]] = {}
        self._before: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []
        self._add(left, right, 0)

    def lowest(self) -> tuple[int, int, int]:
        """(left, right, height) of the lowest stretch, the earliest of several."""
        while True:
            height, left = self._heap[0]
            if left in self._after and self._after[left][1] == height:
                return left, self._after[left][0], height
            heappop(self._heap)

    def build(self, left: int, start: int, end: int, size: int) -> None:
        """On the stretch that starts at ``left``, from ``start`` to ``end``."""
        right, height = self._after.pop(left)
        if left < start:
            self._add(left, start, height)
        self._add(start, end, height + size)
        if end < right:
            self._add(end, right, height)

    def fill(self, left: int) -> None:
        """Raise the stretch to its lower neighbour, and join it with what is as high."""
        right, _ = self._after.pop(left)
        neighbours = [self._after[edge][1] for edge in (self._before.get(left), right) if edge in self._after]
        height = min(neighbours)
        if (before := self._before.get(left)) in self._after and self._after[before][1] == height:
            del self._after[before]
            left = before
        if right in self._after and self._after[right][1] == height:
            right, _ = self._after.pop(right)
        self._add(left, right, height)

    def _add(self, left: int, right: int, height: int) -> None:
        self._after[left] = (right, height)
        self._before[right] = left
        heappush(self._heap, (height, left))
