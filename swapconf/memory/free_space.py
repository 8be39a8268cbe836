"""SIZE -> ADDRESS: the holes of an address space; best fit, and neighbours that become free join at once."""

from __future__ import annotations

from bisect import bisect_left, insort


class FreeSpace:
    """Holes by size and by address. A request and a return cost a binary search and the shift of one list."""

    def __init__(self) -> None:
        self._by_size: list[tuple[int, int]] = []
        self._end: dict[int, int] = {}
        self._start: dict[int, int] = {}

    def take(self, size_bytes: int) -> int | None:
        """The start of the smallest hole that is large enough, the lowest of several; None: there is none."""
        place = bisect_left(self._by_size, (size_bytes,))
        if place == len(self._by_size):
            return None
        hole_bytes, address = self._by_size.pop(place)
        end = address + hole_bytes
        del self._end[address], self._start[end]
        if hole_bytes > size_bytes:
            self._add(address + size_bytes, end)
        return address

    def give(self, address: int, size_bytes: int) -> None:
        """These bytes are free; they join the holes that they touch."""
        end = address + size_bytes
        if (before := self._start.get(address)) is not None:
            self.remove(before, address)
            address = before
        if (after := self._end.get(end)) is not None:
            self.remove(end, after)
            end = after
        self._add(address, end)

    def _add(self, start: int, end: int) -> None:
        insort(self._by_size, (end - start, start))
        self._end[start] = end
        self._start[end] = start

    def remove(self, start: int, end: int) -> None:
        """Take this whole hole out; KeyError where there is no hole from ``start`` to ``end``."""
        del self._end[start], self._start[end]
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
