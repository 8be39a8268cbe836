"""STEPS + ARRANGED -> BORN: the blocks of the new step, which of them each launch refers to, and when each is released.

What is born in a pass is there once in each pass that is made from it. Parameters and constants are those of the run;
of a constant that every micro-batch has for itself there is one for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from swapconf.dryrun.composing.arranged import Arranged
from swapconf.dryrun.composing.counterparts import Counterparts
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.growing.events import Launched
from swapconf.dryrun.growing.instances import Instances
from swapconf.dryrun.growing.references import Used
from swapconf.dryrun.growing.steps import START
from swapconf.trace.blocks import offsets, ranges
from swapconf.trace.columns import Ints
from swapconf.words.phrases import phrase

_CONSTANT = "ConstantValue"


@dataclass
class Born:
    """Instances: those that are born in the steps, in order of their places, then those of the start.

    ``start_row``, ``start_copy``: [instances of the start].
    """

    made: Arranged
    places: Counterparts
    _start: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps, source = self.made.steps, self.made.source
        self._length = len(source)
        where = np.concatenate([source + step * steps.length for step in range(steps.count)])
        counts = steps.first_born[where + 1] - steps.first_born[where]
        self.row = ranges(steps.first_born[where], counts)
        self.place = np.repeat(np.arange(len(where)), counts)
        self.first = offsets(counts)
        self._birth = steps.birthplace.tolist()
        self._rank_of_birth = steps.rank_of_birth.tolist()
        self._where: dict[tuple[int, int, bool], int] = {}
        self._own = self._own_constants()

    def used(self, launched: Launched, ids: Sequence[tuple[int, ...]]) -> Used:
        """Which instances each task refers to. ``ids``: of the tensors of each task of the run."""
        steps = self.made.steps
        rows = [np.searchsorted(steps.trace.blocks.start, np.array(group, dtype=np.int64)).tolist() for group in ids]
        shared = self._shared(rows)
        found, counts = [], []
        for task, place in zip(launched.task.tolist(), launched.place.tolist(), strict=True):
            instances = [
                self._instance(task, place, row, is_shared=is_shared)
                for row, is_shared in zip(rows[task], shared[task], strict=True)
            ]
            found += instances
            counts.append(len(instances))
        return Used(instance=np.array(found, dtype=np.int64), borders=offsets(np.array(counts, dtype=np.int64)))

    def instances(self) -> Instances:
        """Released behind the launch that makes them, until their readers are known."""
        steps, early = self.made.steps, [*self._start]
        used = {row for row, _ in early}
        ...

    def _instance(self, task: int, place: int, row: int, *, is_shared: bool) -> int:
        birth, length = self._birth[row], self.made.steps.length
        if birth == START:
            return self._of_start(place, row, is_shared=is_shared)
        step, at = divmod(birth, length)
        if place == START:
            raise CannotCompose(phrase("what is made in the step is used before it"))
        now, new = divmod(place, self._length)
        was = int(self.made.steps.place[task]) // length
        if (key := (new, at, is_shared or was != step)) not in self._where:
            self._where[key] = (
                self.places.natural(at) if key[2] else self.places.seen(new, at, is_shared=False)
            )
        there = self._where[key] + (now + step - was) * self._length
        first = int(self.first[there])
        if first + self._rank_of_birth[row] >= self.first[there + 1]:
            raise CannotCompose(phrase("the passes of two micro-batches do not make equally many tensors"))
        return first + self._rank_of_birth[row]
