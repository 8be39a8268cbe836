"""MARKS -> INTERVALS: the forward pass of each layer and module of each step, and where its backward pass begins.

A step has as many forward and backward passes as micro-batches; in a pipeline a rank goes forward with several of them,
and with each of its stages, before it goes back with the first. Those of one stage go back in the order in which they
went forward: so do all schedules that mindformers 2.1.0 has (1F1B, interleaved, GPipe).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from swapconf.trace.marks import NO_LAYER, Mark, Moment

_BEGINS = (Moment.FORWARD_BEGINS, Moment.MODULE_BEGINS)
_FORWARD_ENDS = (Moment.FORWARD_ENDS, Moment.MODULE_ENDS)
_TURNS = (Moment.BACKWARD_BEGINS, Moment.MODULE_TURNS)
_GOING_FORWARD, _GOING_BACK = (*_BEGINS, *_FORWARD_ENDS), (*_TURNS, Moment.BACKWARD_ENDS)


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
    """``start``, ``backward``, ``end``: events at which it, or a micro-batch of one stage, begins, its backward pass
    begins, and that ends. ``turns``: by layer, where its backward pass begins. ``passes``: in the order of their ends,
    a layer's behind its modules'. ``ended``: layers whose backward pass says that it is through: it gets no word of
    that where no gradient leaves by the layer's first input, as with multi-token prediction."""

    start: int
    backward: int
    end: int
    turns: dict[int, int]
    passes: tuple[Interval, ...]
    ended: frozenset[int] = frozenset()

    def layer(self, number: int) -> Interval | None:
        return self.part(number, "")

    def part(self, layer: int, module: str) -> Interval | None:
        return next((one for one in self.passes if (one.layer, one.module) == (layer, module)), None)


class _Forward:
    """A forward pass, from ``start`` on."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._open: dict[tuple[int, str], int] = {}
        self._passes: list[Interval] = []

    @property
    def layers(self) -> frozenset[int]:
        return frozenset(one.layer for one in self._passes)

    def take(self, mark: Mark) -> None:
        if mark.moment in _BEGINS:
            self._open[mark.layer, mark.module] = mark.event
        elif mark.moment in _FORWARD_ENDS:
            start = self._open.pop((mark.layer, mark.module))
            self._passes.append(Interval(mark.layer, mark.module, start, mark.event))

    def step(self, backward: int, gone_back: Sequence[Mark], end: int) -> Step:
        """``gone_back``: the marks of its backward pass."""
        turns: dict[int, int] = {}
        for mark in gone_back:
            if mark.moment is Moment.BACKWARD_BEGINS:
                turns.setdefault(mark.layer, mark.event)
        ended = frozenset(mark.layer for mark in gone_back if mark.moment is Moment.BACKWARD_ENDS)
        return Step(self._start, backward, end, turns, tuple(self._turned(gone_back, end)), ended)

    def _turned(self, gone_back: Sequence[Mark], end: int) -> list[Interval]:
        """The passes with their turns; what ran last turns first."""
        waiting: dict[tuple[int, str], list[Interval]] = {}
        for one in self._passes:
            waiting.setdefault((one.layer, one.module), []).append(one)
        turned = [
            (mark, ran.pop() if mark.moment in _TURNS and (ran := waiting.get((mark.layer, mark.module))) else None)
            for mark in gone_back
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


class _Reading:
    """What was seen so far. ``boundary``: where what comes next begins, if nothing of it has come yet."""

    def __init__(self) -> None:
        self.found: list[Step] = []
        self._waiting: list[_Forward] = []  # for their backward passes, in their order
        self._boundary, self._backward = 0, 0
        self._now: _Forward | None = None
        self._gone_back: list[Mark] = []

    def take(self, mark: Mark) -> None:
        if mark.moment is Moment.STEP_BEGINS:
            self._boundary = mark.event
            self._waiting.clear()
        elif mark.moment is Moment.MODEL_ENDS:
            self._boundary, self._now = mark.event, None
        elif mark.moment is Moment.BACKWARD_PASS_BEGINS:
            self._backward, self._now = mark.event, None
            self._gone_back = []
        elif mark.moment is Moment.BACKWARD_PASS_ENDS:
            self._end(mark.event)
        elif mark.moment in _GOING_BACK:
            self._gone_back.append(mark)
        elif mark.moment in _GOING_FORWARD:
            if self._now is None:
                self._now = _Forward(self._boundary)
                self._waiting.append(self._now)
            self._now.take(mark)

    def _end(self, event: int) -> None:
        layers = frozenset(mark.layer for mark in self._gone_back)
        forward = next((one for one in self._waiting if not one.layers.isdisjoint(layers)), None)
        if forward is not None and self._backward:
            self._waiting.remove(forward)
            self.found.append(forward.step(self._backward, self._gone_back, event))
        self._boundary = event


def steps(marks: Sequence[Mark]) -> tuple[Step, ...]:
    """The steps with a backward pass. One with several micro-batches, or stages, has several."""
    reading = _Reading()
    for mark in marks:
        reading.take(mark)
    return tuple(reading.found)


def layers(found: Iterable[Step]) -> frozenset[int]:
    return frozenset(one.layer for step in found for one in step.passes if one.layer != NO_LAYER)
