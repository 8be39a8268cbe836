"""FRONTIER -> TEXT: how much longer a step takes for every budget, with what people use today on the same axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapconf.plan.frontier import Frontier, FrontierPoint
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import show_bytes

_HEIGHT, _WIDTH = 12, 72
_INDENT = " " * 10
_LETTERS = "abcdefgh"
_ABOVE = 1.5  # times what simple strategies take in the middle: what is slower stands in the uppermost row


def chart(frontier: Frontier) -> list[str]:
    """Lines of text: `o` is a plan, `P` the one for the budget, `|` the budget, letters are simple strategies."""
    marks = [(point, "o") for point in frontier.points]
    marks += [(point, letter) for point, letter in zip(frontier.simple, _LETTERS, strict=False)]
    marks.append((frontier.chosen, "P"))
    low, high = (edge(point.needed_bytes for point, _ in marks) for edge in (min, max))
    top = scale_top(frontier)
    rows = [[" "] * (_WIDTH + 1) for _ in range(_HEIGHT + 1)]
    if low <= frontier.budget_bytes <= high:
        column = _place(frontier.budget_bytes, low, high, _WIDTH)
        for row in rows:
            row[column] = "|"
    for point, mark in marks:
        height = _place(min(frontier.change(point), top), 0.0, top, _HEIGHT)
        rows[_HEIGHT - height][_place(point.needed_bytes, low, high, _WIDTH)] = mark
    lines: list[str] = [joined("", [_INDENT, phrase("longer step than without swap and recompute")])]
    for number, row in enumerate(rows):
        share = top * (_HEIGHT - number) / _HEIGHT
        label = f"{share:+.1%}" if number % 3 == 0 else ""
        lines.append(f"{label:>8} |{''.join(row)}".rstrip())
    lines.append(f"{'':>8} +{'-' * (_WIDTH + 1)}")
    ends = show_bytes(low), show_bytes(high)
    lines.append(f"{_INDENT}{ends[0]}{ends[1]:>{_WIDTH + 1 - len(ends[0])}}")
    return [*lines, *_legend(frontier, top)]


def scale_top(frontier: Frontier) -> float:
    """The longest change of a step that is drawn to scale: the last of what memory can be had for is often so slow that
    all else would lie on one line."""
    longest = max((frontier.change(point) for point in (*frontier.points, *frontier.simple)), default=0.0)
    usual = sorted(change for point in frontier.simple if (change := frontier.change(point)) > 0)
    middle = usual[(len(usual) - 1) // 2] if usual else longest
    return max(min(longest, _ABOVE * middle), 1.1 * frontier.change(frontier.chosen), 0.01)


def _place(value: float, low: float, high: float, length: int) -> int:
    return max(0, min(length, round(length * (value - low) / (high - low)))) if high > low else 0


def _legend(frontier: Frontier, top: float) -> Iterator[str]:
    yield joined(
        "",
        [
            _INDENT,
            phrase("memory that a card needs, with fragments and workspace; P the plan, | the budget; o other plans:"),
        ],
    )
    yield from _lines([("P", phrase("the plan"), frontier.chosen)], frontier, top)
    yield from _lines([("o", phrase("a plan"), point) for point in frontier.points], frontier, top)
    yield from _lines(
        [(letter, point.name, point) for point, letter in zip(frontier.simple, _LETTERS, strict=False)], frontier, top
    )


def _lines(named: Sequence[tuple[str, str, FrontierPoint]], frontier: Frontier, top: float) -> Iterator[str]:
    for letter, name, point in named:
        change = frontier.change(point)
        beyond = "^" if change > top else " "
        yield joined("", [f"{_INDENT}{letter} {show_bytes(point.needed_bytes):>8} {change:+9.2%}{beyond} ", name])
