"""TRACE of a PyNative run -> EFFECT of its last step: which operators of which layer ran again.

Marks tell the layer, and nothing of the cells in it. What is moved to the host leaves no block in the tracker's files:
the child tells it beside its marks.
"""

from __future__ import annotations

import numpy as np

from swapconf.dryrun.effect.effect import Effect, Launch, Move
from swapconf.trace.marked_passes import Pass, Stretch
from swapconf.trace.marks import NO_KERNELS, NO_LAYER
from swapconf.trace.trace import Trace
from swapconf.upstream.scopes import Place


def marked_effect(trace: Trace) -> Effect:
    passes = trace.passes
    layers = frozenset(str(stretch.layer) for stretch in passes.stretches if stretch.layer != NO_LAYER)
    events = np.array([task.event for task in trace.tasks], dtype=np.int64)
    last = len(passes.steps)
    again = tuple(
        Launch(Place(str(stretch.layer), ""), task.primitive)
        for task, stretch in zip(trace.tasks, map(passes.stretches.__getitem__, passes.places(events)), strict=True)
        if _runs_again(stretch, last) and not task.primitive.endswith(NO_KERNELS)
    )
    moves = tuple(
        Move(place=Place(str(layer), ""), primitive="", size_bytes=size, host_bytes=size) for layer, size in trace.moved
    )
    return Effect(layers=layers, moves=moves, host_peak_bytes=trace.moved_host_bytes, recomputed=again)


def _runs_again(stretch: Stretch, step: int) -> bool:
    return stretch.what is Pass.RECOMPUTED and stretch.step == step
