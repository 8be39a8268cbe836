"""SIZE -> ADDRESS: the holes of an address space; best fit, and neighbours that become free join at once."""

from __future__ import annotations

from bisect import bisect_left, insort

_BITS = 90  # of an address; more than any has
_ADDRESS = (1 << _BITS) - 1


class FreeSpace:
    """Holes by size and by address. A request and a return cost a binary search and the shift of one list.

    Both are asked for tens of thousands of times for one placement. So a hole is one number, its size before its
    address, which is compared in half the time of a pair. Addresses are not negative.
    """

    def __init__(self) -> None:
        self._by_size: list[int] = []
        self._end: dict[int, int] = {}
        self._start: dict[int, int] = {}

    def take(self, size_bytes: int) -> int | None:
        """The start of the smallest hole that is large enough, the lowest of several; None: there is none."""
        by_size = self._by_size
        place = bisect_left(by_size, size_bytes << _BITS)
        if place == len(by_size):
            return None
        address = by_size.pop(place) & _ADDRESS
        end = self._end.pop(address)
        start = address + size_bytes
        if start < end:
            insort(by_size, end - start << _BITS | start)
            self._end[start] = end
            self._start[end] = start
        else:
            del self._start[end]
        return address

    def give(self, address: int, size_bytes: int) -> None:
        """These bytes are free; they join the holes that they touch. No bytes leave no hole."""
        if not size_bytes:
            return
        by_size, end = self._by_size, address + size_bytes
        if (before := self._start.pop(address, None)) is not None:
            del self._end[before], by_size[bisect_left(by_size, address - before << _BITS | before)]
            address = before
        if (after := self._end.pop(end, None)) is not None:
            del self._start[after], by_size[bisect_left(by_size, after - end << _BITS | end)]
            end = after
        insort(by_size, end - address << _BITS | address)
        self._end[address] = end
        self._start[end] = address

    def remove(self, start: int, end: int) -> None:
        """Take this whole hole out; KeyError where there is no hole from ``start`` to ``end``."""
        del self._end[start], self._start[end]
        del self._by_size[bisect_left(self._by_size, end - start << _BITS | start)]
