"""MARKS -> INTERVALS: the forward pass of each layer and module of each step, and where its backward pass begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swapconf.trace.marks import NO_LAYER, Mark, Moment


@dataclass(frozen=True, slots=True)
class Interval:
    """Events of a forward pass, ``start`` and ``end`` being its marks. ``module``: "" for the whole layer."""

    layer: int
    module: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Step:
    """``start``, ``backward``, ``end``: events at which it, or its micro-batch, begins, its backward pass begins, and
    that ends. ``turns``: by layer, where its backward pass begins. ``passes``: in the order of their ends, a layer's
    behind its modules'."""

    start: int
    backward: int
    end: int
    turns: dict[int, int]
    passes: tuple[Interval, ...]

    def layer(self, number: int) -> Interval | None:
        return next((one for one in self.passes if one.layer == number and not one.module), None)


def steps(marks: Sequence[Mark]) -> tuple[Step, ...]:
    """The steps with a backward pass. One with several micro-batches has several."""
    found, open_, passes = [], dict[tuple[int, str], int](), list[Interval]()
    turns, start, backward = dict[int, int](), 0, None
    for mark in marks:
        if mark.moment is Moment.STEP_BEGINS:
            start = mark.event
        elif mark.moment in (Moment.FORWARD_BEGINS, Moment.MODULE_BEGINS):
            open_[mark.layer, mark.module] = mark.event
        elif mark.moment in (Moment.FORWARD_ENDS, Moment.MODULE_ENDS):
            passes.append(Interval(mark.layer, mark.module, open_.pop((mark.layer, mark.module)), mark.event))
        elif mark.moment is Moment.BACKWARD_PASS_BEGINS:
            backward = mark.event
        elif mark.moment is Moment.BACKWARD_BEGINS:
            turns.setdefault(mark.layer, mark.event)
        elif mark.moment is Moment.BACKWARD_PASS_ENDS and backward is not None:
            found.append(Step(start, backward, mark.event, turns, tuple(passes)))
            open_, passes, turns, start, backward = {}, [], {}, mark.event, None
    return tuple(found)


def layers(found: Iterable[Step]) -> frozenset[int]:
    return frozenset(one.layer for step in found for one in step.passes if one.layer != NO_LAYER)
