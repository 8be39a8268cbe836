"""BASELINE + FLAGS -> PROGRAM: which nodes run again in the backward pass, where, and who uses which block then.

Rules of MindSpore 2.9.0, as its traces show: a flagged node runs again when a gradient, or another node that runs
again, reads it. What the model itself computes again anyway is not computed twice, only earlier. Of a fused Add and
norm the norm alone runs again where the Add does not: the Add at the end of the layer before never does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.laid_out import SUM
from swapconf.whatif.regions import positions
from swapconf.whatif.ungated import Covered, ungated

NO_SUMS: Mapping[int, int] = MappingProxyType({})
NO_CELLS: Mapping[str, bool] = MappingProxyType({})
_MCORE_ADD = "AddExt"


@dataclass(frozen=True, kw_only=True)
class StrategyProgram:
    """The baseline with what runs again.

    Attributes:
        where: [kernels] the position of each kernel of the baseline.
        block, position, until, face, site: Every use of a block that kernels made, as in Reads, with positions for
            kernels, ``until`` only behind `streams.in_order`; ``site`` owns a use by the backward pass, -1 for the
            others. Blocks beyond those of the baseline are new.
        origin: Of each new block the row that it is a copy of, ``born``: the position of the node that makes it.
        reader: The kernel of each use, ``again``: it is one that runs again.
        copies: The nodes that run again, ``inserted``: their positions; the last ``parted`` of them run in the forward
            pass, where some layers do not share them any more.
    """

    where: Ints
    block: Ints
    position: Ints
    until: Ints
    face: Ints
    site: Ints
    reader: Ints
    again: Flags
    origin: Ints
    born: Ints
    copies: Ints
    inserted: Ints
    parted: int = 0

    def with_more(self, block: Ints, site: Ints, more: Additions, *, again: bool) -> StrategyProgram:
        """``block``, ``site``: of its own uses, as they are then. ``again``: what is launched ``more`` runs again."""
        used, position, face, owner, reader = _columns(more.uses, len(BlockUse._fields))
        (origin, born), (copies, inserted) = _columns(more.blocks, 2), _columns(more.kernels, 2)
        return replace(
            self,
            block=np.concatenate([block, used]),
            position=np.concatenate([self.position, position]),
            until=np.concatenate([self.until, position]),
            face=np.concatenate([self.face, face]),
            site=np.concatenate([site, owner]),
            reader=np.concatenate([self.reader, reader]),
            again=np.concatenate([self.again, np.full(len(used), again)]),
            origin=np.concatenate([self.origin, origin]),
            born=np.concatenate([self.born, born]),
            copies=np.concatenate([self.copies, copies]),
            inserted=np.concatenate([self.inserted, inserted]),
        )

    def moved(self, places: Mapping[int, int]) -> StrategyProgram:
        """With some kernels of the baseline at other positions."""
        if not places:
            return self
        where, kernels = self.where.copy(), np.array(list(places), dtype=np.int64)
        order = np.argsort(where[kernels])
        old, new = where[kernels][order], _ints(places.values())[order]
        place = np.minimum(np.searchsorted(old, self.position), len(old) - 1)
        where[kernels[order]] = new
        return replace(self, where=where, position=np.where(old[place] == self.position, new[place], self.position))


class BlockUse(NamedTuple):
    """A use of a block, as in `StrategyProgram`."""

    block: int
    position: int
    face: int = -1
    site: int = -1
    reader: int = -1


@dataclass
class Additions:
    """What is launched beside a program. ``kernels``: with the position of each; ``blocks``: that they make, each by
    the row that it is a copy of, with the same position; ``uses``: what they read."""

    kernels: list[tuple[int, int]] = field(default_factory=list)
    blocks: list[tuple[int, int]] = field(default_factory=list)
    uses: list[BlockUse] = field(default_factory=list)

    def launch(self, kernel: int, blocks: Iterable[int], position: int) -> None:
        self.kernels.append((kernel, position))
        self.blocks += [(block, position) for block in blocks]


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, count).T


def recompute(
    baseline: Baseline,
    of_read: Ints,
    flagged: Flags,
    flagged_read: Flags,
    of_moved: Ints,
    sums: Mapping[int, int] = NO_SUMS,
    outputs: Sequence[int] = (),
    covered: Covered | None = None,
    through: tuple[Flags, Flags] | None = None,
) -> StrategyProgram:
    """``flagged``: [kernels] nodes to run again; ``flagged_read``: [reads] reads whose owner runs again.
    ``of_read``, ``of_moved``: the site that owns a read, and that moves the output of a node. ``sums``: by fused Add
    and norm, of which the norm alone would run again and read the sum that was kept, the site of the Add.
    ``outputs``: blocks that are kept as the output of a cell, although what makes them may run again for the rest.
    ``covered``: what was asked for by the cell. ``through``: [reads] those through a view of their own that runs again,
    although the one that the baseline has for several stays, and those through one that stays although that runs
    again."""
    reads, kernels = baseline.reads, baseline.kernels
    alone = np.zeros(len(kernels), dtype=np.bool_)
    alone[list(sums)] = True
    staying = np.zeros(len(baseline.maker), dtype=np.bool_)
    staying[list(outputs)] = True
    rows = np.flatnonzero(flagged_read & ~(staying[reads.block] & (reads.face == baseline.maker[reads.block])))
    node = _resolved(baseline, reads.face[rows], flagged)
    rows, node = rows[node >= 0], node[node >= 0]
    if covered is not None:
        rows, node = _with_twins(baseline, rows, node, flagged & (covered.root >= 0))
    again = _closure(baseline, node, flagged, alone, staying)
    kept = {node: baseline.made[node][SUM] for node in sums if again[node]}
    copied, origin = _copies(baseline, again, [*kept.values(), *outputs])
    redirected = rows[copied[reads.block[rows]] >= 0]
    free = ungated(baseline, again, covered) if covered is not None else np.zeros(len(kernels), dtype=np.bool_)
    place, where = positions(
        baseline, again, flagged, node, rows, staying, free, covered.root if covered is not None else None
    )
    inner = np.flatnonzero((again & ~alone)[reads.kernel])
    norms = np.array(list(kept), dtype=np.int64)
    keep = np.ones(len(reads.block), dtype=np.bool_)
    keep[redirected] = False
    done_already = np.zeros(len(kernels), dtype=np.bool_)
    done_already[baseline.twin[again & (baseline.twin >= 0)]] = True
    keep &= ~done_already[reads.kernel]
    within = again[np.maximum(reads.face[inner], 0)] & (reads.face[inner] >= 0) & (copied[reads.block[inner]] >= 0)
    shown = _shown(baseline, again, reads.face)
    if through is not None:
        shown = np.where(through[0], baseline.below[reads.face], np.where(through[1], reads.face, shown))
    site = np.where(
        kernels.backward[reads.kernel], np.where(shown == reads.face, of_read, _moved_by(baseline, of_moved, shown)), -1
    )
    nothing = np.full(len(redirected), -1, dtype=np.int64)
    at = place[reads.kernel[inner]]
    position = np.concatenate([where[reads.kernel[keep]], where[reads.kernel[redirected]], at, place[norms]])
    return StrategyProgram(
        where=where,
        position=position,
        until=position,
        block=np.concatenate(
            [
                reads.block[keep],
                copied[reads.block[redirected]],
                np.where(within, copied[reads.block[inner]], reads.block[inner]),
                _ints(kept.values()),
            ]
        ),
        face=np.concatenate([shown[keep], nothing, np.where(within, -1, shown[inner]), norms]),
        site=np.concatenate(
            [
                site[keep],
                nothing,
                np.where(within, -1, _owner(baseline, of_read, of_moved, inner, shown)),
                _ints(sums[node] for node in kept),
            ]
        ),
        reader=np.concatenate([reads.kernel[keep], reads.kernel[redirected], reads.kernel[inner], norms]),
        again=np.repeat([False, True], [int(keep.sum()) + len(redirected), len(inner) + len(norms)]),
        origin=origin,
        born=place[baseline.maker[origin]],
        copies=np.flatnonzero(again),
        inserted=place[again],
    )


def unseen(
    baseline: Baseline, program: StrategyProgram, whole: Collection[str] = (), celled: Mapping[str, bool] = NO_CELLS
) -> Flags:
    """[uses] that MindSpore does not see when it looks for what to swap: they read what stays on the device.
    ``whole``: names of the layers that are recomputed as one cell; ``celled``: of those with any cell that is, and
    whether any but the norm that begins them is."""
    return tied(baseline, program, whole, celled) | taken(baseline, program)


def tied(
    baseline: Baseline, program: StrategyProgram, whole: Collection[str] = (), celled: Mapping[str, bool] = NO_CELLS
) -> Flags:
    """[uses] of another pass by what begins a region, in a pipeline by anything of a layer that is recomputed as a
    ``whole``: MindSpore ties it to the gradient there, and does not see that it reads what moves. Not where
    something else of the backward pass reads the same, nor what the model computes again by itself anyway, as casts
    of legacy norms; what reads a view that runs again reads nothing else. In models of mcore, what a layer with
    recomputed cells hands to one that is recomputed as a whole waits for a state, and nobody sees it move
    (measured; not so in legacy models), nor, in pipelines, query and key of latent attention where only what takes
    them runs again (in one stage it does in 5 of 5 runs). So it is with the sum of a layer that is handed on in a state
    anyway, as in Qwen3 (in 4 of 4 runs); one that is not, as of dense layers of DeepSeek-V3, is seen to move also where
    a region begins with it, but not in pipelines, nor, where no layer has experts, of layers with recomputed cells
    (TeleChat3). The cast at the end of such a layer without experts it sees where a cast begins the next, which is
    handed the first in no state (measured: TeleChat3 with a residual in 32 bits; Qwen3 hands it in one); where no layer
    has experts, not of a layer with recomputed cells, but for the norm that begins it (in 4 of 4 runs). In pipelines
    the norm behind the layer that predicts further tokens counts as another pass (in 3 of 3 runs; in one stage not)."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    passing = kernels.passing
    again = np.zeros(len(passing), dtype=np.bool_)
    again[program.copies] = True
    goes_on = np.zeros(len(passing), dtype=np.bool_)
    goes_on[reader[again[face]]] = True
    seen = program.face * (len(baseline.maker) + len(program.origin)) + program.block
    source = np.maximum(program.face, 0)
    elsewhere = passing[source] != passing[program.reader]
    if baseline.is_piped:
        elsewhere |= baseline.predicting[source] & ~baseline.predicting[program.reader]
    if baseline.is_piped and whole:
        goes_on[_of_layers(baseline, whole)] = False
    through, uses = program.again.copy(), np.flatnonzero(program.again)
    through[uses] = ~baseline.sees(program.reader[uses], program.face[uses])
    hidden: Flags = program.again & (program.face >= 0) & (through | (elsewhere & ~goes_on[program.reader]))
    sums, in_celled = kernels.primitives == _MCORE_ADD, _of_layers(baseline, celled)
    if baseline.in_state is not None and not baseline.is_piped:
        plain = sums & ~baseline.waits_for_state
        if not baseline.with_experts.any():
            plain &= ~in_celled
        hidden &= through | ~plain[source]
    behind = _of_layers(baseline, [layer for layer, is_behind in celled.items() if is_behind])
    handed = behind | (sums & baseline.waits_for_state)
    stateful = elsewhere & _of_layers(baseline, whole)[program.reader] & handed[source]
    if baseline.is_piped:
        stateful |= baseline.takers[program.reader] & baseline.concatenated[source]
    stateful &= program.again & (program.face >= 0) & bool(sums.any())
    if not baseline.is_piped:
        twice = (baseline.layer_casts & ~baseline.with_experts)[source] & baseline.layer_casts[program.reader]
        free = ~baseline.waits_for_state
        if not baseline.with_experts.any():
            free &= ~behind
        hidden &= ~(twice & elsewhere & free[source])
    hidden |= stateful
    later = (program.again & ~through) | kernels.backward[program.reader]
    hidden &= baseline.twin[program.reader] < 0
    uses = np.flatnonzero(hidden & ~stateful)
    hidden[uses] = ~np.isin(seen[uses], seen[later & ~hidden])
    return hidden


def _of_layers(baseline: Baseline, layers: Collection[str]) -> Flags:
    """[kernels]"""
    is_in = np.array([*(name in layers for name in baseline.layers.names), "" in layers], dtype=np.bool_)
    return np.asarray(is_in[baseline.kernels.layer] & (baseline.kernels.passing >= 0))


def taken(baseline: Baseline, program: StrategyProgram) -> Flags:
    """[uses] of one of several outputs by what runs again, or through a view that does: MindSpore takes that output out
    of the tuple in the forward pass, and asks whether what takes it out is to be swapped. A sum is the only output of
    its Add: that is fused with a norm later."""
    several = (program.face >= 0) & (baseline.num_made > 1)[program.face]
    several &= ~np.isin(program.block, baseline.sums)
    reads, count = baseline.reads, len(baseline.kernels)
    row = np.searchsorted(reads.block * count + reads.kernel, program.block * count + program.reader)
    directly = reads.face[np.minimum(row, len(reads.face) - 1)] == program.face
    return np.asarray(several & (program.again | ~directly))


def _owner(baseline: Baseline, of_read: Ints, of_moved: Ints, rows: Ints, shown: Ints) -> Ints:
    """The site that moves what some reads see: of a sum that of the Add, which a gradient of the norm reads, too."""
    reads = baseline.reads
    of_sum = np.full(len(baseline.maker), -1, dtype=np.int64)
    summed = np.flatnonzero(np.isin(reads.block, baseline.sums) & baseline.kernels.backward[reads.kernel])
    of_sum[reads.block[summed]] = of_read[summed]
    adds = of_sum[reads.block[rows]]
    return np.where(adds >= 0, adds, _moved_by(baseline, of_moved, shown[rows]))


def _moved_by(baseline: Baseline, of_moved: Ints, face: Ints) -> Ints:
    """The site that moves what each face shows: that of the first one below it where a view is none."""
    while (unknown := (face >= 0) & baseline.views[face] & (of_moved[face] < 0) & (baseline.below[face] >= 0)).any():
        face = np.where(unknown, baseline.below[face], face)
    return np.asarray(of_moved[face])


def _with_twins(baseline: Baseline, rows: Ints, node: Ints, covered: Flags) -> tuple[Ints, Ints]:
    """What the model computes again anyway runs with the recomputed cell around it, also for a gradient alone."""
    covered_twins = np.flatnonzero(covered & (baseline.twin >= 0) & ~baseline.views)
    if not len(covered_twins):
        return rows, node
    original = np.full(len(covered), -1, dtype=np.int64)
    original[baseline.twin[covered_twins]] = covered_twins
    more = np.flatnonzero((baseline.reads.face >= 0) & (original[baseline.reads.face] >= 0))
    return np.concatenate([rows, more]), np.concatenate([node, original[baseline.reads.face[more]]])


def _resolved(baseline: Baseline, face: Ints, flagged: Flags) -> Ints:
    """The node to run again for a face, -1 for none; a view that only survived for another cell is looked through."""
    below = baseline.below[face]
    return np.where(flagged[face], face, np.where((below >= 0) & flagged[np.maximum(below, 0)], below, -1))


def _shown(baseline: Baseline, again: Flags, face: Ints) -> Ints:
    """What is seen through a view that runs again: the view shows the copy of what it reads, where that has moved."""
    while True:
        deeper = (face >= 0) & again[face] & (baseline.below[face] >= 0)
        if not deeper.any():
            return face
        face = np.where(deeper, baseline.below[face], face)


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _closure(baseline: Baseline, wanted: Ints, flagged: Flags, alone: Flags, staying: Flags) -> Flags:
    """What they read themselves runs again, too, as far as it is flagged; not for those that read a sum ``alone``, or
    what stays."""
    again = np.zeros(len(baseline.kernels), dtype=np.bool_)
    again[wanted] = True
    reader, face = baseline.edges
    usable = flagged[face] & ~alone[reader] & ~staying[baseline.edge_blocks]
    reader, face = reader[usable], face[usable]
    while True:
        added = face[again[reader] & ~again[face]]
        if not len(added):
            return again
        again[added] = True


def _copies(baseline: Baseline, again: Flags, kept: Iterable[int]) -> tuple[Ints, Ints]:
    """([blocks] the row of what is made again, -1 for nothing; rows that get a new block, because the baseline does
    not make them again itself). ``kept``: rows that are not made again, although their maker runs again."""
    is_made = (baseline.maker >= 0) & again[np.maximum(baseline.maker, 0)]
    is_made[list(kept)] = False
    made = np.flatnonzero(is_made)
    twin = baseline.twin_block[made]
    origin = made[twin < 0]
    copied = np.full(len(baseline.maker), -1, dtype=np.int64)
    copied[origin] = len(baseline.maker) + np.arange(len(origin))
    copied[made[twin >= 0]] = twin[twin >= 0]
    return copied, origin
