"""STRATEGY + SITES -> ACTIONS: what is asked of each site, in columns."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from swapconf.decide.cover import runs_again_anyway
from swapconf.decide.strategy import Keep, LayerStrategy, Recompute, Strategy
from swapconf.models.cells import FIRST_LINEAR, FIRST_VIEW, MLP_NORM, SELF_ATTENTION
from swapconf.models.network import Operator
from swapconf.trace.columns import Flags, Ints
from swapconf.upstream.primitives import MAKE_SEVERAL, NORM, RESHAPE
from swapconf.upstream.scopes import descends
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.sites import Sites, sums_of_products

_FIRST_OF_MLP = f"{FIRST_LINEAR}.{FIRST_VIEW}"
_NEED_NO_VALUE = ("Add", "AddExt", "Cast", "Concat")  # their gradients, of what they read
_SUMMED = "AllReduce"
_TAKE_TUPLES = ("AddN", "Concat", "Stack", "StackExt")


@dataclass(frozen=True, kw_only=True)
class SiteActions:
    """By site.

    Attributes:
        by_model: It runs again as the model itself marks it, and nothing else does.
        cell: Index into ``cells`` of the outermost cell whose recompute covers it, -1 for none: a cell in a recomputed
            cell has no output that is kept (measured with MindSpore 2.9.0).
        roots: By layer name, the operators whose recompute was asked for.
        comm: The recompute of its communication was asked for; ``beside``: of all for which it was, by layer name and
            path.
        excluded: Its recompute is excluded; ``left_out``: all whose recompute is, by layer name and path.
        reshapes: A Reshape whose recompute was asked for by its own name; ``alone``: one that runs again by itself, and
            that the model does not mark: what parallelism makes of it is marked like it (StepReplaceOp; measured with
            MindSpore 2.9.0: ``mlp.dense_4h_to_h.reshape`` of GLM).
        handed_on: A recomputed cell without operators hands on its first output.
    """

    again: Flags
    by_model: Flags
    comm: Flags
    beside: frozenset[tuple[str, str]]
    excluded: Flags
    left_out: frozenset[tuple[str, str]]
    reshapes: Flags
    alone: Flags
    handed_on: Flags
    prefetch: Ints
    cell: Ints
    cells: tuple[str, ...]
    roots: dict[str, frozenset[str]]

    @property
    def moved_alike(self) -> Ints:
        """By site: MindSpore merges equal views where it is the same, and copies each of the others: the prefetch, and
        whether the recompute of communication was asked for (measured with MindSpore 2.9.0)."""
        return np.where(self.prefetch >= 0, 2 * self.prefetch + self.comm, -1)


def site_actions(sites: Sites, strategy: Strategy) -> SiteActions:
    action_of, operators = strategy.actions(), strategy.operators
    again = np.zeros(len(sites.names) + 1, dtype=np.bool_)
    alone, by_model = np.zeros_like(again), np.zeros_like(again)
    cell = np.full(len(again), -1, dtype=np.int64)
    cells: dict[str, int] = {}
    roots: dict[str, set[str]] = {}
    asked = _asked_beside(strategy)
    marked = {name: Recompute(root=name[1]) for name, entry in asked.items() if _is_marked(entry, name[1])}
    for index, name in enumerate(sites.names):
        action = marked.get(name, action_of.get(name))
        if isinstance(action, Recompute):
            again[index] = True
            by_model[index] = runs_again_anyway(operators[name[0]][name[1]], action)
            roots.setdefault(name[0], set()).add(action.root)
            if action.root != name[1]:
                cells.setdefault(action.root, len(cells))
            elif action_of.get(name) == action:
                alone[index] = _is_unmarked_reshape(operators[name[0]][name[1]])
    for index in np.flatnonzero(again[:-1]).tolist():
        layer, path = sites.names[index]
        around = [root for root in roots[layer] if root in cells and root != path and descends(path, {root})]
        if around:
            cell[index] = cells[min(around, key=len)]
    left = {(entry.layer.name, path) for entry in strategy.layers for path in entry.plan.excluded}
    handed = {(entry.layer.name, path) for entry in strategy.layers for path in entry.plan.handed_on}
    return SiteActions(
        again=again,
        comm=_among(asked.keys(), sites),
        beside=frozenset(asked),
        excluded=_among(left, sites),
        left_out=frozenset(left),
        reshapes=_among(reshapes_asked_for(strategy), sites),
        by_model=by_model,
        alone=alone,
        handed_on=_among(handed, sites),
        prefetch=prefetches(sites, strategy, again),
        cell=cell,
        cells=tuple(cells),
        roots={layer: frozenset(paths) for layer, paths in roots.items()},
    )


def reshapes_asked_for(strategy: Strategy) -> set[tuple[str, str]]:
    """Those that an entry of ``select_recompute`` names."""
    return {
        (entry.layer.name, path)
        for entry in strategy.layers
        for path in entry.plan.selected & entry.layer.template.by_path.keys()
        if _is_reshape(entry, path)
    }


def prefetches(sites: Sites, strategy: Strategy, again: Flags) -> Ints:
    """[sites], and one more for none: that of what moves, -1 for the rest. ``again``: what runs again never moves."""
    of_site = np.full(len(sites.names) + 1, -1, dtype=np.int64)
    for entry in strategy.layers:
        for path, prefetch in entry.plan.prefetches.items():
            of_site[sites.row_of.get((entry.layer.name, path), -1)] = prefetch
    of_site[-1] = -1
    return np.where(again, -1, of_site)


def _asked_beside(strategy: Strategy) -> dict[tuple[str, str], LayerStrategy]:
    """The operators beside which the recompute of communication is asked for."""
    return {
        (entry.layer.name, path): entry
        for entry in strategy.layers
        for path, on in entry.plan.comm_recompute.items()
        if on
    }


def _is_marked(entry: LayerStrategy, path: str) -> bool:
    """A Reshape of which the recompute of communication is asked for, and that nothing else is decided for: MindSpore
    replaces it by what parallelism makes of it, and marks all of that (StepReplaceOp)."""
    decision = entry.plan.decisions.get(path)
    is_free = decision is not None and isinstance(decision.action, Keep)
    return is_free and _is_reshape(entry, path)


def _is_reshape(entry: LayerStrategy, path: str) -> bool:
    return entry.layer.template.by_path[path].type == RESHAPE


def _is_unmarked_reshape(operator: Operator) -> bool:
    """Which the model itself does not mark to run again."""
    return operator.type == RESHAPE and not operator.preset_recompute


def _among(asked: Set[tuple[str, str]], sites: Sites) -> Flags:
    """[sites], and one more for none."""
    is_among = np.zeros(len(sites.names) + 1, dtype=np.bool_)
    if asked:
        is_among[:-1] = [name in asked for name in sites.names]
    return is_among


def views_named(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] views of which the recompute of communication was asked for, also those that nothing saves."""
    named = baseline.views & actions.comm[sites.of_node]
    named[[view for view, name in sites.unsaved if name in actions.beside]] = True
    return np.asarray(named)


def on_device(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] of one output, which a norm or flash attention reads whose recompute is excluded, or which a recomputed
    cell without operators hands on to a norm: they stay on the device. What is excluded itself is in `decide.expand`,
    and so are its readers of other types (measured with MindSpore 2.9.0: Cast, Transpose, Reshape and AddExt)."""
    kernels, reads = baseline.kernels, baseline.reads
    if not (actions.excluded.any() or actions.handed_on.any()):
        return np.zeros(len(kernels), dtype=np.bool_)
    reading = actions.excluded[sites.of_node] & np.isin(kernels.primitives, list(MAKE_SEVERAL))
    stays = np.zeros(len(kernels), dtype=np.bool_)
    stays[reads.face[reading[reads.kernel] & (reads.face >= 0)]] = True
    stays |= _viewed_by_left_out(baseline, sites, actions)
    handed = actions.handed_on[sites.of_node][reads.face] & (reads.face >= 0)
    for reader, face in zip(reads.kernel[handed].tolist(), reads.face[handed].tolist(), strict=True):
        stays[face] |= not kernels.backward[reader] and kernels.cell[reader].endswith(MLP_NORM)
    return stays & (baseline.num_made <= 1)


def casts_kept(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] casts in no recomputed cell that the model itself recomputes, and that a norm reads whose own recompute
    is excluded: its gradient reads what the forward pass made (measured with MindSpore 2.9.0: legacy Llama)."""
    primitives = baseline.kernels.primitives
    if not actions.excluded.any():
        return np.zeros(len(primitives), dtype=np.bool_)
    read = baseline.read_by(actions.excluded[sites.of_node] & (primitives == NORM))
    return np.asarray(read & (primitives == "Cast") & (baseline.twin >= 0) & (actions.cell[sites.of_node] < 0))


def _read_by_kept(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] what casts read that are kept after all, also the sum that the layer before hands on."""
    reads, kept = baseline.reads, casts_kept(baseline, sites, actions)
    return np.asarray(np.isin(np.arange(len(kept)), reads.face[kept[reads.kernel]]))


def _viewed_by_left_out(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] what a view shows that runs again by itself, where that of its reader is excluded: it is copied to the
    host, but what runs again reads it on the device (measured with MindSpore 2.9.0: the Cast in front of a Linear)."""
    stays = np.zeros(len(baseline.kernels), dtype=np.bool_)
    if not actions.excluded.any():
        return stays
    reads, again = baseline.reads, actions.again & (actions.cell < 0)
    viewed = (baseline.views & again[sites.of_node])[reads.face] & (reads.face >= 0)
    viewed &= actions.excluded[sites.of_node][reads.kernel] & ~baseline.kernels.backward[reads.kernel]
    shown = baseline.below[reads.face[viewed]]
    stays[shown[shown >= 0]] = True
    return stays


def asked_alone(sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] nodes whose recompute was asked for themselves, and not by a cell around them, too."""
    again = actions.again.copy()
    for site in np.flatnonzero(again).tolist():
        layer, path = sites.names[site]
        again[site] = not descends(path.rpartition(".")[0], actions.roots[layer])
    return np.asarray(again[sites.of_node])


def _summed_for_reshapes(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] sums over ranks that a Reshape reads whose recompute was asked for by its own name (measured with
    MindSpore 2.9.0: the second product of the network of Qwen3 and of GLM)."""
    summed = np.zeros(len(baseline.kernels), dtype=np.bool_)
    if actions.reshapes.any():
        first = np.where(sites.of_merged >= 0, sites.of_merged, sites.of_node)
        views = np.flatnonzero(baseline.views & actions.reshapes[first] & (baseline.below >= 0))
        summed[baseline.below[views]] = True
        summed &= (baseline.kernels.primitives == _SUMMED) & ~baseline.is_read_again & ~actions.again[sites.of_node]
    return summed


def _read_for_a_type(baseline: Baseline, alone: Flags) -> Flags:
    """[kernels] what a node reads that is to run again by itself and of whose output the gradient of a Cast needs to
    know no more than the type, or that of a sum no more than the shape: MindSpore finds that out later than what to
    copy (measured with 2.9.0: of a rotary embedding the Muls that the Add reads, and what the Muls read)."""
    if not alone.any():
        return alone
    kernels = baseline.kernels
    of_cast = baseline.read_by(np.isin(kernels.primitives, _NEED_NO_VALUE) & ~kernels.backward)
    for_nothing = ~baseline.is_read_again & ~baseline.views
    alone = alone & ~np.isin(kernels.primitives, _TAKE_TUPLES)
    return np.asarray(baseline.read_by(alone & of_cast & for_nothing & ~kernels.backward) & for_nothing)


def _redistributed(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] what changes its layout in front of a view, where the communication of that is to run again: MindSpore
    marks that of the change, and finds out later than what to copy that nothing needs it (measured with 2.9.0: the
    product in front of a Reshape of GLM). The sum over ranks behind a product is none: it takes from the product that
    it must not run again, and never that it must (SetAllReduceRecomputeFlag in step_parallel.cc; measured with 2.9.0
    and 2.7.2: `attention.wo.reshape` and `feed_forward.w2.reshape` of Llama, `mlp.dense_4h_to_h.reshape` of GLM)."""
    changed = np.zeros(len(baseline.kernels), dtype=np.bool_)
    changes = (baseline.kernels.stream != 0) & (baseline.kernels.primitives != _SUMMED)
    for view in np.flatnonzero(baseline.views & actions.comm[sites.of_node]).tolist():
        node, is_sent = int(baseline.below[view]), False
        while node >= 0 and sites.of_node[node] < 0 and not baseline.views[node]:
            is_sent |= bool(changes[node])
            node = max(baseline.reads.face[baseline.rows_of(node)].tolist(), default=-1)
        if is_sent and node >= 0 and sites.of_node[node] >= 0:
            changed[node] = not baseline.is_read_again[node]
    return changed


def set_loose(asked: Flags, sites: Sites, actions: SiteActions) -> None:
    """[kernels] what is no site is asked for with the cell around it."""
    for (layer, cell), nodes in sites.loose.items():
        asked[nodes] = descends(cell, actions.roots.get(layer, frozenset()))


def _given(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] what is given to a primitive or cell whose recompute was asked for: MindSpore copies that, and finds
    out later that nothing reads what would be computed from it (measured with 2.9.0: the sum behind a rotary embedding
    whose last cast is selected, the product in front of a bias, what a rotary product reads). What is given in a tuple
    is not (the two halves that a rotary embedding stacks), nor what the first of two views shows that MindSpore has
    merged where the other is selected (the product in front of ``attention.reshape`` of Llama), nor what is handed on
    in a state to a primitive that reads nothing that runs again (the first sum of the first layer of a stage, in 3 of 3
    stages of TeleChat3; of the layers behind, whose sums are one chain, it is)."""
    asked = actions.again.copy()
    for site in np.flatnonzero(asked).tolist():
        layer, path = sites.names[site]
        asked[site] = descends(path, actions.roots[layer])
    reading = asked[sites.of_node] & ~np.isin(baseline.kernels.primitives, _TAKE_TUPLES)
    set_loose(reading, sites, actions)
    reading &= (sites.of_merged < 0) | asked[sites.of_merged]
    reader, face = baseline.edges
    first = reading & (actions.cell[sites.of_node] < 0)
    first[reader[reading[face]]] = False
    read = baseline.read_by(reading & ~first) | (baseline.read_by(first) & ~baseline.waits_for_state)
    own = _named(baseline, sites)
    is_free = (own >= 0) & ~actions.again[own]
    return np.asarray(read & is_free & ~baseline.splits & ~baseline.is_read_again)


def _named(baseline: Baseline, sites: Sites) -> Ints:
    """[kernels] the site of a node; of a view without a name that of the Linear which hands it out, of what adds up a
    product of all cards that of the product."""
    site = np.where(sites.of_node >= 0, sites.of_node, sites.of_merged)
    return np.where((site < 0) & sums_of_products(baseline), sites.of_moved, site)


def _casts_known(baseline: Baseline, sites: Sites, actions: SiteActions) -> Flags:
    """[kernels] casts of which MindSpore knows in time that no gradient reads what they make, see `copied_unread`."""
    kernels, is_cast = baseline.kernels, baseline.kernels.primitives == "Cast"
    of_casts = is_cast & baseline.read_by(is_cast & ~kernels.backward)
    casts = np.zeros(len(kernels), dtype=np.bool_)
    firsts = [name for name in sites.names if name[1].endswith(_FIRST_OF_MLP)]
    if firsts:
        at = {name: row for row, name in enumerate(baseline.layers.names)}
        alone = [name for name in firsts if _is_alone(actions, sites.row_of[name])]
        casts |= is_cast & (kernels.layer > max((at[layer] for layer, _ in alone), default=-1))
        behind = [(layer, f"{path.removesuffix(_FIRST_OF_MLP)}{FIRST_VIEW}") for layer, path in alone]
        kept = (at[name[0]] for name in behind if name not in actions.left_out)
        casts |= of_casts & (kernels.layer > max(kept, default=-1))
    if not baseline.is_accumulated:
        attentions = [number for number, cell in enumerate(actions.cells) if cell.endswith(SELF_ATTENTION)]
        again = np.isin(actions.cell[sites.of_node], attentions)
        casts |= of_casts & (kernels.layer >= kernels.layer[again].max(initial=0))
    return np.asarray(casts)


def _is_alone(actions: SiteActions, site: int) -> bool:
    """It stands in no recomputed cell, and its own recompute is not excluded."""
    return not actions.excluded[site] and bool(actions.cell[site] < 0)


def copied_unread(baseline: Baseline, sites: Sites, actions: SiteActions, read: Ints, flagged: Flags) -> Ints:
    """[kernels] the site whose swap copies a node's output to the host although no gradient reads it, -1 for none: as
    `Sites.of_unread`; so is what a view reads that is to run again (measured with 2.9.0: the Reshapes of Linears; not
    where that was asked of its communication and the view is swapped itself, but for what takes a tuple, as the Stack
    in the rotary embedding of GLM); and what a cast reads that is kept after all; and what is given to what runs again
    for nothing. ``read``: kernels that are read again; ``flagged``: [kernels] that would run again.

    A cast is copied only where the MLP of its own layer or a later one starts with a Linear whose Reshape runs again by
    itself, not with a cell around it (measured with 2.9.0 on Qwen3: `mlp` or `mlp.linear_fc1` recomputed in each of
    the last layers, in some before, in none), and one that a cast reads only where the Reshape of that MLP is not
    excluded, either (in all layers, in the last, in none); in steps of one micro-batch one that a cast reads only where
    the attention of a later layer is recomputed, without the layer around it (in 4 of 4 runs; in none of 5 otherwise).
    """
    takes_tuple = np.isin(baseline.kernels.primitives, _TAKE_TUPLES)
    is_marked = actions.again[sites.of_viewed] | (actions.comm[sites.of_viewed] & takes_tuple)
    viewed = (sites.of_viewed >= 0) & is_marked
    site = np.where(viewed, sites.of_node, sites.of_unread)
    site = np.where(_read_for_a_type(baseline, asked_alone(sites, actions)), sites.of_node, site)
    site = np.where(_redistributed(baseline, sites, actions), sites.of_node, site)
    site = np.where(_viewed_by_left_out(baseline, sites, actions), sites.of_node, site)
    site = np.where(_read_by_kept(baseline, sites, actions), sites.of_node, site)
    site = np.where((site >= 0) & ~viewed & _casts_known(baseline, sites, actions), -1, site)
    given = _given(baseline, sites, actions)
    given[read] = False
    site = np.where(flagged, -1, np.where(given, _named(baseline, sites), site))
    return np.where(_summed_for_reshapes(baseline, sites, actions), sites.of_moved, site)
