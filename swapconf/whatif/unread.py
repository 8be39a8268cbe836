"""BASELINE + SITES -> SITES: of whose output the backward pass has a copy although no gradient reads it, or reads a
view; and what is given to views that nothing saves."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from swapconf.models.network import Network
from swapconf.trace.columns import Flags, Ints
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.laid_out import GRADIENT_VIEW
from swapconf.whatif.sites import Sites

_ONE_HOT = "OneHotExt"
_FACTORS = frozenset({"Div", "MeanExt"})


def unread(baseline: Baseline, of_node: Ints, names: tuple[tuple[str, str], ...], network: Network) -> Ints:
    """A site that a Reshape reads which the model itself recomputes: MindSpore copies what that would read again, and
    finds only later that a Reshape needs nothing run (measured with 2.9.0: the MatMuls of mcore's Linears). So with a
    Cast of a Cast, whose gradient needs to know no more than the type (the norms of query and key); not in models with
    experts (measured: Qwen3 in 8 of 8 runs, Qwen3 MoE in none of 6), and see `copied_unread`. So with what the
    loss of a router multiplies with what needs no gradient (Qwen3 MoE: in 5 of 5). Where only
    communication reads it, or a view that was put in for that, or a view of a Cast, there is no Reshape, although the
    catalog knows one for another layout."""
    templates = {layer.name: layer.template.by_path for layer in network.layers}
    site = np.full(len(of_node), -1, dtype=np.int64)
    reader, face = baseline.edges
    cast = np.zeros(len(of_node), dtype=np.bool_)
    is_cast = baseline.kernels.primitives == "Cast"
    has_experts = GRADIENT_VIEW in baseline.kernels.primitive
    cast[face[is_cast[reader] & is_cast[face]]] = not has_experts
    nodes, main = np.arange(len(of_node)), baseline.kernels.stream[reader] == 0
    only_sent = np.isin(nodes, face) & ~np.isin(nodes, face[main])
    sent = only_sent & baseline.kernels.is_lost & (baseline.below >= 0)
    sent |= only_sent & baseline.views & is_cast[np.maximum(baseline.below, 0)]
    local = np.isin(nodes, face[main & ~sent[reader]])
    of_indices, handed = _of_indices(baseline), _handed_out(baseline, network)
    for node in np.flatnonzero((of_node >= 0) & ~baseline.is_read_again & (local | handed)).tolist():
        layer, path = names[of_node[node]]
        operator, by_path = templates[layer][path], templates[layer]
        if not operator.saved:
            continue
        if of_indices[node] or handed[node]:
            site[node] = of_node[node]
        if not baseline.kernels.is_lost[node] and baseline.kernels.primitive[node] not in VIEWS:
            readers = [by_path[reader] for reader in operator.consumers if reader in by_path]
            is_factor = has_experts and operator.type in _FACTORS
            again = any(reader.preset_recompute and reader.type in VIEWS for reader in readers)
            if cast[node] or is_factor or again:
                site[node] = of_node[node]
    return site


def _handed_out(baseline: Baseline, network: Network) -> Flags:
    """[kernels] what the norm behind the layers casts, where communication stands between that cast and the norm: the
    model recomputes the cast, and MindSpore finds only later that no gradient needs it (measured with 2.9.0: the last
    sum of a legacy Llama under sequence parallelism)."""
    handed = np.zeros(len(baseline.kernels), dtype=np.bool_)
    if any(
        operator.preset_recompute and operator.type == "Cast"
        for template in network.templates
        for operator in template.primitives
    ):
        kernels, reads = baseline.kernels, baseline.reads
        outside = (kernels.layer < 0) & (kernels.primitives == "Cast") & ~kernels.backward
        handed[reads.face[outside[reads.kernel] & (reads.face >= 0)]] = True
    return handed


def _of_indices(baseline: Baseline) -> Flags:
    """[kernels] views of which a router makes one-hot vectors, which have no gradient."""
    reader, face = baseline.edges
    one_hot = (baseline.kernels.primitives == _ONE_HOT)[reader]
    views = np.zeros(len(baseline.kernels), dtype=np.bool_)
    views[face[one_hot]] = True
    views[face[~one_hot]] = False
    return views & baseline.views


def viewed(baseline: Baseline, of_node: Ints, of_merged: Ints) -> Ints:
    """As `Sites.of_viewed`; of two views that MindSpore has merged the first one reads it."""
    view_site = np.full(len(of_node), -1, dtype=np.int64)
    views = np.flatnonzero(baseline.views & (of_node >= 0) & (baseline.below >= 0))
    first = np.where(of_merged >= 0, of_merged, of_node)
    view_site[baseline.below[views]] = first[views]
    view_site[baseline.is_read_again | (of_node < 0)] = -1
    return view_site


def given_to_unsaved(
    baseline: Baseline, sites: Sites, selected: Collection[tuple[str, str]], again: Flags, flagged: Flags
) -> Flags:
    """[kernels] what a view shows that nothing saves, and that runs again by itself, is copied to the host for nobody,
    as is what else is given to a primitive whose recompute was asked for (see `site_actions.copied_unread`), although a
    gradient reads it through other views, which are copied for themselves: OffloadActivationOptimizer
    (frontend/parallel/pass/offload_activation.cc) asks node by node (measured with MindSpore 2.10.0: the Transpose in
    front of ``core_attention.reshape`` of TeleChat3). What no gradient reads at all is not (2.9.0: in front of
    ``apply_rotary_emb_classic.reshape`` of GLM; why, was not found). ``selected``: views whose recompute was asked for
    by their own names, by layer name and path. ``again``: [sites], and one more for none; ``flagged``: [kernels] that
    run again."""
    shown = (int(baseline.below[view]) for view, name in sites.unsaved if name in selected)
    given = np.zeros(len(baseline.kernels), dtype=np.bool_)
    given[[node for node in shown if node >= 0]] = True
    given[baseline.reads.face[baseline.kernels.backward[baseline.reads.kernel]]] = False
    given &= baseline.is_read_again
    return given & (sites.of_node >= 0) & ~again[sites.of_node] & ~baseline.splits & ~flagged
