"""BASELINE + recomputed layers -> where casts of weights that move run.

Where the copies of weights that norms read stand with room before their readers in every micro-batch, the casts of
weights that move stand behind them, the first micro-batch included (see `Baseline.anchors`), and both stand behind the
last layer in front of theirs that is recomputed as a whole (measured with MindSpore 2.9.0: models of mcore).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.whatif.baseline import Baseline


def upfront(baseline: Baseline, whole: Collection[str]) -> Ints:
    """[kernels] as `Baseline.upfront`. ``whole``: the names of the layers that are recomputed as a whole."""
    walls = _walls(baseline, whole)
    if not walls:
        return baseline.upfront
    kernels, place = baseline.kernels, baseline.upfront.copy()
    has_room: dict[tuple[int, str], bool] = {}  # by cast, in the first micro-batch
    for node in np.flatnonzero(baseline.rootless & (kernels.primitives == "Cast")).tolist():
        kind = int(kernels.layer[node]), kernels.cell[node]
        wall = walls.get(int(kernels.passing[node]), -1)
        if has_room.setdefault(kind, node in baseline.anchors) and wall > place[node] >= 0:
            place[node] = wall
    return place


def _walls(baseline: Baseline, whole: Collection[str]) -> dict[int, int]:
    """By pass the first node behind the last such layer in front of it in its micro-batch."""
    walls = dict[int, int]()
    for batch in baseline.batches:
        wall = -1
        for number, behind in zip(batch, [*batch[1:], -1], strict=True):
            if wall >= 0:
                walls[number] = wall
            if baseline.layer_of(number) in whole and behind >= 0:
                wall = baseline.first_nodes[behind]
    return walls
