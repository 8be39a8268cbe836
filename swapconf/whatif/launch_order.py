"""REGION -> ORDER: in which order MindSpore launches what runs again together with the gradients that wait for it.

It keeps a queue of what is ready. A kernel with a single reader is followed by that reader at once, other readers queue
up behind. Of several outputs of a kernel the last that it comes to is served first, as each is a node of its own in
MindSpore's graph, to be followed at once. What reads the result of communication waits until the queue is empty (the
order of MindSpore's ExecOrderBuilder, as far as the traces show it; they do not tell control edges).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

UNKNOWN = 1 << 60


@dataclass(frozen=True, kw_only=True)
class Region:
    """Items are numbered in the order to fall back to.

    The items from ``num_real`` on are launched nowhere: each shows one of several outputs.

    Attributes:
        needs: The items that each reads from.
        late: Items that read the result of communication from before the region.
        single: Has one reader in all.
        talks: Is communication itself.
        ahead: Such that is launched before that communication from before the region.
        depth: How many readers follow one another from each item to the end of the step, `UNKNOWN` where that depends
            on its readers among the items.
    """

    needs: Sequence[Sequence[int]]
    late: frozenset[int]
    single: Sequence[bool]
    talks: Sequence[bool]
    ahead: frozenset[int] = frozenset()
    depth: Sequence[int] = ()
    num_real: int | None = None


def order(region: Region) -> list[int]:
    """All items that are launched, each behind what it reads from."""
    waiting = [len(needs) + (item in region.late) for item, needs in enumerate(region.needs)]
    count = len(region.needs) if region.num_real is None else region.num_real
    return [item for item in _Queue(region, waiting, _readers(region), count).run() if item < count]


def _readers(region: Region) -> dict[int, list[int]]:
    """The readers of each item, the one nearest to the end of the step first."""
    needs, read = region.needs, {needed for given in region.needs for needed in given}
    depth = region.depth or [UNKNOWN if item in read else 0 for item in range(len(needs))]
    by_depth: dict[int, list[int]] = {}
    for item in range(len(needs)):
        if depth[item] < UNKNOWN:
            by_depth.setdefault(depth[item], []).append(item)
    seen, readers = set[int](), dict[int, list[int]]()
    level, above = min(by_depth, default=0), list[int]()
    while by_depth or above:
        here = dict.fromkeys(item for item in (*above, *by_depth.pop(level, ())) if item not in seen)
        seen.update(here)
        above = []
        for item in here:
            for needed in needs[item]:
                readers.setdefault(needed, []).append(item)
                if needed not in seen:
                    above.append(needed)
        level = level + 1 if above else min(by_depth, default=0)
    return readers


class _Queue:
    def __init__(self, region: Region, waiting: list[int], readers: Mapping[int, list[int]], num_real: int) -> None:
        self._region, self._waiting, self._readers, self._num_real = region, waiting, readers, num_real
        self._ready = deque(item for item, count in enumerate(waiting) if not count)
        self._talking: deque[list[int]] = deque([sorted(region.late)] if region.late else [])

    def run(self) -> list[int]:
        done: list[int] = []
        ahead = 0
        while self._ready or self._talking or self._free_one():
            if not self._ready:
                self._release(self._talking.popleft(), at_once=False)
                continue
            item = self._ready.popleft()
            done.append(item)
            followers = self._readers.get(item, [])
            if item in self._region.ahead:
                self._talking.insert(ahead, followers)
                ahead += 1
            elif self._region.talks[item]:
                self._talking.append(followers)
            else:
                self._release(followers, self._region.single[item])
        return done

    def _free_one(self) -> bool:
        """Whether one still waits, in a circle: for a gate that waits for it. The first of them goes on without."""
        item = next((item for item, count in enumerate(self._waiting) if count > 0), None)
        if item is not None:
            self._waiting[item] = -len(self._waiting)  # never again by one that it waits for
            self._ready.append(item)
        return item is not None

    def _release(self, items: Sequence[int], at_once: bool) -> None:
        talking = []
        for item in items:
            self._waiting[item] -= 1
            if self._waiting[item] == 0:
                if at_once or item >= self._num_real:
                    self._ready.appendleft(item)
                elif self._region.talks[item]:
                    talking.append(item)
                else:
                    self._ready.append(item)
        self._ready.extend(talking)
