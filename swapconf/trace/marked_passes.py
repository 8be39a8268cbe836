"""MARKS -> PASSES: in which pass of which layer each event of a PyNative run lies.

A layer's forward pass that runs inside of a backward pass is recomputed; so is what lies between the marks of a
recompute, which stops as soon as it has what the backward pass needs. After the last layer of a forward pass come the
head and the loss, whose gradients come first in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.marks import NO_LAYER, Mark, Moment


class Pass(Enum):
    """What runs. ``BUILDING``: the model; ``OPTIMIZER_BUILDING``: the optimizer, both before the first step."""

    BUILDING = "building"
    OPTIMIZER_BUILDING = "optimizer building"
    FORWARD = "forward"
    RECOMPUTED = "recomputed"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True)
class Stretch:
    """What runs from an event on. ``layer``: NO_LAYER outside of them. ``is_loss``: the head, the loss or their
    gradients. ``step``: from 1 on, 0 before the first."""

    start: int
    what: Pass
    layer: int
    is_loss: bool
    step: int


class Passes:
    """The stretches of a run, in their order."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self.stretches: tuple[Stretch, ...] = tuple(_stretches(marks))
        self._starts = np.array([stretch.start for stretch in self.stretches], dtype=np.int64)
        self.steps = np.array([mark.event for mark in marks if mark.moment is Moment.STEP_BEGINS], dtype=np.int64)

    def places(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [n]: which stretch each event lies in."""
        found: NDArray[np.int64] = np.searchsorted(self._starts, events, side="right") - 1
        return found

    def at(self, event: int) -> Stretch:
        return self.stretches[int(self.places(np.array([event]))[0])]


_FIRST = Stretch(start=-1, what=Pass.BUILDING, layer=NO_LAYER, is_loss=False, step=0)


def _stretches(marks: Sequence[Mark]) -> Iterator[Stretch]:
    now = _FIRST
    yield now
    for mark in marks:
        if not mark.module:
            now = replace(_next(now, mark), start=mark.event)
            yield now


def _next(now: Stretch, mark: Mark) -> Stretch:
    """What runs after a mark. ``now``: what ran before it."""
    in_backward = now.what in (Pass.BACKWARD, Pass.RECOMPUTED)
    what = _ALWAYS.get(mark.moment)
    if what is not None:
        step = now.step + (mark.moment is Moment.STEP_BEGINS)
        return replace(now, what=what, layer=NO_LAYER, is_loss=mark.moment is Moment.BACKWARD_PASS_BEGINS, step=step)
    if mark.moment is Moment.FORWARD_BEGINS:
        return replace(now, what=Pass.RECOMPUTED if in_backward else Pass.FORWARD, layer=mark.layer, is_loss=False)
    if mark.moment is Moment.FORWARD_ENDS:
        return now if in_backward else replace(now, layer=NO_LAYER, is_loss=True)
    if mark.moment is Moment.BACKWARD_BEGINS:
        return replace(now, what=Pass.BACKWARD, layer=mark.layer, is_loss=False)
    if mark.moment is Moment.RECOMPUTE_BEGINS:
        return replace(now, what=Pass.RECOMPUTED)
    if mark.moment is Moment.RECOMPUTE_ENDS:
        return replace(now, what=Pass.BACKWARD)
    return replace(now, layer=NO_LAYER) if now.layer == mark.layer else now  # a layer's backward pass ends


_ALWAYS = {
    Moment.OPTIMIZER_IS_BUILT: Pass.OPTIMIZER_BUILDING,
    Moment.OPTIMIZER_STANDS: Pass.BUILDING,
    Moment.STEP_BEGINS: Pass.FORWARD,
    Moment.MODEL_BEGINS: Pass.FORWARD,
    Moment.BACKWARD_PASS_BEGINS: Pass.BACKWARD,
    Moment.BACKWARD_PASS_ENDS: Pass.FORWARD,
    Moment.OPTIMIZER_BEGINS: Pass.OPTIMIZER,
    Moment.STEP_ENDS: Pass.OPTIMIZER,
}
