"""PERIODS -> places of the step of a model with more layers, and where what a launch refers to stands in it.

A copy of a layer is told by its *turn*: how many periods were put before it. Where layers follow one another upwards
(the forward pass), copy ``i`` has turn ``i``; where they go downwards (the backward pass), the first copy is of the
last layers. What stands in a period before the one that is copied, or behind it, has the turn of the copy next to it. A
launch with a turn finds what belongs to its own layer in every pass at the same turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swapconf.dryrun.growing.periods import Period
from swapconf.trace.columns import Flags, Ints

NONE = -1  # no copy, no turn, no period


def of_twins(values: Ints, borders: Ints, index: Ints, owner: Ints, twin: Ints) -> Ints:
    """Of some ``values`` (``index``: which), what the twin of the ``owner`` of each has at the same place; NONE where
    it has none. ``borders``: where those of each begin."""
    known = np.maximum(twin, 0)
    there = borders[known] + index - borders[owner]
    found: Flags = (twin >= 0) & (there < borders[known + 1])
    result = np.full(len(index), NONE, dtype=np.int64)
    result[found] = values[there[found]]
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Unrolled:
    """``length``: places of the step that is unrolled. ``upwards``: of each period, the order of its layers. ``more``:
    copies of each period that are added, at least 1."""

    length: int
    periods: Sequence[Period]
    upwards: Sequence[bool]
    more: int

    @cached_property
    def source(self) -> Ints:
        """[new places] the place that each is made from."""
        return self._made[0]

    @cached_property
    def copy(self) -> Ints:
        """[new places] which copy of its period it is, NONE outside of what is copied."""
        return self._made[1]

    @cached_property
    def _made(self) -> tuple[Ints, Ints]:
        source, copy, here = [], [], 0
        for period in self.periods:
            inside = np.arange(period.start, period.stop)
            source += [np.arange(here, period.start), *[inside] * (self.more + 1)]
            copy += [
                np.full(period.start - here, NONE),
                *(np.full(period.length, number) for number in range(self.more + 1)),
            ]
            here = period.stop
        return (
            np.concatenate([*source, np.arange(here, self.length)]),
            np.concatenate([*copy, np.full(self.length - here, NONE)]),
        )

    @cached_property
    def period(self) -> Ints:
        """[places] the period in whose reach each is."""
        found = np.full(self.length, NONE, dtype=np.int64)
        for number, period in enumerate(self.periods):
            found[list(period.fringe)] = number
        for number, period in enumerate(self.periods):
            found[period.low : period.high] = number
        return found

    @cached_property
    def is_copied(self) -> Flags:
        """[places]"""
        found = np.zeros(self.length, dtype=np.bool_)
        for period in self.periods:
            found[period.start : period.stop] = True
        return found

    @cached_property
    def natural(self) -> Ints:
        """[places] where each is in the new step, the first copy of what is copied."""
        starts = np.array([period.stop for period in self.periods], dtype=np.int64)
        added = np.array([0, *np.cumsum([period.length * self.more for period in self.periods])], dtype=np.int64)
        places = np.arange(self.length)
        return places + added[np.searchsorted(starts, places, side="right")]

    @cached_property
    def twin(self) -> Ints:
        """[places] the same place of another period, NONE where there is none."""
        found = np.full(self.length, NONE, dtype=np.int64)
        for period in self.periods:
            low, high, length = period.low, period.high, period.length
            found[low : high - length] = np.arange(low + length, high)
            back = max(low + length, high - length)
            found[back:high] = np.arange(back - length, high - length)
        for number, period in enumerate(self.periods):
            for place in period.fringe:
                if self.period[place] == number:
                    found[place] = place + period.length if place < period.low else place - period.length
        return found

    def turn(self, place: Ints, copy: Ints) -> Ints:
        """Of a launch made from ``place`` as ``copy``; NONE outside of the reach of all periods."""
        if not self.periods:
            return np.full(len(place), NONE, dtype=np.int64)
        period = self.period[place]
        upwards = np.array(self.upwards)[period]
        behind = place >= np.array([item.stop for item in self.periods])[period]
        found = np.where(
            copy >= 0, np.where(upwards, copy, self.more - copy), np.where(behind == upwards, self.more, 0)
        )
        return np.where(period >= 0, found, NONE)

    @cached_property
    def side(self) -> Ints:
        """[places] the turn of what both the periods before and behind a place come to; NONE where they do not agree,
        as between the forward passes of two micro-batches."""
        before = np.array([NONE, *(self.more if up else 0 for up in self.upwards)])
        behind = np.array([*(0 if up else self.more for up in self.upwards), NONE])
        number = np.searchsorted([period.high for period in self.periods], np.arange(self.length), side="right")
        one, other = before[number], behind[number]
        return np.where((one == other) | (other < 0), one, np.where(one < 0, other, NONE))

    @cached_property
    def beside(self) -> Ints:
        """[new places] the turn of each; outside of the reach of all periods that of what is next to it."""
        turn = self.turn(self.source, self.copy)
        return np.maximum(np.where(turn < 0, self.side[self.source], turn), 0)

    def is_sum(self, places: Sequence[int]) -> bool:
        """Whether a launch outside of the layers, which refers to ``places``, refers to some of every period."""
        known = set(places)
        return any(self.is_copied[place] and int(self.twin[place]) in known for place in places)

    def at(self, place: Ints, turn: Ints) -> Ints:
        """Where in the new step ``place``, which is in the reach of a period, stands at a turn."""
        period = self.period[place]
        length = np.array([item.length for item in self.periods])
        before = (np.cumsum(length) - length) * self.more
        copies = np.where(np.array(self.upwards)[period], turn, self.more - turn)
        return np.asarray(place + before[period] + copies * length[period])

    def shown(self, turn: int) -> Ints:
        """[places] where each stands in the new step at a turn, what is in no reach always at the same place."""
        if not self.periods:
            return self.natural
        places = np.arange(self.length)
        return np.where(self.period >= 0, self.at(places, np.full(self.length, turn)), self.natural)

    def follows(self, place: Ints, other: Ints, of_twin: Ints) -> Flags:
        """Whether the twin of ``place`` refers to what stands just one period away from ``other``, as it does itself.
        ``of_twin``: what it refers to, below zero for nothing."""
        twin, upwards, period = self.twin[place], np.array(self.upwards), self.period[other]
        away = np.array([item.length for item in self.periods])[period] * np.sign(twin - place)
        away = np.where(upwards[self.period[place]] == upwards[period], away, -away)
        return np.asarray((twin >= 0) & (of_twin >= 0) & (period >= 0) & (of_twin - other == away))

    def seen(self, place: Ints, copy: Ints, other: Ints, shared: Flags, of_twin: Ints) -> Ints:
        """Where in the new step the place ``other`` stands for a launch made from ``place`` as ``copy``. ``shared``:
        the same for every layer. ``of_twin``: what the twin of ``place`` refers to, below zero for nothing: it tells
        whose layer ``other`` is of where neither is copied, as of a release more than a period behind."""
        if not self.periods:
            return other
        turn = self.turn(place, copy)
        turn = np.where(turn < 0, self.side[place], turn)
        told = (copy >= 0) | self.is_copied[other] | self.follows(place, other, of_twin)
        moves = (self.period[other] >= 0) & (turn >= 0) & ~shared & told
        return np.where(moves, self.at(other, np.maximum(turn, 0)), self.natural[other])
