"""SWEEP -> FIGURE: the peak, and the time of a step where a card is given, over the prefetch, in terms of plotly.js."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from swapconf.whatif.sweep import Point, best_overall
from swapconf.words.phrases import phrase, show
from swapconf.words.units import axis_unit, show_bytes

_STEP, _WAITING, _PEAK = "#4e79a7", "#f28e2b", "#59a14f"
_TWICE, _CRASH = "#edc948", "#e15759"


def sweep_figure(points: Sequence[Point], place: str) -> dict[str, Any]:
    """``place``: id of the element to draw in. Above the time of a step and what of it waits for copies, below the
    peak; behind them yellow where two copies of a tensor live, red where MindSpore crashes."""
    unit, size = axis_unit(max(point.peak_bytes for point in points))
    prefetches = [point.prefetch for point in points]
    data = [
        _line(
            show(phrase("used peak")),
            _PEAK,
            "y",
            prefetches,
            [point.peak_bytes / size for point in points],
            [show_bytes(point.peak_bytes) for point in points],
        )
    ]
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "backward_prefetch", "standoff": 6}, "zeroline": False, "anchor": "y"},
        "yaxis": {"title": {"text": show(phrase("used peak"))}, "ticksuffix": f" {unit}", "zeroline": False},
        "margin": {"l": 96, "r": 12, "t": 30, "b": 44},
        "height": 400,
        "showlegend": False,
        "hovermode": "x unified",
        "dragmode": "zoom",
        "hoverlabel": {"align": "left", "namelength": -1},
        "shapes": [
            *_bands(points, _CRASH, lambda point: point.crashes),
            *_bands(points, _TWICE, lambda point: point.twice_bytes > 0 and not point.crashes),
        ],
    }
    timed = [point.time for point in points if point.time is not None]
    if len(timed) == len(points):
        data += [
            _line(
                show(phrase("a step")),
                _STEP,
                "y2",
                prefetches,
                [time.step_us / 1000 for time in timed],
                [f"{time.step_us / 1000:.3f} ms" for time in timed],
            ),
            _line(
                show(phrase("of it waiting for copies")),
                _WAITING,
                "y2",
                prefetches,
                [time.exposed_copy_us / 1000 for time in timed],
                [f"{time.exposed_copy_us / 1000:.3f} ms" for time in timed],
            ),
        ]
        layout["yaxis"] |= {"domain": [0, 0.44]}
        layout["yaxis2"] = {
            "title": {"text": show(phrase("a step; orange: waiting for copies"))},
            "domain": [0.52, 1],
            "ticksuffix": " ms",
            "zeroline": False,
            "rangemode": "tozero",
            "anchor": "x",
        }
        layout["height"] = 620
    best = best_overall(points)
    if best is not None:
        layout["shapes"].append(
            {
                "type": "line",
                "x0": best.prefetch,
                "x1": best.prefetch,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"width": 1, "dash": "dot"},
            }
        )
        layout["annotations"] = [
            {
                "x": best.prefetch,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
                "text": show(phrase("best overall: {prefetch}", prefetch=best.prefetch)),
            }
        ]
    return {"place": place, "data": data, "layout": layout, "names": []}


def _line(name: str, colour: str, axis: str, x: list[int], y: list[float], told: list[str]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) < 60 else "lines",
        "name": name,
        "x": x,
        "y": [round(value, 6) for value in y],
        "yaxis": axis,
        "line": {"width": 2, "color": colour},
        "marker": {"color": colour, "size": 5},
        "customdata": told,
        "hovertemplate": "%{customdata}",
    }


def _bands(points: Sequence[Point], colour: str, wanted: Callable[[Point], bool]) -> Iterator[dict[str, Any]]:
    """A band from the first to the last of each run of points that are wanted, half a unit wider on both sides."""
    for is_wanted, group in groupby(points, wanted):
        members = list(group)
        if is_wanted:
            yield {
                "type": "rect",
                "x0": members[0].prefetch - 0.5,
                "x1": members[-1].prefetch + 0.5,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "fillcolor": colour,
                "opacity": 0.15,
                "line": {"width": 0},
                "layer": "below",
            }
