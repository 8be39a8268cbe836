"""BASELINE + SITES + NETWORK -> VIEWS that MindSpore has made of two: of the output of a Linear, and of what reads it.

A layer that is recomputed as a whole is a graph of its own until late, and has both of them (measured with MindSpore
2.9.0: families of mcore, with lazy inline). A view more or less moves what reads constants alone, as the loss does.

Elsewhere the two are one before MindSpore looks for what runs again: it has the primitive of the first, with the flags
of that, and the scope of the second (`TwoReshapeEliminater`, frontend/optimizer/irpass/reshape_eliminate.cc).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from swapconf.models.cells import FIRST_LINEAR, MLP, MORPHED
from swapconf.models.network import Network
from swapconf.upstream.scopes import descends
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.site_actions import SiteActions
from swapconf.whatif.sites import Sites

_MORPH = f".{MORPHED}"
_ENDS = ("Cast", "MatMul")  # what that Reshape reads
_FIRST = f"{MLP}.{FIRST_LINEAR}"


def merged_views(baseline: Baseline, sites: Sites, network: Network) -> frozenset[int]:
    """Nodes."""
    kernels, homes, with_morph = baseline.kernels, sites.homes(baseline), morphs(network)
    merged, split = list[int](), _split(baseline)
    for view in np.flatnonzero(baseline.views & (baseline.below >= 0) & (kernels.passing >= 0)).tolist():
        below = int(baseline.below[view])
        if kernels.primitive[below] not in _ENDS:
            continue
        if (baseline.layer_of(view), homes[below]) not in with_morph:
            continue
        is_named = not kernels.is_lost[view] and homes[view] != homes[below]
        if is_named or (homes[below] == _FIRST and view in split):
            merged.append(view)
    return frozenset(merged)


def as_first(baseline: Baseline, sites: Sites, actions: SiteActions, apart: Collection[int]) -> Sites:
    """A merged view in a recomputed cell runs again as the first of the two does, also where the recompute of the
    second is excluded (measured with MindSpore 2.9.0: ``attention.reshape`` of legacy Llama; behind ``merged_views``,
    which are ``apart``, that is kept). A first one that was asked for by itself is a call until late, and not merged
    yet."""
    merged, node = sites.of_merged, sites.of_node
    taken = (merged >= 0) & actions.excluded[node] & actions.again[merged] & (actions.cell[merged] >= 0)
    taken[list(apart)] = False
    views = np.flatnonzero(taken).tolist()
    return sites.taken_for(
        baseline, [(view, int(merged[view])) for view in views if _are_in_one_cell(sites, actions, view)]
    )


def _are_in_one_cell(sites: Sites, actions: SiteActions, view: int) -> bool:
    """The recomputed cells around the first of two are around the second, too."""
    (layer, first), (_, second) = sites.names[sites.of_merged[view]], sites.names[sites.of_node[view]]
    return all(descends(second, {root}) for root in actions.roots[layer] if descends(first, {root}))


def _split(baseline: Baseline) -> frozenset[int]:
    """Views without a name that are split in two at once, as by an MLP with interleaved weights, which has a Reshape of
    its own in front of that."""
    reader, face = baseline.edges
    parts = baseline.views[face] & baseline.kernels.is_lost[face] & baseline.splits[reader] & ~baseline.views[reader]
    return frozenset(face[parts].tolist())


def morphs(network: Network) -> frozenset[tuple[str, str]]:
    """(layer name, cell) of all cells that have a Morph."""
    return frozenset(
        (layer.name, path.removesuffix(_MORPH))
        for layer in network.layers
        for path in layer.template.by_path
        if path.endswith(_MORPH)
    )
