"""BASELINE + SITES -> COMMUNICATION, and the views that it sends: what runs again, what is left out, whose swap counts.

MindSpore marks a change of layout between two primitives where the one that reads the tensor, or else the one that
makes it, carries ``recompute_comm_op`` (InsertRedistribution). In front of a Reshape the change is a part of that, and
only the Reshape counts (StepReplaceOp). What is cast in between counts as its maker, a norm in front of a Linear, and
the cast itself does not (measured: Qwen3 with sequence parallelism). To it a Linear of mcore is one primitive, a Morph
with a layout of its own (``self_define_shard``; mindformers, ``tensor_parallel/layers.py``), so where that of the Morph
is asked for, all counts that its product reads. Its function is put in its place later: behind the Reshape with which
that begins, the product itself does not count (measured with 2.9.0 and 2.7.2: Qwen3, `linear_qkv.matmul`,
`linear_fc1.matmul`, `linear_fc1.morphed_forward`).
"""

from __future__ import annotations

import numpy as np

from swapconf.decide.strategy import Strategy
from swapconf.models.cells import BIAS, MATMUL, MORPHED, MORPHED_WITH_BIAS
from swapconf.trace.columns import Flags, Ints
from swapconf.upstream.primitives import RESHAPE
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.redistributed import changes_layout, is_function
from swapconf.whatif.site_actions import SiteActions
from swapconf.whatif.sites import Sites, sums_of_products

_PRODUCT = "MatMul"


def communicated(baseline: Baseline, sites: Sites, asked: Flags, morphed: Flags) -> Flags:
    """[kernels] ``asked``: [sites], and one more for none; ``morphed``: see `products_of_morphs`."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    if not (asked | morphed).any():
        return np.zeros(len(kernels), dtype=np.bool_)
    put_in = (sites.of_node < 0) & (kernels.passing >= 0) & ~kernels.backward
    steps = put_in & changes_layout(baseline, sites)
    views = kernels.primitives == RESHAPE
    beside, among = asked[sites.of_node], steps | put_in & views
    casts = (kernels.primitives == "Cast") & ~kernels.backward
    makes = beside & ~casts
    makes |= spread(reader, face, makes, casts)
    in_reshape = spread(face, reader, views & ~put_in, among)
    products, of_reshape = kernels.primitives == _PRODUCT, np.zeros(len(kernels), dtype=np.bool_)
    of_reshape[reader[views[face] & steps[reader]]] = True
    own = sums_of_products(baseline)
    marked = spread(face, reader, beside & ~products, among & ~own)
    marked |= spread(face, reader, beside & products, among & ~of_reshape)
    marked |= spread(face, reader, morphed[sites.of_node], among)
    marked |= spread(reader, face, makes, among & ~own) & ~in_reshape
    return np.asarray(marked & (steps | spread(face, reader, marked & steps, marked)))


def products_of_morphs(sites: Sites, strategy: Strategy) -> Flags:
    """[sites], and one more for none: products of Linears of whose Morph that was asked for, the one with a bias where
    they add one, else the one without."""
    products = np.zeros(len(sites.names) + 1, dtype=np.bool_)
    asked = ((entry.layer, path) for entry in strategy.layers for path, on in entry.plan.comm_recompute.items() if on)
    for layer, path in asked:
        cell, _, name = path.rpartition(".")
        bias, row = layer.template.by_path.get(f"{cell}.{BIAS}"), sites.row_of.get((layer.name, f"{cell}.{MATMUL}"))
        is_added = bias is not None and bias.executed is not False
        if row is not None and name == (MORPHED_WITH_BIAS if is_added else MORPHED):
            products[row] = True
    return products


def of_views_left_out(baseline: Baseline, sites: Sites, excluded: Flags) -> Flags:
    """[kernels] communication that sends what a view shows whose recompute is ``excluded``: [sites], and one more."""
    if not excluded.any():
        return np.zeros(len(baseline.kernels), dtype=np.bool_)
    of_view = np.zeros(len(excluded), dtype=np.bool_)
    of_view[sites.of_node[baseline.views]] = True
    return np.asarray((sites.of_node < 0) & (excluded & of_view)[sites.of_moved])


def views_left_out(baseline: Baseline, sites: Sites, actions: SiteActions) -> list[int]:
    """Views that nothing saves and that are excluded, but for those that the model calls as functions: of what a
    Transpose shows, in front of norms of query and key, and behind flash attention in GLM."""
    views = [view for view, name in sites.unsaved if name in actions.left_out]
    reader, face = baseline.edges
    rows = np.flatnonzero(np.isin(face, views))
    read = zip(face[rows].tolist(), reader[rows].tolist(), strict=True)
    functions = {view for view, user in read if is_function(baseline, view, user)}
    return [view for view in views if int(baseline.below[view]) not in baseline.turned and view not in functions]


def gathered_once(baseline: Baseline, sites: Sites, actions: SiteActions, program: StrategyProgram) -> Ints:
    """[uses] the site whose swap moves what is read. What communication makes of equal views of several Linears is one,
    and the flags of the Linear that it is named after count, as long as the recompute of both is alike, and that of
    their products (measured with MindSpore 2.9.0: sequence parallelism of legacy Llama)."""
    site, face = program.site, program.face
    own = sites.of_moved[face]
    sent = (face >= 0) & (site >= 0) & (own >= 0) & (baseline.kernels.stream[face] != 0) & (sites.of_node[face] < 0)
    for flag in (actions.again, actions.excluded, _products_left_out(sites, actions)):
        sent &= flag[site] == flag[own]
    return np.where(sent, own, site)


def _products_left_out(sites: Sites, actions: SiteActions) -> Flags:
    """[sites], and one more: of Linears whose product is left out of recompute, which reads on the device."""
    is_left_out = np.zeros(len(sites.names) + 1, dtype=np.bool_)
    if actions.left_out:
        products = ((layer, f"{path.rpartition('.')[0]}.{MATMUL}") for layer, path in sites.names)
        is_left_out[:-1] = [product in actions.left_out for product in products]
    return is_left_out


def spread(to: Ints, from_: Ints, starts: Flags, among: Flags) -> Flags:
    """[kernels] those ``among`` which an edge, or a row of them, joins to ``starts``."""
    reached = np.zeros(len(starts), dtype=np.bool_)
    while True:
        more = reached.copy()
        more[to[among[to] & (starts | reached)[from_]]] = True
        if (more == reached).all():
            return reached
        reached = more
