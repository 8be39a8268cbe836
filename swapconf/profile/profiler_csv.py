"""PROFILER CSV -> VALUES: what the readers of profiler files share. Rows are read one at a time.

The profilers of MindSpore and torch_npu write the same tables with small differences: units stand in the header
(``Size(KB)``, ``Total Allocated(MB)``), some columns are left out, numbers end with a tab so that a spreadsheet keeps
their digits, and what is not known is empty or ``N/A``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import TypeVar

from swapconf.files.table_lines import (
    GARBLED,
    HEADER,
    MAX_LINE_BYTES,
    MAX_NUMBER,
    NOT_FOUND,
    TRUNCATED,
    Damage,
    lines,
    shown,
)
from swapconf.words.phrases import phrase

T = TypeVar("T")
KIB, MIB = 1024, 1024**2
_NS = {"ns": 1, "us": 1000, "ms": 10**6}
_NOTHING = frozenset({"", "N/A", "NA", "None", "nan", "null"})
_COLUMN = re.compile(r"(.+?)(?:\((\w+)\))?")
_HINTS = {
    NOT_FOUND: phrase("give a file from the folder ASCEND_PROFILER_OUTPUT"),
    HEADER: phrase("it was written by a version of the profiler that is not known here, or it is another file"),
}
_AGAIN = phrase("let the profiler write it again; nothing is concluded from a damaged file")


class Header:
    """The columns of a file by name without unit."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._columns: dict[str, tuple[int, str]] = {}
        for place, cell in enumerate(cells):
            if match := _COLUMN.fullmatch(cell.strip()):
                self._columns.setdefault(match[1].strip(), (place, match[2] or ""))

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def text(self, *names: str) -> Callable[[Sequence[str]], str]:
        """Reads the first of the columns that there is; "" where there is none, or no value."""
        place = next((self._columns[name][0] for name in names if name in self), None)
        return (lambda row: "") if place is None else (lambda row: value(row[place]))

    def time_ns(self, name: str) -> Callable[[Sequence[str]], int | None]:
        """Reads a time in nanoseconds."""
        return self._scaled(name, _NS)

    def size_bytes(self, name: str, megabyte: int = MIB) -> Callable[[Sequence[str]], int | None]:
        """Reads a size in bytes. A KB is 1024 bytes; how many a MB is can depend on the tool."""
        return self._scaled(name, {"Byte": 1, "KB": KIB, "MB": megabyte})

    def _scaled(self, name: str, units: dict[str, int]) -> Callable[[Sequence[str]], int | None]:
        if name not in self:
            return lambda row: None
        place, unit = self._columns[name]
        if unit not in units:
            raise ValueError(
                phrase(
                    "the unit of {column} is {unit}, not one of {units}",
                    column=name,
                    unit=shown(unit),
                    units=", ".join(units),
                )
            )
        return lambda row: scaled(value(row[place]), units[unit], name)


def rows(path: str | Path, needed: Sequence[str], damage: Damage) -> Iterator[tuple[int, Header, list[str]]]:
    """Each row with the number of its line and the header. Raises SwapconfError when it is another file."""

    def texts() -> Iterator[str]:
        yield from (f"{text}\n" for _, text in lines(path, damage))

    csv.field_size_limit(MAX_LINE_BYTES)
    reader = csv.reader(texts(), strict=True)
    header: Header | None = None
    width = 0
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            damage.add(GARBLED, str(error), reader.line_num)
            break
        if row is None:
            break
        if header is None:
            header, width = _header(row, needed, damage), len(row)
        elif len(row) == width:
            yield reader.line_num, header, row
        elif row:
            damage.add(
                GARBLED,
                phrase("{values} values, where the header names {columns}", values=len(row), columns=width),
                reader.line_num,
            )
    if header is None:
        damage.add(TRUNCATED, phrase("the file is empty"))


def each(
    paths: Sequence[str | Path], needed: Sequence[str], parser: Callable[[Header], Callable[[Sequence[str]], T]]
) -> Iterator[T]:
    """What a parser, which is made for the header of each file, makes of its rows: of all slices of one table.

    Either raises ValueError that says what is wrong. Raises SwapconfError, with a finding for each line that is wrong.
    """
    for path in paths:
        damage = profiler_damage(path)
        parse: Callable[[Sequence[str]], T] | None = None
        for line, header, row in rows(path, needed, damage):
            if parse is None:
                with damage.at(1):
                    parse = parser(header)
            if parse is None:
                break
            made: list[T] = []
            with damage.at(line):
                made.append(parse(row))
            yield from made
        damage.refuse()


def profiler_damage(path: str | Path) -> Damage:
    return Damage(path, _HINTS, _AGAIN)


def _header(row: Sequence[str], needed: Sequence[str], damage: Damage) -> Header:
    header = Header([cell.removeprefix("\ufeff") for cell in row])
    if missing := [name for name in needed if name not in header]:
        damage.add(
            HEADER,
            phrase("no column {columns} in {header}", columns=", ".join(missing), header=shown(",".join(row))),
            1,
        )
    damage.refuse()
    return header


def value(cell: str) -> str:
    """Without the white space around it; "" where it says that there is none."""
    text = cell.strip()
    return "" if text in _NOTHING else text


def scaled(text: str, unit: int, what: str) -> int | None:
    """A decimal number times a unit, rounded; None for nothing. Raises ValueError for anything else."""
    if not text:
        return None
    try:
        number = Decimal(text) * unit
    except DecimalException:  # no number, or one with an exponent beyond all
        number = Decimal("NaN")
    if not number.is_finite() or abs(number) > MAX_NUMBER:
        raise ValueError(phrase("{what} is {text}, not a number", what=what, text=shown(text)))
    return round(number)
