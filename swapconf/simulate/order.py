"""REGION -> ORDER: in which order MindSpore launches what runs again together with the gradients that wait for it.

It keeps a queue of what is ready. A kernel with a single reader is followed by that reader at once, other readers queue
up behind; what reads the result of communication waits until the queue is empty (the order of MindSpore's
ExecOrderBuilder, as far as the traces show it; they do not tell control edges).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Region:
    """Items are numbered in the order to fall back to. ``needs``: the items that each reads from. ``late``: items that
    read the result of communication from before the region. ``single``: has one reader in all. ``talks``: is
    communication itself. ``ahead``: such that is launched before that communication from before the region."""

    needs: Sequence[Sequence[int]]
    late: frozenset[int]
    single: Sequence[bool]
    talks: Sequence[bool]
    ahead: frozenset[int] = frozenset()


def order(region: Region) -> list[int]:
    """All items, each behind what it reads from."""
    waiting = [len(needs) + (item in region.late) for item, needs in enumerate(region.needs)]
    return _Queue(region, waiting, _readers(region.needs)).run()


def _readers(needs: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """The readers of each item, the one nearest to the end of the step first."""
    read = {needed for given in needs for needed in given}
    ends = deque(item for item in reversed(range(len(needs))) if item not in read)
    seen, readers = set(ends), dict[int, list[int]]()
    while ends:
        item = ends.popleft()
        for needed in needs[item]:
            readers.setdefault(needed, []).append(item)
            if needed not in seen:
                seen.add(needed)
                ends.append(needed)
    return readers


class _Queue:
    def __init__(self, region: Region, waiting: list[int], readers: Mapping[int, list[int]]) -> None:
        self._region, self._waiting, self._readers = region, waiting, readers
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
                if at_once:
                    self._ready.appendleft(item)
                elif self._region.talks[item]:
                    talking.append(item)
                else:
                    self._ready.append(item)
        self._ready.extend(talking)
