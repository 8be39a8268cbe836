"""MARKS -> INTERVALS: the forward pass of each layer and module of each step, and where its backward pass begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from swapconf.trace.marks import NO_LAYER, Mark, Moment

_BEGINS = (Moment.FORWARD_BEGINS, Moment.MODULE_BEGINS)
_FORWARD_ENDS = (Moment.FORWARD_ENDS, Moment.MODULE_ENDS)
_TURNS = (Moment.BACKWARD_BEGINS, Moment.MODULE_TURNS)


@dataclass(frozen=True, slots=True)
class Interval:
    """Events of a forward pass, ``start`` and ``end`` being its marks. ``module``: "" for the whole layer.

    ``turn``, ``through``: where its backward pass begins, and that of what ran before it; None where no gradient came.
    """

    layer: int
    module: str
    start: int
    end: int
    turn: int | None = None
    through: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """``start``, ``backward``, ``end``: events at which it, or its micro-batch, begins, its backward pass begins, and
    that ends. ``turns``: by layer, where its backward pass begins. ``passes``: in the order of their ends, a layer's
    behind its modules'. ``ended``: layers whose backward pass says that it is through: it gets no word of that where no
    gradient leaves by the layer's first input, as with multi-token prediction."""

    start: int
    backward: int
    end: int
    turns: dict[int, int]
    passes: tuple[Interval, ...]
    ended: frozenset[int] = frozenset()

    def layer(self, number: int) -> Interval | None:
        return next((one for one in self.passes if one.layer == number and not one.module), None)


class _Reading:
    """What was seen since a step, or a micro-batch, began."""

    def __init__(self, start: int) -> None:
        self.start, self.backward = start, 0
        self._open: dict[tuple[int, str], int] = {}
        self._passes: list[Interval] = []
        self._turns: list[Mark] = []

    def take(self, mark: Mark) -> None:
        if mark.moment in _BEGINS:
            self._open[mark.layer, mark.module] = mark.event
        elif mark.moment in _FORWARD_ENDS:
            start = self._open.pop((mark.layer, mark.module))
            self._passes.append(Interval(mark.layer, mark.module, start, mark.event))
        elif mark.moment in _TURNS or mark.moment is Moment.BACKWARD_ENDS:
            self._turns.append(mark)

    def step(self, end: int) -> Step:
        turns: dict[int, int] = {}
        for mark in self._turns:
            if mark.moment is Moment.BACKWARD_BEGINS:
                turns.setdefault(mark.layer, mark.event)
        ended = frozenset(mark.layer for mark in self._turns if mark.moment is Moment.BACKWARD_ENDS)
        return Step(self.start, self.backward, end, turns, tuple(self._turned(end)), ended)

    def _turned(self, end: int) -> list[Interval]:
        """The passes with their turns; what ran last turns first."""
        waiting: dict[tuple[int, str], list[Interval]] = {}
        for one in self._passes:
            waiting.setdefault((one.layer, one.module), []).append(one)
        turned = [
            (mark, ran.pop() if mark.moment in _TURNS and (ran := waiting.get((mark.layer, mark.module))) else None)
            for mark in self._turns
        ]
        found = {}
        for place, (mark, part) in enumerate(turned):
            if part is not None:
                later = islice(turned, place + 1, None)
                through = next((other.event for other, before in later if _is_through(part, other, before)), end)
                found[part] = replace(part, turn=mark.event, through=through)
        return [found.get(one, one) for one in self._passes]


def _is_through(part: Interval, mark: Mark, before: Interval | None) -> bool:
    """Whether the backward pass of a part is through at a mark behind its turn: its layer ends, or what turns ran
    before it. What hands on the tensor that it was given turns with it, and the layer behind ends there, too."""
    if before is None:
        return mark.moment is Moment.BACKWARD_ENDS and mark.layer == part.layer
    return before.end <= part.start


def steps(marks: Sequence[Mark]) -> tuple[Step, ...]:
    """The steps with a backward pass. One with several micro-batches has several."""
    found: list[Step] = []
    reading = _Reading(0)
    for mark in marks:
        if mark.moment is Moment.STEP_BEGINS:
            reading.start = mark.event
        elif mark.moment is Moment.BACKWARD_PASS_BEGINS:
            reading.backward = mark.event
        elif mark.moment is Moment.BACKWARD_PASS_ENDS and reading.backward:
            found.append(reading.step(mark.event))
            reading = _Reading(mark.event)
        else:
            reading.take(mark)
    return tuple(found)


def layers(found: Iterable[Step]) -> frozenset[int]:
    return frozenset(one.layer for step in found for one in step.passes if one.layer != NO_LAYER)
