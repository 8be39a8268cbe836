"""KERNELS of a step + UNROLLED -> KERNELS of the step of the whole model, with names, nodes and events of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from swapconf.dryrun.growing.layers import Numbering, Operators, layer_in, with_layer
from swapconf.dryrun.growing.steps import Steps
from swapconf.dryrun.growing.unrolled import NONE, Unrolled, of_twins
from swapconf.trace.blocks import offsets, ranges
from swapconf.trace.trace import Kernel

_CONSTANT_INPUT = "ValueNode"


def step_kernels(steps: Steps, unrolled: Unrolled, numbering: Numbering) -> tuple[Kernel, ...]:
    """The kernels of one step, counted from 1."""
    source, copy = unrolled.source.tolist(), unrolled.copy.tolist()
    names = _names(steps, unrolled, numbering)
    links = _Links(steps.kernels, unrolled)
    fresh: dict[tuple[str, int], str] = {}

    def event(place: int) -> str:
        own, number = steps.kernels[source[place]].event, copy[place]
        return own if number <= 0 else fresh.setdefault((own, number), f"{own}{number:06d}")

    def node(place: int) -> str:
        own, number = steps.kernels[source[place]].output, copy[place]
        return own if number <= 0 else f"{own}_{number}"

    made = []
    for place, (row, name) in enumerate(zip(source, names, strict=True)):
        kernel = steps.kernels[row]
        *makers, sent = links.of(place)
        made.append(
            replace(
                kernel,
                index=place + 1,
                name=name,
                output=node(place),
                event=kernel.event and event(sent),
                inputs=tuple(
                    given if maker < 0 else node(maker)
                    for given, maker in links.all_of(place, [*zip(kernel.inputs, makers, strict=True)])
                ),
            )
        )
    return tuple(made)


def _names(steps: Steps, unrolled: Unrolled, numbering: Numbering) -> list[str]:
    """What was there keeps its number among its operators, where that is free; copies get the next ones."""
    twin, turn = unrolled.twin.tolist(), unrolled.turn(unrolled.source, unrolled.copy).tolist()
    wanted = []
    for row, at in zip(unrolled.source.tolist(), turn, strict=True):
        name = steps.kernels[row].name
        layer = layer_in(name)
        if layer >= 0:
            moves = at >= 0 and numbering.holds(layer) and layer_in(steps.kernels[twin[row]].name) != layer
            name = with_layer(name, numbering.at(layer, at) if moves else numbering.natural(layer))
        wanted.append(name)
    operators, found = Operators(), [""] * len(wanted)
    for place in np.argsort(unrolled.copy > 0, kind="stable").tolist():
        found[place] = operators.own(wanted[place])
    return found


class _Links:
    """What a launch names: the nodes that it reads, and the event that it waits for."""

    def __init__(self, kernels: Sequence[Kernel], unrolled: Unrolled) -> None:
        others, counts = named_places(kernels), [len(kernel.inputs) + 1 for kernel in kernels]
        borders = offsets(np.array(counts, dtype=np.int64))
        source = unrolled.source
        named = np.diff(borders)[source]
        owner = np.repeat(np.arange(len(source)), named)
        self._borders = offsets(named)
        known, index = np.array(others, dtype=np.int64), ranges(borders[source], named)
        other, place = known[index], source[owner]
        of_twin = of_twins(known, borders, index, place, unrolled.twin[place])
        none_shared = np.zeros(len(owner), dtype=np.bool_)
        there = unrolled.seen(place, unrolled.copy[owner], np.maximum(other, 0), none_shared, of_twin)
        self._places = np.where(other < 0, NONE, there).tolist()
        self._unrolled, self._copy = unrolled, unrolled.copy.tolist()
        self._turn = unrolled.turn(source, unrolled.copy).tolist()

    def of(self, place: int) -> list[int]:
        """New places of the maker of each input, NONE for what no launch makes, and of the launch that sends."""
        found: list[int] = self._places[self._borders[place] : self._borders[place + 1]]
        return found

    def all_of(self, place: int, inputs: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
        """With every copy of what a launch outside of the layers reads, each row of neighbours after the other."""
        unrolled = self._unrolled
        if self._turn[place] >= 0 or not unrolled.is_sum(
            [int(unrolled.source[maker]) for _, maker in inputs if maker >= 0]
        ):
            return inputs
        longer: list[tuple[str, int]] = []
        for number, group in groupby(inputs, key=lambda item: self._period_of(item[1])):
            items = [*group]
            length = unrolled.periods[number].length if number >= 0 else 0
            downwards = bool(longer) and number >= 0 and longer[-1][1] > items[0][1]
            copies = range(unrolled.more + 1) if number >= 0 else range(1)
            order = reversed(copies) if downwards else copies
            longer += [(name, self._first(maker) + copy * length) for copy in order for name, maker in items]
        return longer

    def _first(self, maker: int) -> int:
        """The first copy of what is copied."""
        return int(self._unrolled.natural[self._unrolled.source[maker]]) if self._period_of(maker) >= 0 else maker

    def _period_of(self, maker: int) -> int:
        if maker < 0 or self._copy[maker] < 0:
            return NONE
        return int(self._unrolled.period[self._unrolled.source[maker]])


def named_places(kernels: Sequence[Kernel]) -> list[int]:
    """For each input of each launch the place of its maker, the last before it of that name, NONE for constants and
    parameters; then the place where the event that it waits for is sent, by default its own."""
    made: dict[tuple[str, str], list[int]] = {}
    for place, kernel in enumerate(kernels):
        made.setdefault((kernel.graph, kernel.output), []).append(place)
    sent: dict[tuple[str, str], int] = {}
    found = []
    for place, kernel in enumerate(kernels):
        for name in kernel.inputs:
            makers = () if name.startswith(_CONSTANT_INPUT) else made.get((kernel.graph, name), ())
            found.append(max((maker for maker in makers if maker < place), default=makers[0]) if makers else NONE)
        if kernel.primitive == "StreamSend":
            sent[kernel.graph, kernel.event] = place
        waits = kernel.primitive == "StreamRecv"
        found.append(sent.get((kernel.graph, kernel.event), place) if waits else place)
    return found
