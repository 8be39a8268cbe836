"""BASELINE + STRATEGY -> PREDICTION: the memory timeline under any mixture of swap and recompute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.decide.strategy import LayerPlan, LayerStrategy, Recompute, Strategy
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import CATEGORIES, NEVER, TICKS, Category, Lifetimes
from swapconf.upstream.scopes import descends
from swapconf.whatif.apart import apart, views_apart
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.cell_outputs import cell_outputs, read_by_others
from swapconf.whatif.cell_primitives import path_among
from swapconf.whatif.communicated import communicated, gathered_once, of_views_left_out, views_left_out
from swapconf.whatif.laid_out import SUM
from swapconf.whatif.lazy_inline import barred
from swapconf.whatif.loss import head_first
from swapconf.whatif.not_inlined import left
from swapconf.whatif.opening import opened
from swapconf.whatif.parted import Own, cells_of, flags, kinds, own_views, parted, stand_ins
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.prediction import Moves, Prediction
from swapconf.whatif.recompute import StrategyProgram, recompute, unseen
from swapconf.whatif.restored import kept_instead, restored
from swapconf.whatif.shared import remade
from swapconf.whatif.site_actions import (
    SiteActions,
    asked_alone,
    copied_unread,
    on_device,
    prefetches,
    reshapes_alone,
    site_actions,
    views_named,
)
from swapconf.whatif.sites import Sites
from swapconf.whatif.streams import in_order, sent_ahead
from swapconf.whatif.swap import Slack, Unread, Windows, swap
from swapconf.whatif.times import born_at, freed_after
from swapconf.whatif.told import celled_layers, turned
from swapconf.whatif.underflow import underflows
from swapconf.whatif.ungated import Covered, covered
from swapconf.whatif.unscaled import unscaled_by_turns, unscaled_early
from swapconf.whatif.upfront import upfront
from swapconf.whatif.weight_copies import WeightCopies, copied


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What a strategy asks of nodes, before it is known where anything runs.

    Attributes:
        sites: As they count under this strategy.
        covered: Which nodes are to run again because of a cell around them.
        remade: By pass the kernels shared by all layers that run again in that one, and for which of their cells.
        owns: What some users have for themselves although all share it in the baseline.
        restored: By kernel of the backward pass that is not launched the one whose output is kept instead.
        adds: Fused Adds and norms of which only the Add runs again.
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
    staying: Flags
    kept: Flags
    strategy: Strategy


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What a strategy has launched, and where: the kernels of the baseline with those that run again, and copies."""

    program: StrategyProgram
    windows: Windows
    weights: WeightCopies
    marks: Marks


@dataclass(frozen=True, kw_only=True)
class _Rerun:
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


def predict(prepared: PlacedBaseline, strategy: Strategy, slack: Slack | None = None) -> Prediction:
    """The same blocks as in the baseline, where the strategy does not touch them."""
    return prediction(prepared, schedule(prepared, strategy, slack))


def schedule(prepared: PlacedBaseline, strategy: Strategy, slack: Slack | None = None) -> LaunchPlan:
    """Positions of all that is launched; `prediction` turns them into memory, `predicted_program` into a program."""
    baseline, rerun = prepared.baseline, _rerun(prepared, strategy)
    program, sites = rerun.program, rerun.marks.sites
    actions = rerun.marks.actions
    actions = replace(actions, prefetch=prefetches(sites, strategy, actions.again))
    reach = np.where(program.site >= 0, actions.prefetch[program.site], -1)
    moving = (reach >= 0) & ~rerun.staying
    unread = _unread(baseline, rerun.unread, actions)
    windows = swap(baseline, program, moving, reach, sites.of_moved, unread, slack, rerun.upfront)
    barred_at = prepared.barriers if strategy.swap_on else ()
    alone = {end.start: end.late for end in barred_at} or prepared.gradient_only
    program, windows = opened(baseline, program, windows, alone, slack)
    return LaunchPlan(
        program=program,
        weights=rerun.weights,
        marks=replace(rerun.marks, actions=actions, strategy=strategy),
        windows=replace(
            windows,
            apart=apart(prepared, actions, windows),
            underflows=underflows(baseline, program, windows, views_apart(prepared, actions, program)[windows.face]),
        ),
    )


def _rerun(prepared: PlacedBaseline, strategy: Strategy) -> _Rerun:
    owns = _parted(prepared, strategy)
    key = strategy.options, tuple(plan.recomputed for plan in prepared.plans(strategy)), tuple(owns)
    if key not in prepared.reruns:
        prepared.reruns[key] = _runs_again(prepared, strategy, owns)
    found: _Rerun = prepared.reruns[key]
    return found


def _runs_again(prepared: PlacedBaseline, strategy: Strategy, owns: Sequence[Own]) -> _Rerun:
    baseline = prepared.baseline
    actions = site_actions(prepared.sites, strategy)
    sites = prepared.sites.under(baseline, actions.again)
    flagged, kept, outputs = _flagged(baseline, sites, actions)
    flagged[views_left_out(prepared.baseline, sites, actions)] = False
    flagged |= communicated(baseline, sites, actions.comm | reshapes_alone(sites, strategy))
    flagged &= ~prepared.is_once
    staying = np.zeros(len(flagged), dtype=np.bool_)
    covering = covered(sites, actions.cell, actions.cells, actions.roots)
    if not strategy.recompute_options.get("mp_comm_recompute", True):
        staying |= prepared.redistributed & (covering.root >= 0) & ~views_named(baseline, sites, actions)
        if not strategy.lazy_inline:  # what is merged then, has no mark
            staying[list(prepared.merged_views)] = False
    back = restored(baseline, sites, actions, staying)
    if strategy.lazy_inline:
        outputs = read_by_others(baseline, outputs, turned(sites, strategy)) if outputs else outputs
    else:
        staying |= left(baseline, outputs)
    flagged &= ~staying
    adds = _sums_alone(baseline, sites, actions, flagged)
    flagged[adds] = True
    outputs = [*outputs, *(block for add in adds for block in baseline.made[add] if block != baseline.made[add][SUM])]
    kept = [*kept, *np.flatnonzero(staying).tolist()]
    reads = baseline.reads
    owned = (sites.of_read >= 0) & (sites.of_node[reads.face] >= 0)
    owned |= (sites.of_read >= 0) & (sites.of_read != sites.of_moved[reads.face])
    flagged_read = np.where(
        owned, actions.again[sites.of_read], flagged[reads.face] & baseline.kernels.backward[reads.kernel]
    ) & (reads.face >= 0)
    flagged_read[np.isin(reads.face, kept)] = False  # also a view: what it shows stays with it
    flagged_read[np.isin(reads.via, list(back)) | np.isin(reads.kernel, list(back))] = False
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
        program = remade(baseline, program, wanted)
    if owns:
        program = parted(baseline, program, owns)
    ends = prepared.barriers if strategy.swap_on else ()
    program = unscaled_by_turns(baseline, barred(program, ends)) if ends else program
    program, weights = copied(baseline, program, asked_alone(sites, actions))
    program = in_order(baseline, sent_ahead(baseline, program))
    program = replace(program, site=gathered_once(baseline, sites, actions, program))
    whole = {layer for layer, roots in actions.roots.items() if "" in roots}
    celled = celled_layers(actions, strategy)
    below = baseline.below
    # what a Split makes does not move, but a view of it that is an operator does: measured, and so in every catalog
    splits = baseline.splits | (baseline.views & (sites.of_node < 0) & (below >= 0) & baseline.splits[below])
    staying_uses = (program.face >= 0) & (splits | on_device(baseline, sites, actions))[program.face]
    late = (program.again | baseline.kernels.backward[program.reader]) & (program.face >= 0)
    unread = copied_unread(baseline, sites, actions, np.unique(program.face[late]))
    return _Rerun(
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
            staying=staying,
            kept=np.isin(np.arange(len(flagged)), kept),
            strategy=strategy,
        ),
        staying=staying_uses | unseen(baseline, program, whole, celled),
        unread=np.where(flagged, -1, unread),
        upfront=upfront(baseline, whole),
    )


def _of_all_layers(prepared: PlacedBaseline, strategy: Strategy) -> dict[int, dict[int, dict[str, bool]]]:
    """By pass the kernels shared by all layers that are recomputed in that one's, and in which of their cells."""
    if not prepared.sites.shared:
        return {}
    known: dict[LayerPlan, dict[int, dict[str, bool]]] = {}
    for entry in strategy.layers:
        if entry.plan not in known:
            known[entry.plan] = _shared_again(prepared.sites, entry)
    of_layer = {entry.layer.name: known[entry.plan] for entry in strategy.layers}
    again = ((number, of_layer.get(prepared.baseline.layer_of(number))) for number in prepared.passes)
    return {number: kernels for number, kernels in again if kernels}


def _shared_again(sites: Sites, entry: LayerStrategy) -> dict[int, dict[str, bool]]:
    """By kernel shared by all layers in which of its cells it is recomputed in one of them, as far as in any."""
    operators, found = entry.layer.template.by_path, dict[int, dict[str, bool]]()
    for kernel, paths in sites.shared:
        decided = (entry.plan.decisions.get(path_among(path, operators)) for path in paths)
        again = (one is not None and isinstance(one.action, Recompute) for one in decided)
        of_cells = dict(zip(cells_of(paths), again, strict=True))
        if any(of_cells.values()):
            found[kernel] = of_cells
    return found


def _parted(prepared: PlacedBaseline, strategy: Strategy) -> list[Own]:
    """What some users have for themselves although all share it in the baseline."""
    if not prepared.sites.shared:
        return []
    known, kernels, shared = flags(strategy), prepared.baseline.kernels, dict(prepared.sites.shared)
    name, operators = prepared.baseline.layers.name, strategy.operators
    layers = np.unique(kernels.layer[kernels.passing[kernels.passing >= 0]]).tolist()
    users = {
        kernel: {
            (layer, cell): (name(layer), path_among(path, operators.get(name(layer), ())))
            for layer in layers
            for cell, path in zip(cells_of(paths), paths, strict=True)
        }
        for kernel, paths in shared.items()
        if prepared.sites.of_moved[kernel] >= 0  # else it is no operator
    }
    found = kinds(
        prepared.baseline,
        {kernel: {user: known.get(site) for user, site in sites.items()} for kernel, sites in users.items()},
    )
    return [
        Own(
            kernel=kernel,
            users=alike,
            cells=cells_of(shared[kernel]),
            site=prepared.sites.row_of.get(users[kernel][min(alike)], -1),
        )
        for kernel, alike in found
    ]


def _unread(baseline: Baseline, site: Ints, actions: SiteActions) -> Unread:
    """``site``: [kernels] whose swap copies what each makes to the host for nobody, -1 for none."""
    prefetch = actions.prefetch[site]
    shown = np.where((baseline.num_made > 0) | ~baseline.views, np.arange(len(site)), baseline.below)
    nodes = np.flatnonzero((site >= 0) & (prefetch >= 0) & (baseline.num_made > 0)[shown] & (shown >= 0))
    return Unread(
        block=np.array([baseline.made[node][0] for node in shown[nodes].tolist()], dtype=np.int64),
        face=nodes,
        site=site[nodes],
        prefetch=prefetch[nodes],
    )


def _flagged(baseline: Baseline, sites: Sites, actions: SiteActions) -> tuple[Flags, list[int], list[int]]:
    """Nodes to run again. What is no site (communication of a sharded primitive) follows the cell around it; the
    output of the cell that was asked for is kept (``Cell.recompute`` without ``output_recompute``). Also the nodes that
    are such outputs, and the blocks that are one of a kernel that makes more, as a norm does, which runs again for the
    rest."""
    kernels, reads = baseline.kernels, baseline.reads
    flagged = np.where(sites.of_node >= 0, actions.again[sites.of_node], False)
    for (layer, cell), nodes in sites.loose.items():
        flagged[nodes] = descends(cell, actions.roots.get(layer, frozenset()))
    flagged &= ~of_views_left_out(baseline, sites, actions.excluded)
    flagged &= (sites.of_merged < 0) | actions.again[sites.of_merged]
    leaving = (reads.face >= 0) & (kernels.passing[reads.face] >= 0) & ~kernels.backward[reads.kernel]
    leaving &= kernels.passing[reads.face] != kernels.passing[reads.kernel]
    leaving &= ~baseline.norms[reads.kernel]  # whose Add is of the layer that it ends
    flagged[reads.face[leaving]] = False
    asked = np.where(sites.of_node >= 0, actions.cell[sites.of_node], -1)
    kept, outputs = cell_outputs(baseline, asked, actions.cells, sites.home)
    flagged[kept] = False
    return np.asarray(flagged), kept, outputs


def _sums_alone(baseline: Baseline, sites: Sites, actions: SiteActions, flagged: Flags) -> list[int]:
    """Fused Adds and norms of a layer of which only the Add is to run again: the gradient of the norm reads the sum
    that is made again (measured with MindSpore 2.9.0: ``add`` of GLM)."""
    kernels, reads = baseline.kernels, baseline.reads
    asked = (reads.face >= 0) & baseline.norms[reads.face] & ~flagged[reads.face] & (sites.of_read >= 0)
    asked &= actions.again[sites.of_read] & kernels.backward[reads.kernel]
    return [
        kernel
        for kernel in np.unique(reads.face[asked]).tolist()
        if (rows := _of_sum(baseline, sites, kernel))
        and all(
            actions.again[sites.of_read[row]] and sites.names[sites.of_read[row]][0] == baseline.layer_of(kernel)
            for row in rows
        )
    ]


def _of_sum(baseline: Baseline, sites: Sites, kernel: int) -> list[int]:
    """The reads of the sum of a fused Add and norm by gradients."""
    made, reads = baseline.made.get(kernel, []), baseline.reads
    low, high = np.searchsorted(reads.block, [made[SUM], made[SUM] + 1]) if len(made) > SUM else (0, 0)
    backward = baseline.kernels.backward
    return [row for row in range(low, high) if backward[reads.kernel[row]] and sites.of_read[row] >= 0]


def _kept_sums(baseline: Baseline, sites: Sites, actions: SiteActions, flagged: Flags) -> dict[int, list[int]]:
    """By fused Add and norm of which only the norm is to run again, the reads of the sum by gradients. The Add at the
    end of the layer before never runs again, as its output is the output of that layer."""
    found: dict[int, list[int]] = {}
    for kernel in np.flatnonzero(flagged & baseline.norms).tolist():
        rows = _of_sum(baseline, sites, kernel)
        owners = {int(sites.of_read[row]) for row in rows}
        if owners and not any(
            actions.again[owner] and sites.names[owner][0] == baseline.layer_of(kernel) for owner in owners
        ):
            found[kernel] = rows
    return found


def prediction(prepared: PlacedBaseline, launched: LaunchPlan) -> Prediction:
    """The memory of a schedule; row i of ``moves`` is window i."""
    baseline, program, windows = prepared.baseline, launched.program, launched.windows
    blocks, count = baseline.blocks, len(baseline.blocks)
    total = count + len(program.origin)
    held = np.full(total, -1, dtype=np.int64)
    made = baseline.maker >= 0
    held[:count][made] = program.where[baseline.maker[made]]
    held[count:] = program.born
    staying = windows.uses < 0
    np.maximum.at(held, program.block[staying], program.until[staying])
    np.maximum.at(held, windows.block[~windows.apart], windows.released[~windows.apart])
    old = baseline.maker.copy() * TICKS
    np.maximum.at(old, baseline.reads.block, baseline.reads.until * TICKS)
    start = np.concatenate([blocks.start, born_at(baseline, program.born)])
    elsewhere = np.flatnonzero(made)[program.where[baseline.maker[made]] != baseline.maker[made] * TICKS]
    start[elsewhere] = born_at(baseline, program.where[baseline.maker[elsewhere]])
    start[windows.block[windows.early]] = born_at(baseline, windows.copied[windows.early] - 2)
    end = np.concatenate([blocks.end, np.zeros(total - count, dtype=np.int64)])
    changed = np.flatnonzero(np.concatenate([(held[:count] != old) & made, np.ones(total - count, dtype=np.bool_)]))
    origin = np.concatenate([np.arange(count), program.origin])[changed]
    end[changed] = _freed(baseline, held[changed], origin, old)
    moves = Moves(
        sites=prepared.sites.names,
        site=windows.site,
        size_bytes=blocks.size_bytes[windows.row],
        host_bytes=baseline.host_bytes[windows.row],
        prefetch=windows.prefetch,
        copied=born_at(baseline, windows.copied),
        released=np.where(windows.apart, _freed(baseline, windows.released, windows.row, old), end[windows.block]),
        returned=born_at(baseline, windows.returned),
        used=born_at(baseline, windows.used),
        end=_freed(baseline, windows.until, windows.row, old),
        unread=windows.unread,
        underflows=windows.underflows,
    )
    alone = np.flatnonzero(windows.apart)
    later, row, weights = windows.later, windows.row[windows.later.window], launched.weights
    device = _with_copies(
        blocks,
        program,
        start,
        end,
        moves,
        windows,
        _Blocks(
            block=np.concatenate([row, windows.row[alone], weights.row]),
            start=np.concatenate(
                [
                    born_at(baseline, later.returned),
                    born_at(baseline, windows.face[alone] * TICKS) + 1,
                    born_at(baseline, weights.born),
                ]
            ),
            end=np.concatenate(
                [
                    _freed(baseline, later.until, row, old),
                    _freed(baseline, windows.released[alone], windows.row[alone], old),
                    freed_after(baseline, weights.until),
                ]
            ),
        ),
    )
    again = int((~baseline.views[program.copies[: len(program.copies) - program.parted]]).sum())
    return Prediction(device=device, moves=moves, recomputed=again // max(baseline.steps, 1), steps=baseline.steps)


def _freed(baseline: Baseline, position: Ints, row: Ints, old: Ints) -> Ints:
    """When a block is released after its last use; as the trace has it where that use is the last there, too."""
    return np.where(position == old[row], baseline.blocks.end[row], freed_after(baseline, position))


@dataclass(frozen=True, kw_only=True)
class _Blocks:
    """More blocks, each like a row of the baseline but for its life."""

    block: Ints
    start: Ints
    end: Ints


def _with_copies(
    blocks: Lifetimes, program: StrategyProgram, start: Ints, end: Ints, moves: Moves, windows: Windows, more: _Blocks
) -> Lifetimes:
    """All blocks, those that ran again and those that came back included, in order of birth."""
    back = ~moves.unread
    origin = np.concatenate([np.arange(len(blocks)), program.origin, windows.row[back], more.block])
    category = blocks.category[origin]
    again = slice(len(blocks), len(blocks) + len(program.origin))
    category[again] = CATEGORIES.index(Category.RECOMPUTED)
    category[again.stop : again.stop + int(back.sum()) + len(windows.later.window)] = CATEGORIES.index(Category.SWAP)
    is_persistent = blocks.is_persistent[origin]
    is_persistent[len(blocks) :] = False  # copies of weights are not
    start = np.concatenate([start, moves.returned[back], more.start])
    end = np.concatenate([end, moves.end[back], more.end])
    order = np.argsort(start, kind="stable")
    return Lifetimes(
        start=start[order],
        end=np.minimum(end[order], NEVER),
        size_bytes=blocks.size_bytes[origin][order],
        is_persistent=is_persistent[order],
        category=category[order],
        layer=blocks.layer[origin][order],
        name=blocks.name[origin][order],
        names=blocks.names,
    )
