"""BASELINE -> PLACES: the layer and the cell of each node."""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.upstream.primitives import NORM
from swapconf.whatif.baseline import Baseline


def places_of(baseline: Baseline) -> tuple[Ints, tuple[tuple[str, str], ...]]:
    """[kernels] the row of its layer and cell among all of them, -1 outside of layers."""
    kernels = baseline.kernels
    places: dict[tuple[str, str], int] = {}
    of_place = np.full(len(kernels), -1, dtype=np.int64)
    slices = _of_norms(baseline)
    for node in np.flatnonzero(kernels.passing >= 0).tolist():
        place = baseline.layer_of(node), slices.get(node, kernels.cell[node])
        of_place[node] = places.setdefault(place, len(places))
    return of_place, tuple(places)


def _of_norms(baseline: Baseline) -> dict[int, str]:
    """The cell of the norm for which parallelism slices what the first layer is given: each reader changes the layout
    for itself, and the layer has given its name to what both are then (measured with MindSpore 2.9.0: with sequence
    parallelism `input_layernorm` of GLM, recomputed alone, slices once more)."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    sliced = (kernels.primitives[face] == "StridedSlice") & (kernels.passing[face] == kernels.passing[reader])
    sliced &= (kernels.primitives == NORM)[reader]
    pairs = zip(face[sliced].tolist(), reader[sliced].tolist(), strict=True)
    return {node: kernels.cell[norm] for node, norm in pairs if not kernels.cell[node]}
