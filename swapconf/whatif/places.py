"""BASELINE -> PLACES: the layer and the cell of each node."""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.whatif.baseline import Baseline


def places_of(baseline: Baseline) -> tuple[Ints, tuple[tuple[str, str], ...]]:
    """[kernels] the row of its layer and cell among all of them, -1 outside of layers."""
    kernels = baseline.kernels
    places: dict[tuple[str, str], int] = {}
    of_place = np.full(len(kernels), -1, dtype=np.int64)
    for node in np.flatnonzero(kernels.passing >= 0).tolist():
        place = baseline.layer_of(node), kernels.cell[node]
        of_place[node] = places.setdefault(place, len(places))
    return of_place, tuple(places)
