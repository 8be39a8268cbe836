"""TRACE of a PyNative run -> who holds what at its peak: the parts of `memory/holders.py`, told by marks.

What the forward pass of a layer made is the layer's; after the last layer come the head and the loss, whose gradients
come first in the backward pass. Weights, optimizer state and gradients bear no names, so none of them is known to be a
layer's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.peak import PeakPart
from swapconf.trace.lifetimes import CATEGORIES, Category, Lifetimes
from swapconf.trace.marked_passes import Pass
from swapconf.trace.marks import NO_LAYER
from swapconf.trace.phases import Phase
from swapconf.trace.trace import Trace

_PHASES = {
    Pass.FORWARD: Phase.FORWARD,
    Pass.RECOMPUTED: Phase.RECOMPUTED,
    Pass.BACKWARD: Phase.BACKWARD,
    Pass.OPTIMIZER: Phase.OPTIMIZER,
}
_OF_LOSS = (Category.ACTIVATION, Category.GRADIENT, Category.RECOMPUTED, Category.COMMUNICATION)


def marked_parts(
    trace: Trace, live: Lifetimes, by_category: Mapping[Category, PeakPart], parts: tuple[PeakPart, ...]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """For each block the index of its part, and whether it is of a layer."""
    passes = trace.passes
    outlives = np.searchsorted(passes.steps, live.start) < np.searchsorted(passes.steps, live.end)
    found = []
    for place, category, is_kept in zip(
        passes.places(live.start).tolist(), live.category.tolist(), outlives.tolist(), strict=True
    ):
        stretch, kind = passes.stretches[place], CATEGORIES[category]
        part = by_category[kind]
        if stretch.layer != NO_LAYER and kind is Category.ACTIVATION:
            part = PeakPart.LAYERS
        elif stretch.is_loss and kind in _OF_LOSS and not is_kept:
            part = PeakPart.LOSS
        found.append(parts.index(part))
    return np.array(found, dtype=np.uint8), np.not_equal(live.layer, NO_LAYER)


def marked_phases(trace: Trace, live: Lifetimes) -> dict[int, Phase]:
    """The phase in which each block was made, by the event of its birth; without those of before the first step."""
    passes = trace.passes
    whats = [passes.stretches[place].what for place in passes.places(live.start).tolist()]
    return {start: _PHASES[what] for start, what in zip(live.start.tolist(), whats, strict=True) if what in _PHASES}
