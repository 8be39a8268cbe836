"""STEPS + number of micro-batches -> PASSES: where in the step each pass of each micro-batch begins.

Under 1F1B, and where gradients are accumulated, a rank takes the micro-batches through its layers in their order: some
forward passes first, then a backward and a forward pass in turns, then the backward passes that are left. What a cell
launches once in each pass is there as often as there are micro-batches, and at the same distance from the begin of
each; the distances that most of such launches of layers have are those of the passes. What exchanges gradients once a
layer may be there as often, but is of no layer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.growing.steps import Steps
from swapconf.trace.columns import Ints
from swapconf.trace.trace import without_number
from swapconf.upstream.scopes import GRADIENTS, in_layer
from swapconf.words.phrases import phrase

NONE = -1  # no pass, no round: the head and the tail of a step


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One pass of a micro-batch through the layers: places ``start`` to ``stop`` (not included). From ``ends`` on there
    may be launches of the next pass among them."""

    is_backward: bool
    micro_batch: int
    start: int
    ends: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Passes:
    """``rows``: all passes, in order. What is before the first is the *head* of the step, what is behind the last its
    *tail*. ``owner``: [places] the pass that a launch is of, NONE in head and tail: that in whose places it is, or the
    next one, if that is what uses it."""

    rows: tuple[Pass, ...]
    owner: Ints

    @cached_property
    def in_flight(self) -> int:
        """Micro-batches whose tensors are kept at once: as many forward passes are before the first backward pass."""
        return next(number for number, one in enumerate(self.rows) if one.is_backward)

    @cached_property
    def micro_batches(self) -> int:
        return len(self.rows) // 2

    @cached_property
    def number(self) -> Ints:
        """[places] the pass in whose places it is, NONE in head and tail."""
        found = np.full(len(self.owner), NONE, dtype=np.int64)
        for number, one in enumerate(self.rows):
            found[one.start : one.stop] = number
        return found

    @cached_property
    def rounds(self) -> Ints:
        """[passes]"""
        return np.array([round_of(one.is_backward, one.micro_batch, self.in_flight) for one in self.rows])

    @cached_property
    def round(self) -> Ints:
        """[places] the round of the pass that it is of, NONE in head and tail."""
        return np.where(self.owner >= 0, self.rounds[self.owner], NONE)


def round_of(is_backward: bool, micro_batch: int, in_flight: int) -> int:
    """Each forward pass begins a round; a backward pass follows, once there is one, and has rounds of its own when the
    forward passes are over. So the passes of a micro-batch are always equally many rounds apart."""
    return micro_batch + (in_flight - 1) * is_backward


def passes(steps: Steps, micro_batches: int) -> Passes:
    """Raises CannotCompose where they are not found, or are in no order that is understood."""
    alike = launches_alike(steps)
    forward, backward = (_launches(alike, micro_batches, is_backward=side) for side in (False, True))
    if not forward or not backward:
        raise CannotCompose(
            phrase("the passes of {count} micro-batches were not found in the trace", count=micro_batches)
        )
    marks = sorted(
        (min(places), max(places) + 1, is_backward, number)
        for is_backward, launches in ((False, forward), (True, backward))
        for number, places in enumerate(zip(*launches, strict=True))
    )
    stops = [start for start, *_ in marks[1:]] + [marks[-1][1]]
    rows = tuple(
        Pass(is_backward=is_backward, micro_batch=number, start=start, ends=ends, stop=stop)
        for (start, ends, is_backward, number), stop in zip(marks, stops, strict=True)
    )
    found = Passes(rows=rows, owner=_owners(steps, rows))
    if [(one.is_backward, one.micro_batch) for one in found.rows] != order(found.in_flight, micro_batches):
        raise CannotCompose(phrase("its micro-batches do not take turns as under 1F1B"))
    return found


def _owners(steps: Steps, rows: Sequence[Pass]) -> Ints:
    """See `Passes.owner`. What is made of nothing of the pass in which it stands, and read first by the next forward
    pass, is of that one. Before a backward pass begins, what it reads first is of it, and what is made of that; so is
    what reads of the forward pass of its micro-batch, if that was long before."""
    number = np.full(steps.length, NONE, dtype=np.int64)
    for index, one in enumerate(rows):
        number[one.start : one.stop] = index
    makers, first_reader = _links(steps)
    apart = _apart(number, makers)
    owner = number.copy()
    between = {place for one in rows[:-1] for place in range(one.ends, one.stop)}
    following, saved = _following(rows), _saved(rows)
    for place in sorted(between):
        kept_by = saved[number[place] + 1]
        if kept_by != NONE and any(number[maker] == kept_by for maker in makers.get(place, ())):
            owner[place] = number[place] + 1
    for place in reversed(range(rows[0].start, rows[-1].ends)):
        reader = first_reader.get(place, NONE)
        if reader == NONE or owner[reader] <= number[place]:
            continue
        is_led = number[reader] == number[place] or reader not in between  # sums of all micro-batches are not
        ahead = following[number[place]] if apart[place] and is_led else NONE
        if owner[reader] in (ahead, number[place] + 1 if place in between else NONE):
            owner[place] = owner[reader]
    for place in sorted(between):
        owner[place] = max(owner[place], *(owner[maker] for maker in makers.get(place, ())), NONE)
    return owner


def _following(rows: Sequence[Pass]) -> list[int]:
    """[passes] the next forward pass, NONE behind the last."""
    found = [NONE] * len(rows)
    for index in reversed(range(len(rows) - 1)):
        found[index] = found[index + 1] if rows[index + 1].is_backward else index + 1
    return found


def _saved(rows: Sequence[Pass]) -> list[int]:
    """[passes] the forward pass that saves for a backward one, NONE where it is the one before, and of forward ones."""
    forward = {one.micro_batch: index for index, one in enumerate(rows) if not one.is_backward}
    found = [forward[one.micro_batch] if one.is_backward else NONE for one in rows]
    return [NONE if at == index - 1 else at for index, at in enumerate(found)]


def _apart(number: Ints, makers: Mapping[int, Sequence[int]]) -> list[bool]:
    """[places] whether it is made of nothing of its pass but what is so, too."""
    found: list[bool] = []
    for place, own in enumerate(number.tolist()):
        found.append(all(found[one] or number[one] != own for one in makers.get(place, ())))
    return found


def _links(steps: Steps) -> tuple[dict[int, list[int]], dict[int, int]]:
    """By place: where what it reads is made in the step, and where what it makes is read first."""
    starts, born = steps.trace.blocks.start, steps.birthplace
    makers: dict[int, list[int]] = {}
    first: dict[int, int] = {}
    for place, task in enumerate(steps.task_at.tolist()):
        if task >= 0 and (given := steps.trace.tasks[task].inputs):
            places = born[np.searchsorted(starts, np.array(given))].tolist()
            makers[place] = [one for one in places if 0 <= one < place]
            for one in makers[place]:
                first.setdefault(one, place)
    return makers, first


def order(in_flight: int, micro_batches: int) -> list[tuple[bool, int]]:
    """(whether backward, micro-batch) of each pass of a step."""
    found = []
    for number in range(micro_batches + in_flight - 1):
        found += [(False, number)] * (number < micro_batches)
        found += [(True, number - in_flight + 1)] * (number >= in_flight - 1)
    return found


def launches_alike(steps: Steps) -> dict[tuple[str, Hashable], list[int]]:
    """By name, without its number, and form the places of launches, events aside."""
    found: defaultdict[tuple[str, Hashable], list[int]] = defaultdict(list)
    for place, (kernel, form) in enumerate(zip(steps.kernels, steps.forms, strict=True)):
        if not kernel.is_event:
            found[without_number(kernel.name), form].append(place)
    return found


def _launches(
    alike: Mapping[tuple[str, Hashable], list[int]], micro_batches: int, *, is_backward: bool
) -> list[list[int]]:
    """Of each launch of a pass its places in all passes, of those that most others keep their distances to."""
    rows = [
        (name, places)
        for (name, _), places in alike.items()
        if len(places) == micro_batches and name.startswith(GRADIENTS) == is_backward
    ]
    in_layers = [places for name, places in rows if in_layer(name) is not None]
    often = [places for _, places in rows]
    every, but_last = (Counter(_distances(places, stop) for places in in_layers or often) for stop in (None, -1))
    stop = -1 if is_backward and micro_batches > 3 and 2 * _most(every) < _most(but_last) else None
    distances = every if stop is None else but_last
    usual = max(distances, key=lambda one: (distances[one], one), default=())
    return [places for places in often if _distances(places, stop) == usual]


def _most(distances: Mapping[tuple[int, ...], int]) -> int:
    return max(distances.values(), default=0)


def _distances(places: Sequence[int], stop: int | None) -> tuple[int, ...]:
    """From the second on, where there are more: the first forward pass does more. ``stop``: -1 without the last, where
    the last backward pass does more, as it exchanges among its layers what is whole."""
    return tuple(np.diff(places[int(len(places) > 2) : stop]).tolist())
