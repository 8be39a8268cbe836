"""FRONTIER -> FIGURE: the memory that a card needs and what a step takes, in terms of plotly.js."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from swapconf.plan.frontier import AnyPlan, Frontier, FrontierPoint
from swapconf.report.plan_chart import scale_top
from swapconf.words.phrases import phrase, plural, show
from swapconf.words.units import axis_unit, show_bytes

PLANS, CHOSEN, SIMPLE = "#4e79a7", "#e15759", "#f28e2b"
_ROOM = 0.05  # of the axes, around what is drawn


def shown(frontier: Frontier[AnyPlan]) -> list[FrontierPoint[AnyPlan]]:
    """All that the figure draws, in the order of its numbers."""
    return [*frontier.points, frontier.chosen, *frontier.simple]


def frontier_figure(frontier: Frontier[AnyPlan], place: str) -> dict[str, Any]:
    """``place``: id of the element to draw in. Each point carries its number in `shown`. What is so slow that all
    else would lie on one line is above what is seen at first."""
    points = shown(frontier)
    unit, size = axis_unit(max(point.needed_bytes for point in points))
    count = len(frontier.points)
    low, high = (edge(point.needed_bytes for point in points) / size for edge in (min, max))
    room, top = max(_ROOM * (high - low), 0.001 * high), scale_top(frontier) * 100

    def trace(
        name: str, colour: str, first: int, members: Sequence[FrontierPoint[AnyPlan]], **more: Any
    ) -> dict[str, Any]:
        return {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [round(point.needed_bytes / size, 6) for point in members],
            "y": [round(100 * frontier.change(point), 4) for point in members],
            "customdata": list(range(first, first + len(members))),
            "hovertext": [_told(frontier, point) for point in members],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {"color": colour, "size": 9, **more.pop("marker", {})},
            **more,
        }

    data = [
        trace(
            show(phrase("plans")),
            PLANS,
            0,
            frontier.points,
            mode="lines+markers",
            line={"shape": "hv", "width": 2, "color": PLANS},
        ),
        trace(
            show(phrase("what people use today")),
            SIMPLE,
            count + 1,
            frontier.simple,
            marker={"symbol": "square", "size": 10},
        ),
        trace(show(phrase("the plan")), CHOSEN, count, [frontier.chosen], marker={"symbol": "star", "size": 17}),
    ]
    layout = axes(
        (low, high),
        room,
        unit,
        frontier.budget_bytes,
        frontier.budget_bytes / size,
        {
            "title": {"text": show(phrase("longer step"))},
            "ticksuffix": " %",
            "range": [-_ROOM * top, (1 + _ROOM) * top],
            "zeroline": False,
        },
    )
    return {"place": place, "data": data, "layout": layout, "names": []}


def axes(
    ends: tuple[float, float], room: float, unit: str, budget_bytes: int, budget: float, upwards: dict[str, Any]
) -> dict[str, Any]:
    """Memory of a card to the right, with the budget where that is near. ``ends``: of what is drawn, ``budget``: both
    in the unit of the axis; ``upwards``: the other axis."""
    low, high = ends
    drawn = low - room <= budget <= high + room
    return {
        "xaxis": {
            "title": {"text": show(phrase("memory that a card needs")), "standoff": 6},
            "ticksuffix": f" {unit}",
            "range": [low - room, high + room],
            "zeroline": False,
        },
        "yaxis": upwards,
        "margin": {"l": 76, "r": 14, "t": 30, "b": 46},
        "height": 460,
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": "zoom",
        "hoverlabel": {"align": "left", "namelength": -1},
        "shapes": [_line(budget)] * drawn,
        "annotations": [_budget(budget_bytes, budget, nearly_right=budget > (low + high) / 2)] * drawn,
    }


def _line(budget: float) -> dict[str, Any]:
    line = {"width": 1.5, "dash": "dot"}
    return {"type": "line", "x0": budget, "x1": budget, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _budget(budget_bytes: int, budget: float, *, nearly_right: bool) -> dict[str, Any]:
    return {
        "x": budget,
        "y": 1,
        "yref": "paper",
        "xanchor": "right" if nearly_right else "left",
        "yanchor": "top",
        "xshift": -4 if nearly_right else 4,
        "showarrow": False,
        "text": show(phrase("budget: {size}", size=show_bytes(budget_bytes))),
    }


def _told(frontier: Frontier[AnyPlan], point: FrontierPoint[AnyPlan]) -> str:
    lines = [
        f"<b>{escape(show(point.name or phrase('a plan')), quote=False)}</b>",
        show(phrase("needs {size}", size=show_bytes(point.needed_bytes))),
        show(
            phrase(
                "a step of {step:.3f} ms ({change})",
                step=point.step_us / 1000,
                change=f"{100 * frontier.change(point):+.2f} %",
            )
        ),
        show(plural(len(point.entries), "{count} entry", "{count} entries")),
    ]
    return "<br>".join(lines)
