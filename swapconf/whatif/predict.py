"""BASELINE + STRATEGY -> PREDICTION: the memory timeline under any mixture of swap and recompute."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from swapconf.decide.strategy import Strategy
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import CATEGORIES, NEVER, TICKS, Category, Lifetimes
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.opening import opened
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.prediction import Moves, Prediction
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.rerun import Marks, rerun_of
from swapconf.whatif.site_actions import SiteActions, prefetches
from swapconf.whatif.slots import born_at, freed_after
from swapconf.whatif.swap import Slack, Unread, Windows, swap
from swapconf.whatif.weight_copies import WeightCopies

MARGIN = 8  # kernels by which a predicted place may be off: twice the most seen where one died that seemed safe


# MindSpore 2.7 makes the zeros into which the gradient of TopkExt scatters from its input, and leaves that the input
# itself where all others read the copy (measured: the routers of Qwen3 with 2.7.2); 2.9 makes them of a shape alone
_READ_NO_VALUE = ("ZerosLikeExt",)


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What a strategy has launched, and where: the kernels of the baseline with those that run again, and copies."""

    program: StrategyProgram
    windows: Windows
    weights: WeightCopies
    marks: Marks


def predict(prepared: PlacedBaseline, strategy: Strategy, slack: Slack | None = None) -> Prediction:
    """The same blocks as in the baseline, where the strategy does not touch them."""
    return prediction(prepared, schedule(prepared, strategy, slack))


def schedule(prepared: PlacedBaseline, strategy: Strategy, slack: Slack | None = None) -> LaunchPlan:
    """Positions of all that is launched; `prediction` turns them into memory, `predicted_program` into a program."""
    baseline, rerun = prepared.baseline, rerun_of(prepared, strategy)
    program, sites = rerun.program, rerun.marks.sites
    actions = replace(rerun.marks.actions, prefetch=prefetches(sites, strategy, rerun.marks.actions.again))
    reach, alike = actions.prefetch[program.site], actions.moved_alike[program.site]  # -1 where there is no site
    moving = (reach >= 0) & ~rerun.staying & ~np.isin(baseline.kernels.primitives, _READ_NO_VALUE)[program.reader]
    unread = _unread(baseline, rerun.unread, actions)
    windows = swap(baseline, program, moving, reach, sites.of_moved, unread, slack, rerun.upfront, alike)
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


def prediction(prepared: PlacedBaseline, launched: LaunchPlan) -> Prediction:
    """The memory of a schedule; row i of ``moves`` is window i."""
    baseline, program, windows = prepared.baseline, launched.program, launched.windows
    blocks, count = baseline.blocks, len(baseline.blocks)
    total = count + len(program.origin)
    held = np.full(total, -1, dtype=np.int64)
    has_maker = baseline.maker >= 0
    held[:count][has_maker] = program.where[baseline.maker[has_maker]]
    held[count:] = program.born
    staying = windows.uses < 0
    np.maximum.at(held, program.block[staying], program.until[staying])
    np.maximum.at(held, windows.block[~windows.apart], windows.released[~windows.apart])
    old = baseline.maker.copy() * TICKS
    np.maximum.at(old, baseline.reads.block, baseline.reads.until * TICKS)
    start = np.concatenate([blocks.start, born_at(baseline, program.born)])
    elsewhere = np.flatnonzero(has_maker)[program.where[baseline.maker[has_maker]] != baseline.maker[has_maker] * TICKS]
    start[elsewhere] = born_at(baseline, program.where[baseline.maker[elsewhere]])
    start[windows.block[windows.early]] = born_at(baseline, windows.copied[windows.early] - 2)
    end = np.concatenate([blocks.end, np.zeros(total - count, dtype=np.int64)])
    changed = np.flatnonzero(
        np.concatenate([(held[:count] != old) & has_maker, np.ones(total - count, dtype=np.bool_)])
    )
    origin = np.concatenate([np.arange(count), program.origin])[changed]
    end[changed] = _freed(baseline, held[changed], origin, old)
    kept = windows.returned.copy()
    np.maximum.at(kept, windows.later.window, windows.later.returned)
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
        kept=born_at(baseline, kept),
        unread=windows.unread,
        underflows=windows.underflows,
        stranded=np.zeros(len(windows.row), dtype=np.bool_),
    )
    back, alone = ~windows.unread, windows.apart
    later, weights = windows.later, launched.weights
    device = _timeline(
        blocks,
        _Blocks(row=np.arange(count), start=start[:count], end=end[:count]),
        _Blocks(row=program.origin, start=start[count:], end=end[count:], category=Category.RECOMPUTED),
        _Blocks(row=windows.row[back], start=moves.returned[back], end=moves.end[back], category=Category.SWAP),
        _Blocks(
            row=windows.row[later.window],
            start=born_at(baseline, later.returned),
            end=_freed(baseline, later.until, windows.row[later.window], old),
            category=Category.SWAP,
        ),
        _Blocks(
            row=windows.row[alone],
            start=born_at(baseline, windows.face[alone] * TICKS) + 1,
            end=_freed(baseline, windows.released[alone], windows.row[alone], old),
        ),
        _Blocks(row=weights.row, start=born_at(baseline, weights.born), end=freed_after(baseline, weights.until)),
    )
    again = int((~baseline.views[program.copies[: len(program.copies) - program.parted]]).sum())
    return Prediction(
        device=device.occupying(),
        moves=moves,
        recomputed=again // max(baseline.steps, 1),
        steps=baseline.steps,
        lasting_host_bytes=baseline.lasting_host_bytes,
    )


def _freed(baseline: Baseline, position: Ints, row: Ints, old: Ints) -> Ints:
    """When a block is released after its last use; as the trace has it where that use is the last there, too."""
    return np.where(position == old[row], baseline.blocks.end[row], freed_after(baseline, position))


@dataclass(frozen=True, kw_only=True)
class _Blocks:
    """Blocks, each like a row of the baseline but for its life. ``category``: None for that of the row."""

    row: Ints
    start: Ints
    end: Ints
    category: Category | None = None


def _timeline(blocks: Lifetimes, own: _Blocks, *more: _Blocks) -> Lifetimes:
    """All blocks in order of birth. ``own``: those of the baseline; what is ``more`` is not persistent, as copies of
    weights."""
    parts = (own, *more)
    start = np.concatenate([part.start for part in parts])
    order = np.argsort(start, kind="stable")
    row = np.concatenate([part.row for part in parts])[order]
    category = blocks.category[row]
    place = np.repeat(np.arange(len(parts)), [len(part.row) for part in parts])[order]
    for index, part in enumerate(parts):
        if part.category is not None:
            category[place == index] = CATEGORIES.index(part.category)
    return Lifetimes(
        start=start[order],
        end=np.minimum(np.concatenate([part.end for part in parts])[order], NEVER),
        size_bytes=blocks.size_bytes[row],
        is_persistent=blocks.is_persistent[row] & (place == 0),
        category=category,
        layer=blocks.layer[row],
        name=blocks.name[row],
        names=blocks.names,
    )


# --- what MindSpore no longer merges, because not all of its cells move it alike --------------------------------------


def apart(prepared: PlacedBaseline, actions: SiteActions, windows: Windows) -> Flags:
    """Casts that several cells share in the baseline, of which not all move alike."""
    maker = prepared.sites.of_moved[windows.face]
    is_cast = (prepared.baseline.kernels.primitives == "Cast")[windows.face]
    is_cast &= windows.block == windows.row
    return np.asarray(is_cast & (maker >= 0) & (maker != windows.site) & (actions.prefetch[maker] != windows.prefetch))


def views_apart(prepared: PlacedBaseline, actions: SiteActions, program: StrategyProgram) -> Flags:
    """[kernels] views that several cells share in the baseline, of which not all move alike: MindSpore does not merge
    them then, so that there is a kernel more."""
    primitive = prepared.baseline.kernels.primitives
    rows = np.flatnonzero((program.site >= 0) & (program.face >= 0))
    face, kind = program.face[rows], actions.moved_alike[program.site[rows]]
    least, most = np.full(len(primitive), NEVER), np.full(len(primitive), -1, dtype=np.int64)
    np.minimum.at(least, face, kind)
    np.maximum.at(most, face, kind)
    return np.asarray(prepared.baseline.views & (least < most))


# --- copies back of which MindSpore may die ---------------------------------------------------------------------------


def underflows(
    baseline: Baseline, program: StrategyProgram, windows: Windows, more: Flags, margin: int = MARGIN
) -> Flags:
    """Of which copies back MindSpore may die while it compiles. It looks for the kernel ``prefetch`` before the first
    reader of a copy. Whether there is one, it decides with copies counted; which one it is, it reads from a table
    without them. In between it reads memory before the start of that table (MindSpore 2.9.0): mostly it dies of this
    (SIGSEGV), but what lies there differs from run to run, and some are spared. For predictions without a graph: with
    one `graph.prefetch` counts as MindSpore does.

    Returns:
        [windows] the prefetch reaches back before the start of the step when copies are not counted, but not when they
    are; or nearly so, by a ``margin`` of kernels. ``more``: [windows] what moves is a view of its own, as it is flagged
    otherwise than those that MindSpore has merged with it in the baseline, so that there is a kernel more.
    """
    kernels = np.sort(np.concatenate([program.where, program.inserted, program.where[windows.face[more]]]))
    copies = np.sort(np.concatenate([windows.copied, windows.returned[~windows.unread]]))
    begin = baseline.step_starts[np.searchsorted(baseline.step_starts, windows.face, side="right") - 1] * TICKS
    plain = np.searchsorted(kernels, windows.used) - np.searchsorted(kernels, begin)
    counted = plain + np.searchsorted(copies, windows.used) - np.searchsorted(copies, begin)
    between = (windows.prefetch < counted + margin) & (windows.prefetch >= plain - margin)
    return np.asarray(~windows.unread & between)
