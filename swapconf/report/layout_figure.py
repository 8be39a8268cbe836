"""ROWS -> FIGURE: the memory that a card needs in a layout and what a step takes there, in terms of plotly.js."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from swapconf.layout.ranked import Row
from swapconf.report.layout_text import strategy
from swapconf.report.plan_figure import CHOSEN, PLANS, SIMPLE, axes
from swapconf.words.phrases import phrase, show
from swapconf.words.units import axis_unit, show_bytes, show_range

_ROOM = 0.08  # of the axes, around what is drawn
_THINNER = 4  # how much lighter a range is than its point


def layout_figure(rows: Sequence[Row], best: Row | None, budget_bytes: int, place: str) -> dict[str, Any]:
    """``place``: id of the element to draw in. Each point carries its number in ``rows`` and its range."""
    unit, size = axis_unit(max(row.needed_bytes for row in rows))
    numbered = list(enumerate(rows))

    def trace(name: str, colour: str, members: Sequence[tuple[int, Row]], symbol: str, width: int) -> dict[str, Any]:
        ranges = [row.parts.range_us for _, row in members]
        return {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [round(row.needed_bytes / size, 6) for _, row in members],
            "y": [round(row.parts.step_us / 1000, 4) for _, row in members],
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [
                    round((high - row.parts.step_us) / 1000, 4)
                    for (_, row), (_, high) in zip(members, ranges, strict=True)
                ],
                "arrayminus": [
                    round((row.parts.step_us - low) / 1000, 4)
                    for (_, row), (low, _) in zip(members, ranges, strict=True)
                ],
                "thickness": 1,
                "width": _THINNER,
            },
            "customdata": [number for number, _ in members],
            "hovertext": [_told(row) for _, row in members],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {"color": colour, "symbol": symbol, "size": width},
        }

    others = [item for item in numbered if item[1] is not best and not item[1].is_as_it_is]
    data = [
        trace(show(phrase("layouts")), PLANS, others, "circle", 10),
        trace(show(phrase("the YAML as it is")), SIMPLE, [one for one in numbered if one[1].is_as_it_is], "square", 11),
        trace(show(phrase("the best")), CHOSEN, [one for one in numbered if one[1] is best], "star", 17),
    ]
    low, high = (edge(row.needed_bytes for row in rows) / size for edge in (min, max))
    upwards = {
        "title": {"text": show(phrase("a step"))},
        "ticksuffix": " ms",
        "rangemode": "tozero",
        "zeroline": False,
        "automargin": True,
    }
    room = max(_ROOM * (high - low), 0.02 * high)
    layout = axes((low, high), room, unit, budget_bytes, budget_bytes / size, upwards)
    return {"place": place, "data": data, "layout": layout, "names": []}


def _told(row: Row) -> str:
    low, high = row.parts.range_us
    lines = [
        f"<b>{escape(row.layout.name, quote=False)}</b>",
        escape(show(strategy(row)), quote=False),
        show(phrase("needs {size}", size=show_bytes(row.needed_bytes))),
        show(phrase("a step of {step}", step=show_range(row.parts.step_us, low, high))),
    ]
    return "<br>".join(lines)
