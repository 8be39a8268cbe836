"""NODES that run again -> those that wait for no gradient of their own cell.

MindSpore 2.9.0 ties what a recomputed cell is given (its input, weights) to the gradient of the output of that cell,
and nothing else. What reads only nodes of the cell that do not run again, such as what was left out of the recompute,
or the index of a top-k, is not tied: it runs again as soon as the backward pass of its micro-batch begins, and so does
what reads nothing but such as these (measured: casts of a norm's output, casts of the experts' indices, their sorting).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.upstream.scopes import descends
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.sites import Sites
from swapconf.whatif.slots import AT_START, TURN, turns_at


@dataclass(frozen=True, kw_only=True)
class Covered:
    """``root``: [kernels] which cell that was asked for covers a node that is to run again, -1 for none or for a
    primitive asked for itself. ``under``: [roots, kernels] stands at or below such a cell."""

    root: Ints
    under: Flags


def covered(sites: Sites, cell: Ints, cells: Sequence[str], roots: Mapping[str, Set[str]]) -> Covered:
    """``cell``: [sites] index into ``cells`` of the cell that covers each, -1 for none; ``roots``: by layer name, the
    operators whose recompute was asked for."""
    root = np.where(sites.of_node >= 0, cell[sites.of_node], -1)
    paths = [path for _, path in sites.places]
    under = np.zeros((len(cells), len(paths) + 1), dtype=np.bool_)  # the last: of what stands in no layer
    for number, asked in sorted(enumerate(cells), key=lambda numbered: -len(numbered[1])):  # the outermost is the last
        under[number, :-1] = [descends(path, {asked}) for path in paths]
        for (layer, path), nodes in sites.loose.items():
            if asked in roots.get(layer, ()) and descends(path, {asked}):
                root[nodes] = number
    stands = root == np.arange(len(cells))[:, None]  # also what has no place of its own
    ends = np.flatnonzero((sites.of_node < 0) & (sites.of_merged >= 0))  # the view at the end of a Linear has none
    linears, linear = np.unique(sites.of_merged[ends], return_inverse=True)
    for number, asked in enumerate(cells if len(ends) else ()):
        within = np.array([descends(sites.names[site][1], {asked}) for site in linears.tolist()])
        stands[number, ends] |= within[linear]
    return Covered(root=root, under=under[:, sites.of_place] | stands)


def ungated(baseline: Baseline, again: Flags, covered: Covered) -> Flags:
    """[kernels]"""
    reads, passing = baseline.reads, baseline.kernels.passing
    free = again & (covered.root >= 0) & (passing >= 0) & ~baseline.rootless & (baseline.twin < 0)
    # the Reshape at the end of a Linear, which the model itself recomputes, has a copy of its own there already
    free &= ~baseline.kernels.is_lost | (baseline.below < 0) | again[baseline.below]
    rows = np.flatnonzero(free[reads.kernel])
    face, reader = reads.face[rows], reads.kernel[rows]
    inside = (face >= 0) & (passing[face] == passing[reader]) & ~baseline.rootless[face]
    inside &= covered.under[covered.root[reader], face]
    while True:
        tied = free[reader] & ~(inside & (~again[face] | free[face]))
        if not tied.any():
            return free
        free[reader[tied]] = False


def places(baseline: Baseline, nodes: Sequence[int]) -> Ints:
    """Positions at the start of the backward pass of the micro-batch of each; ``nodes`` are ascending."""
    begin = baseline.returnable[list(nodes)]
    return np.asarray(begin * TICKS + AT_START + TURN * turns_at(begin, np.array(nodes, dtype=np.int64)))
