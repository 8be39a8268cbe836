"""PARAMETERS and constants of the whole model -> the order in which they are made.

MindSpore makes the parameters of one layer behind those of the layer before, in the order of the layers or, those that
only the backward pass or the optimizer reads, against it (measured: Llama-3.1-8B of 9 to 32 layers). Where they stand
decides which gaps are left for what lives shorter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from swapconf.trace.columns import Ints


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
            before = max(bisect_right(beside, (layers[index] * beside[0][2], known)) - 1, 0)
            anchor = ends[beside[before][1]]
            away = layers[index] * beside[0][2] - beside[before][0]
        keys.append((anchor, away, row))
    turns = np.empty(len(keys), dtype=np.int64)
    turns[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return turns


def _series(layers: Sequence[int], kinds: Sequence[str]) -> Mapping[str, list[tuple[int, int, int]]]:
    """Of kinds that come layer after layer or against that: (layer, negative against it; place; 1 or -1) of each."""
    found: dict[str, list[tuple[int, int]]] = {}
    for place, (layer, kind) in enumerate(zip(layers, kinds, strict=True)):
        if layer >= 0:
            found.setdefault(kind, []).append((layer, place))
    return {
        kind: [(layer * way, place, way) for layer, place in beside]
        for kind, beside in found.items()
        for way in (1, -1)
        if all(one[0] * way < other[0] * way for one, other in pairwise(beside)) and (way > 0 or len(beside) > 1)
    }


def _ends(
    rows: Sequence[int], layers: Sequence[int], kinds: Sequence[str], series: Mapping[str, list[tuple[int, int, int]]]
) -> list[int]:
    """[known] the last block of those of the same layer that follow each in a row, going the same way."""
    ends = list(rows)
    ways = [series[kind][0][2] if kind in series else 0 for kind in kinds]
    for place in range(len(rows) - 2, -1, -1):
        if layers[place] >= 0 and (layers[place], ways[place]) == (layers[place + 1], ways[place + 1]):
            ends[place] = ends[place + 1]
    return ends
