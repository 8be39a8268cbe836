"""PARAMETERS and constants of the whole model -> the order in which they are made.

MindSpore makes the parameters of one layer behind those of the layer before, in the order of the layers or, those that
only the backward pass or the optimizer reads, against it (measured: Llama-3.1-8B of 9 to 32 layers). Where they stand
decides which gaps are left for what lives shorter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from swapconf.trace.columns import Ints


class _Series(NamedTuple):
    """Parameters of a kind that come layer after layer (``way``: 1) or against that (-1). ``turns``: their layers,
    times that; ``places``: which of all they are."""

    way: int
    turns: list[int]
    places: list[int]


def in_order(
    rows: Sequence[int], copies: Sequence[int], layers: Sequence[int], kinds: Sequence[str], known: int
) -> Ints:
    """[all] the turn of each. ``rows``: the block of the run that each is made from, those up to ``known`` as they are;
    ``layers``: its layer in the whole model, below zero for none; ``kinds``: its name without the layer."""
    series = _series(layers[:known], kinds[:known])
    ends = _ends(rows[:known], layers[:known], kinds[:known], series)
    keys = []
    for index, (row, copy) in enumerate(zip(rows, copies, strict=True)):
        anchor, away = row, copy + 1
        if index < known:
            away = 0
        elif (beside := series.get(kinds[index])) is not None and layers[index] >= 0:
            turn = layers[index] * beside.way
            before = max(bisect_right(beside.turns, turn) - 1, 0)
            anchor, away = ends[beside.places[before]], turn - beside.turns[before]
        keys.append((anchor, away, row))
    turns = np.empty(len(keys), dtype=np.int64)
    turns[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return turns


def _series(layers: Sequence[int], kinds: Sequence[str]) -> Mapping[str, _Series]:
    """By kind; without those in no order."""
    found: dict[str, list[int]] = {}
    for place, (layer, kind) in enumerate(zip(layers, kinds, strict=True)):
        if layer >= 0:
            found.setdefault(kind, []).append(place)
    series = {}
    for kind, places in found.items():
        way = -1 if layers[places[0]] > layers[places[-1]] else 1
        turns = [layers[place] * way for place in places]
        if all(one < other for one, other in pairwise(turns)):
            series[kind] = _Series(way, turns, places)
    return series


def _ends(rows: Sequence[int], layers: Sequence[int], kinds: Sequence[str], series: Mapping[str, _Series]) -> list[int]:
    """[known] the last block of those of the same layer that follow each in a row, going the same way."""
    ends = list(rows)
    ways = [series[kind].way if kind in series else 0 for kind in kinds]
    for place in range(len(rows) - 2, -1, -1):
        if layers[place] >= 0 and (layers[place], ways[place]) == (layers[place + 1], ways[place + 1]):
            ends[place] = ends[place + 1]
    return ends
