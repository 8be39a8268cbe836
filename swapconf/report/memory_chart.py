"""MEMORY VIEW -> TEXT: used memory by category over time, in characters.

In colour a cell has the colour of the category that fills the most of it; without colour, its letter.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from swapconf.memory.memory_view import MemoryCurves, MemoryView
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.words.phrases import phrase, show
from swapconf.words.units import show_bytes

HEIGHT = 14
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LETTERS = {
    Category.WEIGHT: "W",
    Category.OPTIMIZER: "O",
    Category.GRADIENT: "G",
    Category.ACTIVATION: "A",
    Category.RECOMPUTED: "R",
    Category.SWAP: "S",
    Category.COMMUNICATION: "C",
    Category.WORKSPACE: "K",
    Category.CONSTANT: "N",
    Category.TEMPORARY: "T",
}
_COLOURS = {
    Category.WEIGHT: "blue",
    Category.OPTIMIZER: "magenta",
    Category.GRADIENT: "red",
    Category.ACTIVATION: "green",
    Category.RECOMPUTED: "bright_green",
    Category.SWAP: "bright_yellow",
    Category.COMMUNICATION: "cyan",
    Category.WORKSPACE: "bright_black",
    Category.CONSTANT: "white",
    Category.TEMPORARY: "yellow",
}


def chart(view: MemoryView, width: int, *, in_colour: bool, height: int = HEIGHT) -> Text:
    """The lines of the chart, at most ``width`` wide: the highest moment of each column, stacked in the order of
    CATEGORIES, a mark below the peak, and what the colours or letters mean."""
    line = view.timeline
    if not len(line.time) or not view.used_peak_bytes:
        return Text(show(phrase("No device memory was used.")))
    label_width = max(len(show_bytes(size)) for size in (view.used_peak_bytes, view.used_peak_bytes // 2)) + 1
    num_columns = max(width - label_width - 1, 10)
    moments = _moments(line, num_columns)
    categories = [category for category in CATEGORIES if category in line.by_category]
    stack = np.array([line.by_category[category][moments] for category in categories])
    levels = np.concatenate([np.zeros((1, num_columns)), np.cumsum(stack, axis=0)]) * (height / view.used_peak_bytes)
    rows = [_row(levels, row, categories, in_colour) for row in reversed(range(height))]
    labels = {0: view.used_peak_bytes, height // 2: view.used_peak_bytes // 2}
    text = Text()
    for index, row in enumerate(rows):
        label = show_bytes(labels[index]) if index in labels else ""
        row.rstrip()
        text.append(f"{label:>{label_width}} ").append_text(row).append("\n")
    text.append(" " * (label_width + 1)).append_text(_foot(view, num_columns)).append("\n")
    return text.append_text(_legend(categories, width, in_colour))


def _moments(line: MemoryCurves, num_columns: int) -> NDArray[np.intp]:
    """For each column the place of its highest moment; nothing happened in it: the last one before."""
    column = _column(line, line.time, num_columns)
    used = line.used_bytes
    chosen, current = np.zeros(num_columns, dtype=np.intp), 0
    for index in range(num_columns):
        inside = np.flatnonzero(column == index)
        chosen[index] = inside[used[inside].argmax()] if len(inside) else current
        current = int(inside[-1]) if len(inside) else current
    return chosen


def _column(line: MemoryCurves, time: NDArray[np.int64] | int, num_columns: int) -> NDArray[np.int64]:
    first, last = int(line.time[0]), int(line.time[-1])
    return np.asarray((time - first) * num_columns // (last - first + 1), dtype=np.int64)


def _row(levels: NDArray[np.float64], row: int, categories: list[Category], in_colour: bool) -> Text:
    """One line of cells: ``levels`` [number of categories + 1, columns] in lines from the bottom."""
    parts = np.diff(np.clip(levels, row, row + 1), axis=0)
    cells = [
        _cell(share, categories[category], in_colour)
        for share, category in zip(parts.sum(axis=0).tolist(), parts.argmax(axis=0).tolist(), strict=True)
    ]
    text = Text()
    for style, run in groupby(cells, key=itemgetter(1)):
        text.append("".join(character for character, _ in run), style=style)
    return text


def _cell(share: float, category: Category, in_colour: bool) -> tuple[str, str]:
    """The character and its style for a cell of which a ``share`` is filled."""
    if in_colour:
        eighths = round(share * 8)
        return _EIGHTHS[eighths], _COLOURS[category] if eighths else ""
    return _LETTERS[category] if share >= 0.5 else " ", ""


def _foot(view: MemoryView, num_columns: int) -> Text:
    """Below the chart: the peak's place, and what the time is."""
    place = int(_column(view.timeline, view.peak_time, num_columns))
    words = show(phrase("peak {size} at event {event}", size=show_bytes(view.used_peak_bytes), event=view.peak_event))
    if place + 2 + cell_len(words) <= num_columns:
        return Text(f"{'^':>{place + 1}} {words}")
    mark = f"{words} ^"
    while cell_len(mark) > num_columns:
        mark = mark[1:]
    return Text(" " * (place + 1 - cell_len(mark)) + mark)


def _legend(categories: list[Category], width: int, in_colour: bool) -> Text:
    text = Text()
    room = width
    for category in categories:
        mark, name = "█" if in_colour else _LETTERS[category], show(phrase(category.value))
        gap, needed = ("   ", cell_len(name) + 5) if room < width else ("", cell_len(name) + 2)
        if needed > room:
            gap, needed, room = "\n", cell_len(name) + 2, width
        text.append(gap).append(mark, style=_COLOURS[category] if in_colour else "").append(f" {name}")
        room -= needed
    return text
