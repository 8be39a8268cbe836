"""BASELINE -> PLACES: the layer and the cell of each node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.upstream.primitives import NORM
from swapconf.whatif.baseline import Baseline


def places_of(
    baseline: Baseline, of_node: Ints, names: Sequence[tuple[str, str]]
) -> tuple[Ints, tuple[tuple[str, str], ...]]:
    """[kernels] the row of its layer and cell among all of them, -1 outside of layers. ``of_node``: [kernels] the site
    of each, as row of ``names``, or -1."""
    kernels = baseline.kernels
    places: dict[tuple[str, str], int] = {}
    of_place = np.full(len(kernels), -1, dtype=np.int64)
    known = _of_norms(baseline) | _of_lost_views(baseline, of_node, names)
    for node in np.flatnonzero(kernels.passing >= 0).tolist():
        place = baseline.layer_of(node), known.get(node, kernels.cell[node])
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


def _of_lost_views(baseline: Baseline, of_node: Ints, names: Sequence[tuple[str, str]]) -> dict[int, str]:
    """The cell of the operator that a view is, where its name told none and that of what it shows was taken for it (the
    Reshape with which a Linear begins, behind a norm)."""
    kernels, below = baseline.kernels, baseline.below
    views = np.flatnonzero(baseline.views & kernels.is_lost & (of_node >= 0) & (below >= 0)).tolist()
    return {
        view: names[of_node[view]][1].rpartition(".")[0]
        for view in views
        if kernels.cell[view] == kernels.cell[int(below[view])]
    }
