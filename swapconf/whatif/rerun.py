"""BASELINE + STRATEGY -> RERUN: what runs again, where, and who reads what then, whatever moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.decide.strategy import LayerPlan, LayerStrategy, Recompute, Strategy
from swapconf.models.cells import INPUT_NORM
from swapconf.trace.columns import Flags, Ints
from swapconf.upstream.scopes import descends
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.cell_primitives import path_among
from swapconf.whatif.communicated import (
    communicated,
    gathered_once,
    of_views_left_out,
    products_of_morphs,
    views_left_out,
)
from swapconf.whatif.kept import casts_for_products, cell_outputs, left_without_lazy_inline, read_by_others, turned
from swapconf.whatif.laid_out import SUM
from swapconf.whatif.lazy_inline import barred
from swapconf.whatif.loss import head_first
from swapconf.whatif.merged_views import as_first
from swapconf.whatif.parted import Own, cells_of, flags, kinds, own_views, parted, stand_ins, standing_views
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.recompute import StrategyProgram, recompute, unseen
from swapconf.whatif.restored import kept_instead, restored
from swapconf.whatif.shared import remade
from swapconf.whatif.site_actions import (
    SiteActions,
    asked_alone,
    copied_unread,
    on_device,
    reshapes_asked_for,
    set_loose,
    site_actions,
    views_named,
)
from swapconf.whatif.sites import Sites
from swapconf.whatif.streams import in_order, sent_ahead
from swapconf.whatif.ungated import Covered, covered
from swapconf.whatif.unread import given_to_unsaved
from swapconf.whatif.unscaled import unscaled_by_turns, unscaled_early
from swapconf.whatif.weight_copies import WeightCopies, copied, upfront

_READ_PARAMETERS = ("Dense", "GroupedMatmul", "MatMul", "RmsNorm")


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What a strategy asks of nodes, before it is known where anything runs.

    Attributes:
        sites: As they count under this strategy.
        covered: Which nodes are to run again because of a cell around them.
        remade: By pass the kernels shared by all layers that run again in that one, and for which of their cells.
        owns: What some users have for themselves although all share it in the baseline.
        restored: By kernel of the backward pass that is not launched the one whose output is kept instead.
        adds: Fused Adds and norms of which only the Add runs again; ``apart``: those of which the norm does so in a
            recomputed cell, and the Add by itself.
        staying: [kernels] what does not run again, whatever cell around it is recomputed.
        kept: [kernels] the same, and what a recomputed cell hands out.
    """

    actions: SiteActions
    sites: Sites
    covered: Covered
    remade: Mapping[int, Mapping[int, Mapping[str, bool]]]
    owns: Sequence[Own]
    restored: Mapping[int, int]
    adds: Collection[int]
    apart: Collection[int]
    staying: Flags
    kept: Flags
    strategy: Strategy


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """What strategies have in common that run the same again, whatever moves.

    Attributes:
        marks: With what one of these strategies asks.
        staying: [uses] read what no swap moves.
        unread: [kernels] the site whose swap copies what each makes to the host for nobody, -1 for none.
        upfront: [kernels] see `upfront`.
    """

    program: StrategyProgram
    weights: WeightCopies
    marks: Marks
    staying: Flags
    unread: Ints
    upfront: Ints


def rerun_of(prepared: PlacedBaseline, strategy: Strategy) -> Rerun:
    """Known from the latest strategies that run the same again."""
    owns = _parted(prepared, strategy)
    key = strategy.options, tuple(plan.recomputed for plan in prepared.plans(strategy)), tuple(owns)
    if key not in prepared.reruns:
        prepared.reruns[key] = _runs_again(prepared, strategy, owns)
    rerun: Rerun = prepared.reruns[key]
    return rerun


def _runs_again(prepared: PlacedBaseline, strategy: Strategy, owns: Sequence[Own]) -> Rerun:
    baseline = prepared.baseline
    actions = site_actions(prepared.sites, strategy)
    sites = prepared.sites.under(baseline, actions.again, actions.excluded)
    sites = as_first(baseline, sites, actions, prepared.merged_views)
    flagged, kept, outputs = _flagged(baseline, sites, actions)
    if strategy.casts_stay:
        kept = [*kept, *casts_for_products(baseline)]
        flagged[kept] = False
    flagged[views_left_out(prepared.baseline, sites, actions)] = False
    morphed = products_of_morphs(sites, strategy)
    flagged |= communicated(baseline, sites, actions.comm | actions.alone, morphed)
    # what the model marks, runs again in the baseline, too, unless MindSpore has made one kernel of it and of others
    flagged &= ~(baseline.kernels.is_fused & actions.by_model[sites.of_node])
    flagged &= ~prepared.is_once
    staying = np.zeros(len(flagged), dtype=np.bool_)
    covering = covered(sites, actions.cell, actions.cells, actions.roots)
    if not strategy.recompute_options.get("mp_comm_recompute", True):
        named = views_named(baseline, sites, actions) | communicated(baseline, sites, actions.comm, morphed)
        staying |= prepared.redistributed & (covering.root >= 0) & ~named
        if not strategy.lazy_inline:  # what is merged then, has no mark
            staying[list(prepared.merged_views)] = False
    back = restored(baseline, sites, actions, staying)
    if strategy.lazy_inline:
        outputs = read_by_others(baseline, outputs, turned(sites, strategy)) if outputs else outputs
    else:
        staying |= left_without_lazy_inline(baseline, outputs)
    flagged &= ~staying
    adds = _sums_alone(baseline, sites, actions, flagged)
    flagged[adds] = True
    outputs = [*outputs, *(block for add in adds for block in baseline.made[add] if block != baseline.made[add][SUM])]
    kept = [*kept, *np.flatnonzero(staying).tolist()]
    flagged_read = _flagged_reads(baseline, sites, actions, flagged, kept, list(back))
    flagged[stand_ins(baseline, sites, flagged_read)] = True
    flagged &= ~prepared.is_once
    sums = _kept_sums(baseline, sites, actions, flagged)
    flagged_read[[row for rows in sums.values() for row in rows]] = False
    program = head_first(
        baseline,
        recompute(
            baseline,
            sites.of_read,
            flagged,
            flagged_read,
            sites.of_moved,
            {norm: int(sites.of_read[rows[0]]) for norm, rows in sums.items()},
            outputs,
            covering,
            own_views(baseline, sites, actions.again, flagged),
        ),
    )
    program = kept_instead(baseline, program, back)
    if not strategy.lazy_inline:
        program = unscaled_early(baseline, program)
    if wanted := _of_all_layers(prepared, strategy):
        program = remade(baseline, program, wanted, sites.of_moved)
    if owns:
        program = parted(baseline, program, owns)
    ends = prepared.barriers if strategy.swap_on else ()
    program = unscaled_by_turns(baseline, barred(program, ends)) if ends else program
    program, weights = copied(baseline, program, asked_alone(sites, actions))
    program = in_order(baseline, sent_ahead(baseline, program))
    program = replace(program, site=gathered_once(baseline, sites, actions, program))
    whole = {layer for layer, roots in actions.roots.items() if "" in roots}
    celled = _celled_layers(actions, strategy)
    late = (program.again | baseline.kernels.backward[program.reader]) & (program.face >= 0)
    unread = copied_unread(baseline, sites, actions, np.unique(program.face[late]), flagged)
    given = given_to_unsaved(baseline, sites, reshapes_asked_for(strategy), actions.again, flagged)
    return Rerun(
        program=program,
        weights=weights,
        marks=Marks(
            actions=actions,
            sites=sites,
            covered=covering,
            remade=wanted,
            owns=owns,
            restored=back,
            adds=adds,
            apart=_apart(baseline, sites, actions, flagged),
            staying=staying,
            kept=np.isin(np.arange(len(flagged)), kept),
            strategy=strategy,
        ),
        staying=_stays(baseline, sites, actions, program, staying) | unseen(baseline, program, whole, celled),
        unread=np.where(given, sites.of_node, unread),
        upfront=upfront(baseline, whole),
    )


def _flagged_reads(
    baseline: Baseline, sites: Sites, actions: SiteActions, flagged: Flags, kept: Sequence[int], back: Sequence[int]
) -> Flags:
    """[reads] by gradients of what is to run again. ``flagged``: [kernels]; ``kept``: nodes that do not, ``back``:
    kernels of the backward pass that are not launched."""
    reads = baseline.reads
    owned = (sites.of_read >= 0) & (sites.of_node[reads.face] >= 0)
    owned |= (sites.of_read >= 0) & (sites.of_read != sites.of_moved[reads.face])
    flagged_read = np.where(
        owned, actions.again[sites.of_read], flagged[reads.face] & baseline.kernels.backward[reads.kernel]
    ) & (reads.face >= 0)
    flagged_read[np.isin(reads.face, kept)] = False  # also a view: what it shows stays with it
    flagged_read[np.isin(reads.via, back) | np.isin(reads.kernel, back)] = False
    return np.asarray(flagged_read)


def _stays(baseline: Baseline, sites: Sites, actions: SiteActions, program: StrategyProgram, staying: Flags) -> Flags:
    """[uses] of what stays on the device whatever is swapped. ``staying``: see `Marks`."""
    below = baseline.below
    # what a Split makes does not move, but a view of it that is an operator does: measured, and so in every catalog
    splits = baseline.splits | (baseline.views & (sites.of_node < 0) & (below >= 0) & baseline.splits[below])
    sent = staying & (baseline.kernels.stream != 0) & (sites.of_node < 0)  # by the cell, which swaps nothing
    stays = (splits | sent | on_device(baseline, sites, actions))[program.face]
    norms = actions.excluded[sites.of_node] & baseline.norms  # nor does the sum that is fused with a norm left out
    stays |= norms[program.face] & np.isin(program.block, baseline.sums)
    return np.asarray((program.face >= 0) & stays)


def _of_all_layers(prepared: PlacedBaseline, strategy: Strategy) -> dict[int, dict[int, dict[str, bool]]]:
    """By pass the kernels shared by all layers that are recomputed in that one's, and in which of their cells."""
    if not prepared.sites.shared:
        return {}
    of_plan: dict[LayerPlan, dict[int, dict[str, bool]]] = {}
    for entry in strategy.layers:
        if entry.plan not in of_plan:
            of_plan[entry.plan] = _shared_again(prepared.sites, entry)
    of_layer = {entry.layer.name: of_plan[entry.plan] for entry in strategy.layers}
    again = ((number, of_layer.get(prepared.baseline.layer_of(number))) for number in prepared.passes)
    return {number: kernels for number, kernels in again if kernels}


def _shared_again(sites: Sites, entry: LayerStrategy) -> dict[int, dict[str, bool]]:
    """By kernel shared by all layers in which of its cells it is recomputed in one of them, as far as in any."""
    operators, again_in = entry.layer.template.by_path, dict[int, dict[str, bool]]()
    for kernel, paths in sites.shared:
        decided = (entry.plan.decisions.get(path_among(path, operators)) for path in paths)
        again = (decision is not None and isinstance(decision.action, Recompute) for decision in decided)
        of_cells = dict(zip(cells_of(paths), again, strict=True))
        if any(of_cells.values()):
            again_in[kernel] = of_cells
    return again_in


def _parted(prepared: PlacedBaseline, strategy: Strategy) -> list[Own]:
    """What some users have for themselves although all share it in the baseline."""
    if not prepared.sites.shared:
        return []
    flag_of, users, shared = flags(strategy), prepared.users_of_shared(strategy), dict(prepared.sites.shared)
    own_kinds = kinds(
        prepared.baseline,
        {kernel: {user: flag_of.get(site) for user, site in sites.items()} for kernel, sites in users.items()},
    )
    return [
        Own(
            kernel=kernel,
            users=alike,
            cells=cells_of(shared[kernel]),
            site=prepared.sites.row_of.get(users[kernel][min(alike)], -1),
        )
        for kernel, alike in own_kinds
    ]


def _flagged(baseline: Baseline, sites: Sites, actions: SiteActions) -> tuple[Flags, list[int], list[int]]:
    """Nodes to run again. What is no site (communication of a sharded primitive) follows the cell around it; the
    output of the cell that was asked for is kept (``Cell.recompute`` without ``output_recompute``). Also the nodes that
    are such outputs, and the blocks that are one of a kernel that makes more, as a norm does, which runs again for the
    rest."""
    kernels, reads = baseline.kernels, baseline.reads
    flagged = np.where(sites.of_node >= 0, actions.again[sites.of_node], False)
    set_loose(flagged, sites, actions)
    flagged &= ~of_views_left_out(baseline, sites, actions.excluded)
    flagged &= (sites.of_merged < 0) | actions.again[sites.of_merged]
    leaving = (reads.face >= 0) & (kernels.passing[reads.face] >= 0) & ~kernels.backward[reads.kernel]
    leaving &= kernels.passing[reads.face] != kernels.passing[reads.kernel]
    leaving &= ~baseline.norms[reads.kernel]  # whose Add is of the layer that it ends
    flagged[reads.face[leaving]] = False
    asked_cell = np.where(sites.of_node >= 0, actions.cell[sites.of_node], -1)
    kept, outputs = cell_outputs(baseline, asked_cell, actions.cells, sites.home, standing_views(baseline, sites))
    flagged[kept] = False
    return np.asarray(flagged), kept, outputs


def _sums_alone(baseline: Baseline, sites: Sites, actions: SiteActions, flagged: Flags) -> list[int]:
    """Fused Adds and norms of a layer of which only the Add is to run again: the gradient of the norm reads the sum
    that is made again (measured with MindSpore 2.9.0: ``add`` of GLM)."""
    kernels, reads = baseline.kernels, baseline.reads
    of_sums = (reads.face >= 0) & baseline.norms[reads.face] & ~flagged[reads.face] & (sites.of_read >= 0)
    of_sums &= actions.again[sites.of_read] & kernels.backward[reads.kernel]
    return [
        kernel
        for kernel in np.unique(reads.face[of_sums]).tolist()
        if (owned := _asked_here(baseline, sites, actions, kernel)) and all(owned.values())
    ]


def _apart(baseline: Baseline, sites: Sites, actions: SiteActions, flagged: Flags) -> frozenset[int]:
    """Fused Adds and norms that run again as two: MindSpore ties what the recomputed cell of the norm is given
    (measured with 2.9.0: ``add`` and ``post_attention_layernorm`` of GLM)."""
    return frozenset(
        kernel
        for kernel in np.flatnonzero(flagged & baseline.norms & (actions.cell[sites.of_node] >= 0)).tolist()
        if (owned := _asked_here(baseline, sites, actions, kernel))
        and all(again and actions.cell[sites.of_read[row]] < 0 for row, again in owned.items())
    )


def _asked_here(baseline: Baseline, sites: Sites, actions: SiteActions, kernel: int) -> dict[int, bool]:
    """By read of the sum of a fused Add and norm by a gradient whether what owns it runs again in the same layer."""
    made, reads = baseline.made.get(kernel, []), baseline.reads
    low, high = np.searchsorted(reads.block, [made[SUM], made[SUM] + 1]) if len(made) > SUM else (0, 0)
    backward, owner, layer = baseline.kernels.backward, sites.of_read, baseline.layer_of(kernel)
    return {
        row: bool(actions.again[owner[row]]) and sites.names[owner[row]][0] == layer
        for row in range(low, high)
        if backward[reads.kernel[row]] and owner[row] >= 0
    }


def _kept_sums(baseline: Baseline, sites: Sites, actions: SiteActions, flagged: Flags) -> dict[int, list[int]]:
    """By fused Add and norm of which only the norm is to run again, the reads of the sum by gradients. The Add at the
    end of the layer before never runs again, as its output is the output of that layer."""
    owned = {
        kernel: _asked_here(baseline, sites, actions, kernel)
        for kernel in np.flatnonzero(flagged & baseline.norms).tolist()
    }
    return {kernel: list(rows) for kernel, rows in owned.items() if rows and not any(rows.values())}


def _celled_layers(actions: SiteActions, strategy: Strategy) -> dict[str, bool]:
    """The layers with a recomputed cell that reads parameters, and whether any but the norm that begins them is one."""
    templates = {entry.layer.name: entry.layer.template for entry in strategy.layers}
    celled: dict[str, bool] = {}
    for layer, roots in actions.roots.items():
        reading = [operator.path for operator in templates[layer].primitives if operator.type in _READ_PARAMETERS]
        for root in roots & set(actions.cells):
            if any(descends(path, {root}) for path in reading):
                celled[layer] = celled.get(layer, False) or root != INPUT_NORM
    return celled
