"""PROGRAM -> PROGRAM: what the model would compute again by itself, and whose recompute is excluded, is kept.

The model flags some primitives itself, as the casts of legacy norms. An exclusion takes that flag away, in every layer
that it names, recomputed or not: the gradients read what the forward pass made (measured with MindSpore 2.9.0: Llama).
So does a cell that is recomputed without ``mp_comm_recompute``, of its Reshapes (`redistributed`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from swapconf.trace.columns import Flags
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.site_actions import SiteActions, casts_kept
from swapconf.whatif.sites import Sites


def restored(baseline: Baseline, sites: Sites, actions: SiteActions, staying: Flags) -> dict[int, int]:
    """By kernel of the backward pass that is not launched the kernel of the forward pass whose output is kept.
    ``staying``: [kernels] those that do not run again, whatever the model has marked."""
    if not actions.excluded.any() and not staying.any():
        return {}
    excluded = (sites.of_node >= 0) & actions.excluded[sites.of_node]
    excluded |= (sites.of_node < 0) & (sites.of_merged >= 0) & actions.excluded[sites.of_merged]
    stays = (excluded | staying | casts_kept(baseline, sites, actions)) & (baseline.twin >= 0)
    stays &= (baseline.num_made == 1) | baseline.views
    kept = {int(baseline.twin[kernel]): kernel for kernel in np.flatnonzero(stays).tolist()}
    return kept | dict(_of_products(baseline, actions.left_out)) | _of_views(baseline, staying | excluded)


def _of_views(baseline: Baseline, staying: Flags) -> dict[int, int]:
    """What gradients make of what a view that stays shows, where no twin of the view is known."""
    kernels, reads = baseline.kernels, baseline.reads
    alone = staying & baseline.views & (baseline.twin < 0) & (baseline.num_made[baseline.below] == 1)
    shown = {int(baseline.below[view]): view for view in np.flatnonzero(alone).tolist()}
    made = (reads.via >= 0) & kernels.backward[reads.via] & baseline.views[reads.via]
    pairs = zip(reads.via[made].tolist(), reads.face[made].tolist(), strict=True)
    return {
        via: shown[face]
        for via, face in pairs
        if face in shown and kernels.primitive[via] == kernels.primitive[shown[face]]
    }


def _of_products(baseline: Baseline, left_out: Collection[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Of a view that is made again for each of several products those of products whose own is excluded."""
    for kernel in np.flatnonzero(baseline.views & (baseline.twin >= 0)).tolist():
        first = int(baseline.twin[kernel])
        for twin in (first, *baseline.further_twins[first]) if first in baseline.further_twins else ():
            own = f"{baseline.kernels.cell[twin]}.{baseline.kernels.primitive[twin].lower()}"
            if (baseline.layer_of(kernel), own) in left_out:
                yield twin, kernel


def kept_instead(baseline: Baseline, program: StrategyProgram, back: Mapping[int, int]) -> StrategyProgram:
    """``back``: see `restored`."""
    if not back:
        return program
    block = np.arange(len(baseline.maker) + len(program.origin))
    for twin, kernel in back.items():
        block[baseline.made.get(twin, [])] = baseline.made.get(kernel, [])
    runs = ~np.isin(program.reader, list(back))
    return replace(
        program,
        block=block[program.block[runs]],
        position=program.position[runs],
        until=program.until[runs],
        face=program.face[runs],
        site=program.site[runs],
        reader=program.reader[runs],
        again=program.again[runs],
    )
