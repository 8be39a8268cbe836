"""TIMELINE VIEW -> FIGURE: streams of all ranks above one another and their memory below, as data for timeline.js.

All kernels are in there; the page draws neighbours below a pixel as one, so that it stays fluid at any zoom.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swapconf.report.memory_figures import plotly_text
from swapconf.timing.timeline_view import Lane, RankLanes, TimelineView
from swapconf.timing.timing import KINDS, Floats, KernelKind
from swapconf.upstream.scopes import GRADIENTS, in_layer
from swapconf.words.phrases import joined, mark, phrase, show
from swapconf.words.units import Unit

# Tableau 10, as the categories of memory have them: computing, and what else holds or moves tensors
COLOURS = {
    KernelKind.COMPUTE: "#4e79a7",
    KernelKind.COLLECTIVE: "#76b7b2",
    KernelKind.TO_HOST: "#f28e2b",
    KernelKind.TO_DEVICE: "#b07aa1",
}
STAGE_COLOURS = ("#4e79a7", "#e15759", "#59a14f", "#b07aa1", "#f28e2b", "#76b7b2", "#9c755f", "#ff9da7")
BUBBLE_COLOUR = "#a7a9ac"
# what timeline.js says, where it puts values for the names in braces
_WORDS = {
    "kernel": mark("{kind}, {time} from {start}"),
    "kernels": mark(
        "<b>{number} kernels</b>, {kind}<br>{busy} of {span} from {start}; zoom in to tell them apart<br>"
        "the longest: {longest}, {where}"
    ),
    "waits": mark("computing stands still for it {time}"),
    "stall": mark("computing stands still for {time} because of:"),
    "stalls": mark("computing stands still for {time} because of {number} more:"),
    "bubble": mark("<b>bubble</b>: {rank} waits for another<br>{time} from {start}"),
    "memory": mark("{rank}<br><b>{size}</b> at {time}"),
    "clock": mark("microseconds"),
    "used": mark("device memory in use"),
}
_BLANKS = {
    name: f"{{{name}}}"
    for name in ("kind", "time", "start", "number", "busy", "span", "longest", "where", "rank", "size")
}


def step_figure(view: TimelineView, place: str, unit: Unit, top_bytes: int, longest_us: float) -> dict[str, Any]:
    """``place``: id of the element to draw in. ``top_bytes``, ``longest_us``: of all timelines of the page, which share
    their scales."""
    return {
        "place": place,
        "longest": round(longest_us, 3),
        "top": round(top_bytes / unit.size_bytes, 6) or 1,
        "unit": unit.name,
        "bubble": BUBBLE_COLOUR,
        "words": {name: show(phrase(text, **_BLANKS)) for name, text in _WORDS.items()},
        "kinds": [{"name": show(phrase(kind.value)), "colour": COLOURS[kind]} for kind in KINDS],
        "ranks": [
            _rank(rank, name, unit, colour) for rank, (name, colour) in zip(view.ranks, stages_of(view), strict=True)
        ],
    }


def kinds_of(view: TimelineView) -> list[tuple[str, str]]:
    """(name, colour) of what occurs."""
    found = {lane.kind for rank in view.ranks for lane in rank.lanes}
    return [(phrase(kind.value), COLOURS[kind]) for kind in KINDS if kind in found]


def stages_of(view: TimelineView) -> list[tuple[str, str]]:
    """(name, colour of its memory) of each rank."""
    names = [
        phrase("stage {stage} (rank {rank})", stage=rank.stage, rank=rank.rank)
        if len(view.ranks) > 1
        else phrase("rank {rank}", rank=rank.rank)
        for rank in view.ranks
    ]
    return [(name, STAGE_COLOURS[index % len(STAGE_COLOURS)]) for index, name in enumerate(names)]


def _rank(rank: RankLanes, title: str, unit: Unit, colour: str) -> dict[str, Any]:
    scopes = list(dict.fromkeys(name.rpartition("/")[0] for name in rank.names))
    place = {scope: index for index, scope in enumerate(scopes)}
    return {
        "title": show(title),
        "colour": colour,
        "leaves": [plotly_text(name.rpartition("/")[2]) for name in rank.names],
        "scope": [place[name.rpartition("/")[0]] for name in rank.names],
        "scopes": [{"cells": plotly_text(scope), "where": plotly_text(_where(scope))} for scope in scopes],
        "lanes": [_lane(lane) for lane in rank.lanes],
        "stalls": {
            "start": _rounded(rank.stalls_us[:, 0]),
            "end": _rounded(rank.stalls_us[:, 1]),
            "name": rank.staller.tolist(),
            "kind": rank.staller_kind.tolist(),
        },
        "bubbles": {"start": _rounded(rank.bubbles_us[:, 0]), "end": _rounded(rank.bubbles_us[:, 1])},
        "memory": {"time": _rounded(rank.memory_us), "used": np.round(rank.memory_bytes / unit.size_bytes, 6).tolist()},
    }


def _lane(lane: Lane) -> dict[str, Any]:
    return {
        "kind": KINDS.index(lane.kind),
        "start": _rounded(lane.start_us),
        "end": _rounded(lane.end_us),
        "name": lane.name.tolist(),
        "exposed": _rounded(lane.exposed_us),
    }


def _where(scope: str) -> str:
    """Layer and operator in words."""
    found = in_layer(scope)
    if found is None:
        return phrase("outside of the layers")
    layer = (
        phrase("extra layer {index}", index=found.index)
        if found.is_extra
        else phrase("layer {index}", index=found.index)
    )
    if scope.startswith(GRADIENTS):
        layer = phrase("backward pass of {layer}", layer=layer)
    return joined(", ", [layer, found.cell]) if found.cell else layer


def _rounded(times: Floats) -> list[float]:
    rounded: list[float] = np.round(times, 3).tolist()
    return rounded
