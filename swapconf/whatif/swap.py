"""PROGRAM + ACTIONS -> MOVES: what is copied to the host and back, and when.

Rules of MindSpore 2.9.0, measured on its traces: what moves is a tensor that the backward pass reads directly from a
flagged primitive, once for each such primitive. The copy out starts right behind the primitive; the device memory is
kept until 3 * prefetch kernels later (copies count as kernels), then until stream 0 launches its next kernel; or until
the same is true of a later copy, as copies run on one stream. The copy
back starts ``prefetch`` kernels before its first reader (copies do not count), not before the forward pass of the
micro-batch has ended. Casts of weights that move run at the
start of their micro-batch, except in the first one of a step, or behind copies of weights (see `upfront`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import NEVER, TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.copy_queue import LONGEST, queued
from swapconf.whatif.laid_out import SUM
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import COPY_BACK, COPY_OUT, COPY_TURN, EARLY, TURN, turns_at


@dataclass(frozen=True, kw_only=True)
class Later:
    """Columns of equal length: further copies back of what several micro-batches share, one for each of them but the
    first; ``window``: the first one."""

    window: Ints
    returned: Ints
    until: Ints


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Columns of equal length, one for each tensor that moves; positions as in Program.

    Attributes:
        row: Of the baseline, of which ``block`` is a copy, or the same.
        uses: [uses of the program] the window that serves a use, -1 for none.
        far: `Baseline.depth` of the reader nearest to the end of the step.
        unread: Copied out only; ``returned`` to ``until`` tell nothing of these.
        underflows: See `underflow`.
        apart: What moves is not the block of the baseline but an equal one, that MindSpore no longer merges with it as
            the two are flagged otherwise.
    """

    block: Ints
    row: Ints
    face: Ints
    site: Ints
    prefetch: Ints
    copied: Ints
    released: Ints
    returned: Ints
    used: Ints
    far: Ints
    until: Ints
    uses: Ints
    unread: Flags
    underflows: Flags
    apart: Flags
    later: Later

    @property
    def early(self) -> Flags:
        """Where the primitive itself runs right before the copy, at the start of its micro-batch."""
        return np.asarray(self.copied < self.face * TICKS)


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Blocks that are copied to the host and never back, as columns: the kernel that makes each, the site that moves
    it, and that site's prefetch."""

    block: Ints
    face: Ints
    site: Ints
    prefetch: Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class Slack:
    """By how many kernels the copies may deviate from where the rules put them: the copy out starts ``late`` kernels
    later, the copy back ``early`` kernels and one for each ``share`` of the prefetch earlier."""

    late: int = 0
    early: int = 0
    share: int = 0


def swap(
    baseline: Baseline,
    program: StrategyProgram,
    moving: Flags,
    prefetch: Ints,
    of_moved: Ints,
    unread: Unread,
    slack: Slack | None = None,
    upfront: Ints | None = None,
    alike: Ints | None = None,
) -> Windows:
    """``moving``: [uses] served by a copy from the host; ``prefetch``: [uses] the prefetch of the site that owns it;
    ``of_moved``: [kernels] the site of a face, after which the copy is named where it is among the owners.
    ``upfront``: [kernels] see `upfront`; without, that of the baseline. ``alike``: [uses] the same where equal views
    are one, see `SiteActions.moved_alike`; without, the prefetch."""
    allowed = slack or Slack()
    served = np.flatnonzero(moving)
    kind = (prefetch if alike is None else alike)[served]
    moved, group = _moved(baseline, program, served, prefetch, kind, of_moved, unread)
    block, face, reach, dead = moved.block, moved.face, moved.prefetch, moved.unread
    copied, launched = _copied_out(baseline, program, block, face, baseline.upfront if upfront is None else upfront)
    before = _starts(baseline, program, launched)
    tensor, batch, sooner, latest = _by_batch(baseline, program, served, group)
    leads = np.diff(tensor, prepend=-1) > 0
    used, until = (
        np.concatenate([sooner[leads], copied[dead] + TURN]),
        np.concatenate([latest[leads], copied[dead] + TURN]),
    )
    ends = _ends(baseline, program, launched)
    place = np.searchsorted(ends, used) - reach - allowed.early
    if allowed.share:
        place -= reach // allowed.share
    further = np.searchsorted(ends, sooner[~leads]) - reach[tensor[~leads]] - allowed.early
    begins = program.where[_begins(baseline)[batch[~leads]]] - COPY_BACK
    later = Later(
        window=tensor[~leads], until=latest[~leads], returned=np.maximum(_ahead(before, np.maximum(further, 0)), begins)
    )
    far = np.full(len(block), NEVER)
    reader = program.reader[served]
    is_view = baseline.below[reader] >= 0
    viewed = np.bincount(group[is_view], minlength=len(block)) > 0
    direct = is_view | ~viewed[group]  # others read through that view
    np.minimum.at(far, group[direct], baseline.distance[reader[direct]])
    begin = baseline.returnable[face]
    shared = np.flatnonzero((baseline.kernels.passing[face] < 0) & ~dead)
    begin[shared] = _begins(baseline)[batch[leads][shared]] if len(shared) else 0
    soonest = np.maximum(copied + 1, program.where[begin] - COPY_BACK)
    returned = np.where(dead, copied + 1, np.maximum(_ahead(before, np.maximum(place, 0)), soonest))
    uses = np.full(len(program.block), -1, dtype=np.int64)
    uses[served] = group
    rows = np.concatenate([np.arange(len(baseline.maker)), program.origin])
    return freed(
        baseline,
        program,
        Windows(
            block=block,
            row=rows[block],
            face=face,
            site=moved.site,
            prefetch=reach,
            copied=copied,
            released=copied,
            returned=returned,
            used=used,
            far=far,
            until=until,
            uses=uses,
            unread=dead,
            underflows=np.zeros(len(block), dtype=np.bool_),
            apart=np.zeros(len(block), dtype=np.bool_),
            later=later,
        ),
        slack,
    )


def freed(baseline: Baseline, program: StrategyProgram, windows: Windows, slack: Slack | None = None) -> Windows:
    """The same copies, ``released`` as all of them, and what is launched between them, have it."""
    copied, face = windows.copied, windows.face
    early = baseline.upfront[face] >= 0
    where = program.where.copy()
    where[face[early]] = copied[early] - EARLY
    back = windows.returned[~windows.unread]
    launched = _ends(baseline, program, where)
    order = np.sort(np.concatenate([launched, copied, back, _alone(baseline, program, windows)]))
    starts = baseline.step_starts
    last = np.searchsorted(order, starts[np.searchsorted(starts, face, side="right")] * TICKS) - 1
    late = slack.late if slack is not None else 0
    target = np.minimum(np.searchsorted(order, copied) + 3 * windows.prefetch + late, last)
    main = baseline.kernels.stream == 0
    launches = np.sort(np.concatenate([where[main], program.inserted[main[program.copies]]]))
    next_launch = launches[np.minimum(np.searchsorted(launches, order[target]), len(launches) - 1)]
    return replace(windows, released=_freed_with_later(copied, next_launch))


@dataclass(frozen=True, kw_only=True)
class _Moved:
    """Columns of equal length, one for each tensor that moves: those that come back, then those that nobody reads."""

    block: Ints
    face: Ints
    site: Ints
    prefetch: Ints
    unread: Flags


def _moved(
    baseline: Baseline,
    program: StrategyProgram,
    served: Ints,
    prefetch: Ints,
    kind: Ints,
    of_moved: Ints,
    unread: Unread,
) -> tuple[_Moved, Ints]:
    """What moves, and for each of the uses that are ``served`` its row there. A view that several cells share is copied
    for each ``kind`` of them: MindSpore merges what is flagged alike alone."""
    face = program.face[served]
    kind = np.where(baseline.views[face], kind, 0)
    key = (program.block[served] * (len(baseline.kernels) + 1) + face) * (kind.max(initial=0) + 1) + kind
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    named = program.site[served] == of_moved[program.face[served]]
    first[group[named]] = np.flatnonzero(named)
    use = served[first]
    return _Moved(
        block=np.concatenate([program.block[use], unread.block]),
        face=np.concatenate([program.face[use], unread.face]),
        site=np.concatenate([program.site[use], unread.site]),
        prefetch=np.concatenate([prefetch[use], unread.prefetch]),
        unread=np.arange(len(use) + len(unread.block)) >= len(use),
    ), group


def _copied_out(
    baseline: Baseline, program: StrategyProgram, block: Ints, face: Ints, upfront: Ints
) -> tuple[Ints, Ints]:
    """Where each copy to the host stands, and where each kernel then runs: casts of weights that move, right before."""
    early = upfront[face]
    behind = _behind(baseline, block, face)
    copied = np.where(early >= 0, (early - 1) * TICKS + COPY_OUT + EARLY, behind * TICKS + COPY_OUT)
    copied += COPY_TURN * turns_at(behind, face)
    launched = program.where.copy()
    launched[face[early >= 0]] = copied[early >= 0] - EARLY
    return copied, launched


def _alone(baseline: Baseline, program: StrategyProgram, windows: Windows) -> Ints:
    """Positions of Adds that are fused with a norm in the baseline alone: what moves has another reader than the norm,
    its copy, so that MindSpore does not fuse the two."""
    fused = np.flatnonzero(baseline.norms[windows.face])
    sums = [
        face
        for face, row in zip(windows.face[fused].tolist(), windows.row[fused].tolist(), strict=True)
        if row in baseline.made[face][SUM : SUM + 1]
    ]
    return program.where[np.array(sums, dtype=np.int64)] - 1


def _by_batch(baseline: Baseline, program: StrategyProgram, served: Ints, group: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """(tensor, micro-batch, first and last use) of each tensor in each micro-batch. Only what belongs to no pass, such
    as the tables of the rotary embedding, has several."""
    batch = np.zeros(len(served), dtype=np.int64)
    shared = np.flatnonzero(baseline.kernels.passing[program.face[served]] < 0)
    if len(shared):
        of_pass = {number: index for index, passes in enumerate(baseline.batches) for number in passes}
        pass_numbers = baseline.served[program.reader[served[shared]]].tolist()
        batch[shared] = [of_pass.get(number, 0) for number in pass_numbers]
    width = max(len(baseline.batches), 1)
    key, place = np.unique(group * width + batch, return_inverse=True)
    first, last = np.full(len(key), NEVER), np.zeros(len(key), dtype=np.int64)
    np.minimum.at(first, place, program.position[served])
    np.maximum.at(last, place, program.until[served])
    return key // width, key % width, first, last


def _begins(baseline: Baseline) -> Ints:
    """The kernel with which the backward pass of each micro-batch begins."""
    return np.array([baseline.returnable[passes[0]] for passes in baseline.batches], dtype=np.int64)


def _freed_with_later(copied: Ints, released: Ints) -> Ints:
    """Copies run on one stream: when the main stream has waited for one, those before it are over, too."""
    turn = np.argsort(copied, kind="stable")
    ends = np.empty_like(released)
    ends[turn] = np.minimum.accumulate(released[turn][::-1])[::-1]
    return ends


def _starts(baseline: Baseline, program: StrategyProgram, launched: Ints) -> Ints:
    """Where each launch begins, in order. ``launched``: [kernels] where each kernel runs. What is launched together
    runs again together, too."""
    if not baseline.joined:
        return np.sort(np.concatenate([launched, program.inserted]))
    begins = np.roll(baseline.ends_launch, 1)
    again = np.diff(baseline.launch[program.copies], prepend=-1) != 0
    return np.sort(np.concatenate([launched[begins], program.inserted[again]]))


def _ends(baseline: Baseline, program: StrategyProgram, launched: Ints) -> Ints:
    """Where each launch ends, in order, as `_starts`."""
    if not baseline.joined:
        return np.sort(np.concatenate([launched, program.inserted]))
    again = np.diff(baseline.launch[program.copies], append=-1) != 0
    return np.sort(np.concatenate([launched[baseline.ends_launch], program.inserted[again]]))


def _ahead(before: Ints, place: Ints) -> Ints:
    """Right in front of kernels, which may stand close together where something runs again."""
    room = before[place] - before[np.maximum(place - 1, 0)]
    return np.asarray(before[place] - np.where(place > 0, np.minimum(room // 2, COPY_BACK), COPY_BACK))


def _behind(baseline: Baseline, block: Ints, face: Ints) -> Ints:
    """The kernel behind which each copy to the host runs. Equal kernels between equal copies are looked at once, and
    one between the same copies once for all strategies."""
    copied, is_copied = set(zip(block.tolist(), face.tolist(), strict=True)), np.zeros(len(baseline.kernels), np.bool_)
    is_copied[face] = True
    nodes, place = np.unique(face, return_inverse=True)
    copies = np.stack([face, block], axis=1)[np.lexsort((block, face))]
    bounds = np.searchsorted(copies[:, 0], [nodes, nodes + LONGEST]).T.tolist()
    offsets: dict[tuple[bytes, bytes], int] = {}
    behind = []
    for node, (low, high) in zip(nodes.tolist(), bounds, strict=True):
        near = slice(node, node + LONGEST)
        key = baseline.codes[near].tobytes(), is_copied[near].tobytes()
        if key not in offsets:
            same = node, copies[low:high].tobytes()
            if same not in baseline.queues:
                baseline.queues[same] = queued(baseline, node, copied) - 1 - node
            offsets[key] = baseline.queues[same]
        behind.append(node + offsets[key])
    return np.array(behind, dtype=np.int64)[place]
