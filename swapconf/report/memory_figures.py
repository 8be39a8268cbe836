"""MEMORY VIEW -> FIGURES: the charts of the page in the terms of plotly.js, as data for JSON.

Colours of text and grid are left to the page, which knows whether it is dark.
"""

from __future__ import annotations

import re
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np

from swapconf.memory.memory_view import MemoryView
from swapconf.report.findings_text import printable
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.words.phrases import phrase, show
from swapconf.words.units import Unit, show_bytes

Figure = dict[str, Any]

# Tableau 10, told apart on white and on black
COLOURS = {
    Category.WEIGHT: "#4e79a7",
    Category.OPTIMIZER: "#b07aa1",
    Category.GRADIENT: "#e15759",
    Category.ACTIVATION: "#59a14f",
    Category.RECOMPUTED: "#9bd18c",
    Category.SWAP: "#ff9da7",
    Category.COMMUNICATION: "#76b7b2",
    Category.WORKSPACE: "#9c755f",
    Category.CONSTANT: "#a7a9ac",
    Category.TEMPORARY: "#edc948",
}
_LINE_WIDTH = 72
_BREAK = re.compile(r"(?<=[/.])")
_ROOM = 1.08
_BORDER_FROM = 0.012  # of the height


def timeline_figure(view: MemoryView, place: str, unit: Unit, top_bytes: int) -> Figure:
    """Used memory over time, stacked by category, the peak marked. ``place``: id of the element to draw in."""
    line = view.timeline
    time = _events(line.time, view)
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "used",
            "name": show(phrase(category.value)),
            "x": time,
            "y": _scaled(line.by_category[category], unit),
            "line": {"shape": "hv", "width": 0.5, "color": COLOURS[category]},
            "fillcolor": COLOURS[category],
            "customdata": [show_bytes(size) for size in line.by_category[category].tolist()],
            "hovertemplate": "%{customdata}",
        }
        for category in CATEGORIES
        if category in line.by_category
    ]
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": show(phrase("in use")),
            "x": time,
            "y": _scaled(line.used_bytes, unit),
            "line": {"shape": "hv", "width": 1},
            "showlegend": False,
            "meta": "ink",
            "customdata": [show_bytes(size) for size in line.used_bytes.tolist()],
            "hovertemplate": "<b>%{customdata}</b>",
        }
    )
    peak = {"x": view.peak_time / view.ticks, "y": round(view.used_peak_bytes / unit.size_bytes, 6)}
    is_late = bool(len(time)) and peak["x"] > (time[0] + time[-1]) / 2
    layout = _layout(view, unit, top_bytes) | {
        "hovermode": "x unified",
        "shapes": [
            {
                "type": "line",
                "x0": peak["x"],
                "x1": peak["x"],
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"width": 1, "dash": "dot"},
            }
        ],
        "annotations": [
            peak
            | {
                "text": show(phrase("peak {size}", size=show_bytes(view.used_peak_bytes))),
                "showarrow": True,
                "arrowhead": 2,
                "ay": -14,
                "ax": -46 if is_late else 46,
                "xanchor": "right" if is_late else "left",
            }
        ],
    }
    return {"place": place, "data": data, "layout": layout, "names": []}


def blocks_figure(view: MemoryView, place: str, unit: Unit, top_bytes: int) -> Figure:
    """Blocks over time and place: free memory between them is what fragments cost."""
    blocks = view.blocks
    data = [_rectangles(view, index, unit) for index in np.unique(blocks.category).tolist()]
    peak = view.peak_time / view.ticks
    borders = np.cumsum([0, *blocks.piece_bytes])
    layout = _layout(view, unit, top_bytes) | {
        "hovermode": "closest",
        "barmode": "overlay",
        "bargap": 0,
        "shapes": [
            {
                "type": "line",
                "x0": 0,
                "x1": 1,
                "xref": "paper",
                "y0": border,
                "y1": border,
                "line": {"width": 1, "dash": "dash"},
            }
            for border in _scaled(borders[1:], unit)
        ]
        + [
            {
                "type": "line",
                "x0": peak,
                "x1": peak,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"width": 1, "dash": "dot"},
            }
        ],
    }
    return {"place": place, "data": data, "layout": layout, "names": [plotly_text(name) for name in blocks.names]}


def plotly_text(name: str) -> str:
    """A name as plotly.js shows it: folded into lines, all of it visible, and nothing in it taken for HTML."""
    lines: list[str] = []
    for part in _BREAK.split(printable(name)):
        if lines and len(lines[-1]) + len(part) <= _LINE_WIDTH:
            lines[-1] += part
        else:
            lines += wrap(part, _LINE_WIDTH) or [part]
    return "<br>".join(escape(line, quote=False) for line in lines)  # it knows no name for quotes


def _rectangles(view: MemoryView, index: int, unit: Unit) -> Figure:
    """The blocks of one category: bars that begin at their birth. The page puts names for ``hovertext``. Only blocks
    that are large enough have a border, else there would be nothing but borders."""
    blocks, category = view.blocks, CATEGORIES[index]
    rows = np.flatnonzero(blocks.category == index)
    start, end = blocks.start[rows], blocks.end[rows]
    is_large = blocks.size_bytes[rows] > sum(blocks.piece_bytes) * _BORDER_FROM
    about = [
        [
            show_bytes(size),
            show(phrase("layer {index}", index=layer) if layer >= 0 else phrase("outside of the layers")),
            show(phrase("to {last:,}", last=last) if released else phrase("on, never released")),
        ]
        for size, layer, last, released in zip(
            *(
                column[rows].tolist()
                for column in (blocks.size_bytes, blocks.layer, blocks.end // view.ticks, blocks.is_released)
            ),
            strict=True,
        )
    ]
    name = phrase(category.value)
    told = phrase(
        "{size} {category}, {layer}<br>alive from event {first} {until}",
        size="<b>%{customdata[0]}</b>",
        category=name,
        layer="%{customdata[1]}",
        first="%{x:,d}",
        until="%{customdata[2]}",
    )
    return {
        "type": "bar",
        "name": show(name),
        "offset": 0,
        "x": _events(start, view),
        "width": _events(end - start, view),
        "base": _scaled(blocks.bottom[rows], unit),
        "y": _scaled(blocks.size_bytes[rows], unit),
        "marker": {
            "color": COLOURS[category],
            "line": {"width": np.where(is_large, 0.5, 0).tolist(), "color": "rgba(0, 0, 0, 0.5)"},
        },
        "hovertext": blocks.name[rows].tolist(),
        "customdata": about,
        "textposition": "none",
        "hovertemplate": f"%{{hovertext}}<br>{show(told)}<extra></extra>",
    }


def _layout(view: MemoryView, unit: Unit, top_bytes: int) -> Figure:
    time = _events(view.timeline.time, view)
    span = [time[0], time[-1]] if time else [0, 1]
    return {
        "xaxis": {
            "title": {"text": show(phrase("event")), "standoff": 6},
            "range": span,
            "zeroline": False,
            "tickformat": ",d",
        },
        "yaxis": {
            "range": [0, round(top_bytes / unit.size_bytes * _ROOM, 6) or 1],
            "ticksuffix": f" {unit.name}",
            "zeroline": False,
        },
        "margin": {"l": 76, "r": 12, "t": 30, "b": 44},
        "height": 400,
        "showlegend": False,
        "dragmode": "zoom",
        "hoverlabel": {"align": "left", "namelength": -1},
    }


def _events(times: np.ndarray[Any, np.dtype[np.int64]], view: MemoryView) -> list[float]:
    events: list[float] = np.round(times / view.ticks, 3).tolist()
    return events


def _scaled(sizes: np.ndarray[Any, np.dtype[np.int64]], unit: Unit) -> list[float]:
    scaled: list[float] = np.round(sizes / unit.size_bytes, 6).tolist()
    return scaled
