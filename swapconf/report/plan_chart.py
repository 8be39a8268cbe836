"""FRONTIER -> TEXT: how much longer a step takes for every budget, with what people use today on the same axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from swapconf.plan.frontier import AnyPlan, Frontier, FrontierPoint
from swapconf.report import plan_told
from swapconf.words.columns import Column, PrintedTable, milliseconds, record, size, table, words
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import show_bytes

_HEIGHT, _WIDTH = 12, 68
_INDENT = " " * 10
_PLAN, _OTHER, _LETTERS = "P", "o", "abcdefgh"
_ABOVE = 1.5  # times what simple strategies take in the middle: what is slower stands in the uppermost row


def chart(frontier: Frontier[AnyPlan]) -> list[str]:
    """Lines of text, at most 80 wide: the marks are those of `points`, `|` is the budget."""
    marks = [(point, _OTHER) for point in frontier.points]
    marks += zip(frontier.simple, _LETTERS, strict=False)
    marks.append((frontier.chosen, _PLAN))
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
    return [*lines, *(joined("", [_INDENT, line]) for line in _legend(frontier))]


def _legend(frontier: Frontier[AnyPlan]) -> Iterator[str]:
    yield memory_told(frontier)
    yield phrase("steps with the slower host link; | the budget; ^ slower than drawn")


def memory_told(frontier: Frontier[AnyPlan]) -> str:
    """What the memory of a point counts."""
    if frontier.has_workspace:
        return phrase("memory that a card needs, with fragments and workspace")
    return phrase("memory that a card needs, with fragments, without the workspace of operators")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    """``strategy``: in words, or its name."""

    mark: str
    point: FrontierPoint[Any]
    change: float
    beyond: bool
    strategy: str


_POINTS: tuple[Column[_Point], ...] = (
    words(phrase("mark"), lambda item: item.mark),
    size(phrase("needs"), lambda item: item.point.needed_bytes, "needed_bytes"),
    Column(key="used_peak_bytes", value=lambda item: item.point.used_bytes),
    Column(key="step_us", value=lambda item: item.point.nominal_us),
    milliseconds(phrase("step ms"), lambda item: item.point.step_us, "step_us_slower_link"),
    Column(
        title=phrase("change"),
        shown=lambda item: f"{item.change:+.2%}{'^' if item.beyond else ''}",
        key="change",
        value=lambda item: item.change,
    ),
    Column(key="host_peak_bytes", value=lambda item: item.point.host_bytes),
    Column(key="moved_bytes_per_step", value=lambda item: item.point.moved_bytes),
    words(phrase("strategy"), lambda item: item.strategy),
)


def points(frontier: Frontier[AnyPlan]) -> PrintedTable:
    """What each memory costs in time, and by which strategy; the plan first, then the lowest memory."""
    marked = [(_PLAN, frontier.chosen), *((_OTHER, point) for point in frontier.points)]
    marked += zip(_LETTERS, frontier.simple, strict=False)
    return table(_POINTS, (_told(frontier, mark, point) for mark, point in marked))


def records(frontier: Frontier[AnyPlan], prefetch_key: str) -> list[dict[str, Any]]:
    """The points of the JSON form. ``prefetch_key``: what the YAML calls a prefetch."""
    return [
        {
            **record(_POINTS, _told(frontier, _OTHER, point)),
            "entries": plan_told.point_records(point.entries, prefetch_key),
        }
        for point in frontier.points
    ]


def _told(frontier: Frontier[AnyPlan], mark: str, point: FrontierPoint[AnyPlan]) -> _Point:
    change = frontier.change(point)
    asked = point.name or plan_told.in_words(point.entries, frontier.num_layers)
    strategy = asked or phrase("no swap, no recompute")
    return _Point(mark=mark, point=point, change=change, beyond=change > scale_top(frontier), strategy=strategy)


def scale_top(frontier: Frontier[AnyPlan]) -> float:
    """The longest change of a step that is drawn to scale: the last of what memory can be had for is often so slow that
    all else would lie on one line."""
    longest = max((frontier.change(point) for point in (*frontier.points, *frontier.simple)), default=0.0)
    usual = sorted(change for point in frontier.simple if (change := frontier.change(point)) > 0)
    middle = usual[(len(usual) - 1) // 2] if usual else longest
    return max(min(longest, _ABOVE * middle), 1.1 * frontier.change(frontier.chosen), 0.01)


def _place(value: float, low: float, high: float, length: int) -> int:
    return max(0, min(length, round(length * (value - low) / (high - low)))) if high > low else 0
