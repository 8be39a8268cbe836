"""STEPS + UNROLLED -> INSTANCES: the blocks of the whole model, each made from one of the run.

What is born in a period that is copied is there once in each copy. Its release is found like whatever else belongs to
its layer, unless its twin in the next period is released at the same place: that is one for all. Of parameters and
constants there are those of the run, and those of the layers and copies that are new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swapconf.dryrun.growing.beside import in_order
from swapconf.dryrun.growing.layers import Numbering, layer_in, with_layer
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.steps import START, Steps
from swapconf.dryrun.growing.unrolled import NONE, Unrolled
from swapconf.trace.blocks import ranges
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import CONSTANT_VALUE
from swapconf.words.phrases import phrase


@dataclass(frozen=True, kw_only=True, eq=False)
class Instances:
    """Columns.

    Those that are born in the steps come first.

    Attributes:
        row: The block that each is made from.
        copy: Which copy it is, NONE where there is one.
        place: Where it is born, in all steps of the whole model.
        freed, freed_rank: Behind which task, NONE for never.
        turn: Of what is there before the steps, in which order; zeros for the others.
        node: By instance, where it is new.
    """

    row: Ints
    copy: Ints
    place: Ints
    freed: Ints
    freed_rank: Ints
    turn: Ints
    node: Mapping[int, str]


def of_steps(steps: Steps, unrolled: Unrolled) -> tuple[Ints, Ints, Ints]:
    """(row, copy, place) of what is born in the steps."""
    rows = np.flatnonzero(steps.birthplace >= 0)
    step, place = np.divmod(steps.birthplace[rows], steps.length)
    times = np.where(unrolled.is_copied[place], unrolled.more + 1, 1)
    number = ranges(np.zeros(len(times), dtype=np.int64), times)
    row, step, place = np.repeat(rows, times), np.repeat(step, times), np.repeat(place, times)
    length = np.array([period.length for period in unrolled.periods] or [0])[unrolled.period[place]]
    copy = np.where(unrolled.is_copied[place], number, NONE)
    return row, copy, unrolled.natural[place] + number * length + step * len(unrolled.source)


def releases(steps: Steps, unrolled: Unrolled, row: Ints, copy: Ints) -> tuple[Ints, Ints]:
    """(place, rank of the task) behind which each block that is born in the steps is released; NONE for never."""
    freed = steps.freed[row]
    place = np.where(freed >= 0, steps.place[np.maximum(freed, 0)], NONE)
    step, other = np.divmod(np.maximum(place, 0), steps.length)
    born = steps.birthplace[row] % steps.length
    of_twin = _place_of_twin(steps, unrolled, row)
    beside = np.where(of_twin >= 0, of_twin - step * steps.length, NONE)
    found = unrolled.seen(born, copy, other, place == of_twin, beside) + step * len(unrolled.source)
    return np.where(place >= 0, found, NONE), np.where(place >= 0, steps.rank[np.maximum(freed, 0)], NONE)


def instances(steps: Steps, unrolled: Unrolled, beginning: Beginning, born: tuple[Ints, Ints, Ints]) -> Instances:
    """``born``: (row, copy, place) of what is born in the steps."""
    row, copy, place = born
    freed, rank = releases(steps, unrolled, row, copy)
    early = np.array(beginning.row, dtype=np.int64)
    last = steps.freed[early]
    if (steps.place[np.maximum(last, 0)][last >= 0] >= 0).any():
        raise CannotGrow(phrase("a parameter or constant is released in the steps"))
    never = np.full(len(early), NONE, dtype=np.int64)
    return Instances(
        row=np.concatenate([row, early]),
        place=np.concatenate([place, np.full(len(early), START)]),
        copy=np.concatenate([copy, np.array(beginning.copy, dtype=np.int64)]),
        node=beginning.node,
        turn=np.concatenate([np.zeros(len(row), dtype=np.int64), beginning.turns()]),
        freed=np.concatenate([freed, never]),
        freed_rank=np.concatenate([rank, np.where(last >= 0, steps.rank[np.maximum(last, 0)], NONE)]),
    )


def _place_of_twin(steps: Steps, unrolled: Unrolled, row: Ints) -> Ints:
    """Where the twin of each block is released, -2 where there is none."""
    step, place = np.divmod(steps.birthplace[row], steps.length)
    twin = unrolled.twin[place]
    where = np.where(twin >= 0, step * steps.length + twin, 0)
    other = steps.first_born[where] + steps.rank_of_birth[row]
    known: Flags = (twin >= 0) & (other < steps.first_born[where + 1])
    freed = steps.freed[np.where(known, other, 0)]
    return np.where(known & (freed >= 0), steps.place[np.maximum(freed, 0)], -2)


class Beginning:
    """The parameters and constants of the whole model, as they are asked for. ``added``: how many more constants the
    whole model has, by size."""

    def __init__(self, steps: Steps, numbering: Numbering, more: int, added: Mapping[int, int], base: int) -> None:
        """``base``: the number of its first instance."""
        self._steps, self._numbering, self._more, self._base = steps, numbering, more, base
        blocks = steps.trace.blocks
        self.rows = np.flatnonzero(steps.birthplace == START)
        self._nodes: dict[int, str] = {int(row): blocks.nodes[blocks.node[row]] for row in self.rows.tolist()}
        self._layers = {row: layer_in(node) for row, node in self._nodes.items()}
        self.row: list[int] = self.rows.tolist()
        self.copy: list[int] = [NONE] * len(self.rows)
        self.node: dict[int, str] = {}
        self._natural = {row: base + index for index, row in enumerate(self.row)}
        self._left = Counter(added)
        self._constants: dict[tuple[int, int], int] = {}
        self._parameters = self._grown_parameters()

    def _grown_parameters(self) -> dict[tuple[str, int], int]:
        """By name with layer 0, and layer."""
        numbering = self._numbering
        found = {}
        for row, layer in self._layers.items():
            if layer >= 0:
                number = numbering.natural(layer)
                node = with_layer(self._nodes[row], number)
                found[with_layer(node, 0), number] = self._natural[row]
                self.node[self._natural[row]] = node
        templates = numbering.templates
        for row, layer in self._layers.items():
            for turn in range(self._more + 1) if layer in templates else ():
                key = with_layer(self._nodes[row], 0), numbering.at(layer, turn)
                if key not in found:
                    found[key] = self._new(row, turn, with_layer(self._nodes[row], key[1]))
        return found

    def _new(self, row: int, turn: int, node: str = "") -> int:
        self.row.append(row)
        self.copy.append(turn)
        if node:
            self.node[self._base + len(self.row) - 1] = node
        return self._base + len(self.row) - 1

    @property
    def new(self) -> range:
        """The instances that no row of the run is as it is."""
        return range(self._base + len(self.rows), self._base + len(self.row))

    def natural(self, row: int) -> int:
        return self._natural[row]

    def at(self, row: int, turn: int, *, is_copy: bool) -> int:
        """The instance of ``row`` that a launch at a turn refers to, its twin referring to another one."""
        layer = self._layers[row]
        if layer >= 0:
            if not self._numbering.holds(layer):
                return self._natural[row]
            key = with_layer(self._nodes[row], 0), self._numbering.at(layer, turn)
            if key not in self._parameters:
                raise CannotGrow(phrase("the parameter {name} is not in every layer", name=self._nodes[row]))
            return self._parameters[key]
        if not is_copy or turn == 0:
            return self._natural[row]
        if (row, turn) not in self._constants:
            size = int(self._steps.trace.blocks.size_bytes[row])
            if self._left[size] <= 0:
                return self._natural[row]
            self._left[size] -= 1
            self._constants[row, turn] = self._new(row, turn)
        return self._constants[row, turn]

    def turns(self) -> Ints:
        """[of it] in which order they are made: the parameters of a layer beside those of the layers next to it."""
        layers = [layer_in(name) for name in map(self._name, range(len(self.row)))]
        kinds = [with_layer(name, 0) for name in map(self._name, range(len(self.row)))]
        return in_order(self.row, self.copy, layers, kinds, len(self.rows))

    def _name(self, index: int) -> str:
        return self.node.get(self._base + index, self._nodes[self.row[index]])

    def fill(self) -> None:
        """Constants that nothing was found to refer to, but that are there."""
        blocks = self._steps.trace.blocks
        constant = blocks.kinds.index(CONSTANT_VALUE) if CONSTANT_VALUE in blocks.kinds else -1
        like = {int(blocks.size_bytes[row]): row for row in self.rows.tolist() if blocks.kind[row] == constant}
        for size, count in self._left.items():
            for number in range(count):
                self._new(like[size], self._more + 1 + number)


def constants(steps: Steps) -> Counter[int]:
    """How many there are of each size."""
    blocks = steps.trace.blocks
    chosen: Sequence[int] = [
        size
        for size, kind in zip(blocks.size_bytes.tolist(), blocks.kind.tolist(), strict=True)
        if blocks.kinds[kind] == CONSTANT_VALUE
    ]
    return Counter(chosen)
