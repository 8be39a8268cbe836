"""Bytes in words and back, times, and runs of numbers. M and G are MiB and GiB, as MindSpore writes and reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from swapconf.words.phrases import phrase

MIB = 1 << 20
GIB = 1 << 30
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": MIB, "G": GIB, "T": 1 << 40}
_SIZE = r"(?i)\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?\s*"


def parse_bytes(text: str) -> int:
    """``54GB`` -> 57982058496. Raises ValueError, which says what is taken. Without a unit, less than 1 MiB is taken
    for a unit that was forgotten, but for 0."""
    match = re.fullmatch(_SIZE, text)
    if match is None:
        raise ValueError(phrase("'{text}' is not a size; write for example 54GB or 900MB", text=text[:40]))
    if not match[2] and not text.strip().upper().endswith("B") and 0 < float(match[1]) < MIB:
        raise ValueError(
            phrase("'{text}' is {text} bytes; write {text}GB, or {text}B if bytes are meant", text=text.strip())
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])


def show_bytes(size_bytes: int | None) -> str:
    """Three digits and a unit; ``-`` where it is not known."""
    if size_bytes is None:
        return "-"
    for unit, factor in (("G", GIB), ("M", MIB), ("K", 1 << 10)):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:.{2 if unit == 'G' else 1}f}{unit}"
    return f"{size_bytes}B"


def show_ms(*times_us: float) -> tuple[str, ...]:
    """Milliseconds, with as many decimals as the first needs for four digits."""
    first = times_us[0] / 1000
    decimals = max(0, 4 - len(str(int(first))))
    return tuple(f"{time / 1000:.{decimals}f}" for time in times_us)


def show_range(time_us: float, low_us: float, high_us: float) -> str:
    """``1453 ms, 1190 to 1820``: a time and what it may be."""
    time, low, high = show_ms(time_us, low_us, high_us)
    return phrase("{time} ms, {low} to {high}", time=time, low=low, high=high)


class Unit(NamedTuple):
    """Of an axis of bytes; named as `show_bytes` names it."""

    name: str
    size_bytes: int


def axis_unit(top_bytes: int) -> Unit:
    """For an axis up to this size."""
    return Unit("G", GIB) if top_bytes >= GIB else Unit("M", MIB)


def runs(numbers: Iterable[int]) -> list[str]:
    """``["0-2", "5"]``: each number once, ascending, neighbours as a range."""
    ordered = enumerate(sorted(set(numbers)))
    found = [[number for _, number in run] for _, run in groupby(ordered, lambda item: item[1] - item[0])]
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found]


class Span(NamedTuple):
    """The numbers from ``first`` to ``last``, of which each ``step``-th counts."""

    first: int
    last: int
    step: int = 1


def spans(numbers: Iterable[int]) -> list[Span]:
    """Each number once, in as few ranges and strides as they follow each other in, a stride of three numbers or more:
    ``[0, 2, 4, 5, 6]`` -> 0 to 4 by 2, 5 to 6."""
    left = sorted(set(numbers))
    found = []
    while left:
        step = left[1] - left[0] if len(left) > 1 else 1
        count = next((place for place in range(1, len(left)) if left[place] != left[0] + place * step), len(left))
        if step > 1 and count < _STRIDE:
            step, count = 1, 1
        found.append(Span(left[0], left[count - 1], step))
        left = left[count:]
    return found


_STRIDE = 3  # numbers: of two nobody would say that they are every other one
