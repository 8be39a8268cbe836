"""LINES -> COLUMNS: the cells of a table whose values are never quoted, found for many rows at once.

The tables of MindSpore's memory tracker are CSV without quotes. Only the stack of Python frames (``python_stack``) may
hold a comma, so the columns up to it are counted from the left of a row and those behind it from the right. A table
tells which of its rows cannot be read so; why not, the reader finds by reading such a row by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swapconf.files.table_lines import HEADER, TRUNCATED, Damage, chunks, shown
from swapconf.words.phrases import phrase

_PATHS = "python_stack"
_MAX_WIDTH = {10: 19, 16: 16}
_COMMA, _LINE_FEED, _RETURN, _ZERO, _X = b",\n\r0x"
_NO_DIGIT = 255

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


def _values() -> Bytes:
    values = np.full(256, _NO_DIGIT, dtype=np.uint8)
    for digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
        values[list(digits)] = np.arange(16)
    return values


_VALUE = _values()


@dataclass(frozen=True, kw_only=True, slots=True)
class TableLayout:
    """Where columns stand in a row of ``count`` values, or more if ``is_open``: counted from the left if positive."""

    count: int
    is_open: bool
    places: Mapping[str, int]

    @classmethod
    def of(cls, header: str, columns: Sequence[str], damage: Damage) -> TableLayout:
        """The places of ``columns``. Raises SwapconfError where the header does not name one of them."""
        names = header.split(",")
        if missing := [name for name in columns if name not in names]:
            damage.add(
                HEADER, phrase("no column {columns} in {header}", columns=", ".join(missing), header=shown(header)), 1
            )
        damage.refuse()
        turn = names.index(_PATHS) if _PATHS in names else len(names)
        places = {name: names.index(name) - (len(names) if names.index(name) > turn else 0) for name in columns}
        return cls(count=len(names), is_open=turn < len(names), places=places)

    def values(self, row: str) -> dict[str, str]:
        """The values of a row by column. Raises ValueError where there are too few or too many."""
        cells = row.split(",")
        if len(cells) < self.count or (len(cells) > self.count and not self.is_open):
            raise ValueError(
                phrase("{values} values, where the header names {columns}", values=len(cells), columns=self.count)
            )
        return {name: cells[place] for name, place in self.places.items()}


def tables(path: str | Path, columns: Sequence[str], damage: Damage) -> Iterator[ByteTable]:
    """The rows of a file, some at a time. Raises SwapconfError when it is no text or another file."""
    layout: TableLayout | None = None
    for first, data in chunks(path, damage):
        if layout is None:
            header, _, data = data.partition(b"\n")
            layout, first = TableLayout.of(header.decode("utf-8").rstrip("\r"), columns, damage), first + 1
        if data:
            yield ByteTable(data, layout, first)
    if layout is None:
        damage.add(TRUNCATED, phrase("the file is empty"))
    damage.refuse()


class ByteTable:
    """The rows of some whole lines, each ended by a line feed; the first one is line ``first`` of its file.

    ``rows``: those with the right number of values, as indices of lines; the columns are told for these only.
    """

    def __init__(self, data: bytes, layout: TableLayout, first: int) -> None:
        self.data = data
        self.bytes: Bytes = np.frombuffer(data, dtype=np.uint8)
        self._layout = layout
        self._first_line = first
        self._commas = np.flatnonzero(self.bytes == _COMMA)
        line_feeds = np.flatnonzero(self.bytes == _LINE_FEED)
        borders = np.concatenate([np.zeros(1, np.int64), np.searchsorted(self._commas, line_feeds)])
        self._start = np.concatenate([np.zeros(1, np.int64), line_feeds[:-1] + 1])
        self._stop = self._without_returns(line_feeds)
        counts = np.diff(borders) + 1
        self.rows = np.flatnonzero(counts >= layout.count if layout.is_open else counts == layout.count)
        self._first, self._last = borders[self.rows], borders[self.rows + 1]

    def _without_returns(self, stop: Places) -> Places:
        """A line may end with carriage returns, too."""
        while (returns := (stop > self._start) & (self.bytes[stop - 1] == _RETURN)).any():
            stop = stop - returns
        return stop

    def explain(
        self, are_right: NDArray[np.bool_], refuse: Callable[[Mapping[str, str]], None], damage: Damage
    ) -> None:
        """Finds what is wrong with each line that is not one of the rows that ``are_right``, bool [rows].

        ``refuse`` takes the values of such a row by column and raises ValueError with what is wrong.
        """
        is_wrong = np.ones(len(self._start), dtype=np.bool_)
        is_wrong[self.rows[are_right]] = False
        for index in np.flatnonzero(is_wrong).tolist():
            text = self.data[self._start[index] : self._stop[index]].decode("utf-8")
            with damage.at(self._first_line + index):
                refuse(self._layout.values(text))
                raise ValueError(phrase("{text} cannot be read", text=shown(text)))

    def cells(self, column: str) -> tuple[Places, Places]:
        """Where the values of a column begin and end."""
        place, line_end = self._layout.places[column], self._stop[self.rows]
        if place >= 0:
            start = self._commas[self._first + place - 1] + 1 if place else self._start[self.rows]
            return start, self._commas[self._first + place] if place < self._layout.count - 1 else line_end
        return self._commas[self._last + place] + 1, self._commas[self._last + place + 1] if place < -1 else line_end

    def numbers(self, column: str, base: int = 10) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The values of a column, and which of them are natural numbers of at most 63 bits."""
        return numbers(self.bytes, *self.cells(column), base)

    def codes(self, column: str, names: Names) -> NDArray[np.int32]:
        """The values of a column as indices into ``names``, which grows."""
        start, stop = self.cells(column)
        cells = map(self.data.__getitem__, map(slice, start.tolist(), stop.tolist()))
        return np.fromiter(map(names.__getitem__, cells), dtype=np.int32, count=len(start))


class Names(defaultdict[bytes, int]):
    """Distinct texts, each with the index of its first appearance."""

    def __init__(self) -> None:
        super().__init__(count().__next__)

    def texts(self) -> tuple[str, ...]:
        return tuple(map(bytes.decode, self))


def numbers(data: Bytes, start: Places, stop: Places, base: int = 10) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The numbers between positions, and which of them are natural numbers of at most 63 bits."""
    if base == 16:
        has_prefix = (stop - start > 2) & (data[start] == _ZERO) & (data[np.minimum(start + 1, len(data) - 1)] == _X)
        start = start + 2 * has_prefix
    width = stop - start
    values = np.zeros(len(start), dtype=np.int64)
    are_numbers = (width > 0) & (width <= _MAX_WIDTH[base])
    narrowest, widest = int(width.min(initial=19)), int(width.max(initial=0))
    for place in range(min(widest, _MAX_WIDTH[base])):
        if place < narrowest:  # the same without masks, twice as fast
            digit = _VALUE[data[start + place]]
            are_numbers &= digit < base
            values = values * base + digit
        else:
            inside = place < width
            digit = _VALUE[data[np.where(inside, start + place, start)]]
            are_numbers &= (digit < base) | ~inside
            values = np.where(inside, values * base + digit, values)
    return values, are_numbers & (values >= 0)
