"""STEPS + ARRANGED -> BORN: the blocks of the new step, and which of them each of its launches refers to.

What is born in a pass is there once in each pass that is made from it. Parameters and constants are those of the run;
of a constant that each micro-batch has for itself there is one for each further micro-batch, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from swapconf.dryrun.composing.arranged import Arranged
from swapconf.dryrun.composing.counterparts import Counterparts
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.growing.events import Launched
from swapconf.dryrun.growing.references import Used, twins
from swapconf.dryrun.growing.steps import START
from swapconf.trace.blocks import offsets, ranges
from swapconf.trace.lifetimes import CONSTANT_VALUE
from swapconf.words.phrases import phrase


@dataclass
class Born:
    """Instances of blocks: those that are born in the steps, in order of their places, then those of the start.

    Attributes:
        row, place: [instances of the steps] The block that each is made from, and where it is born.
        early: (block, copy) of each instance of the start, copy NONE of those of the run.
    """

    made: Arranged
    places: Counterparts
    early: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps, source = self.made.steps, self.made.source
        where = np.concatenate([source + step * steps.length for step in range(steps.count)])
        counts = steps.first_born[where + 1] - steps.first_born[where]
        self.row = ranges(steps.first_born[where], counts)
        self.place = np.repeat(np.arange(len(where)), counts)
        self._first: list[int] = offsets(counts).tolist()
        self._birth: list[int] = steps.birthplace.tolist()
        self._rank: list[int] = steps.rank_of_birth.tolist()
        self._copy = self.made.copy.tolist()
        self._seen: dict[tuple[int, int, bool], int] = {}
        blocks = steps.trace.blocks
        self._is_constant = [blocks.kinds[kind] == CONSTANT_VALUE for kind in blocks.kind.tolist()]
        self.left_out = self._constants_left_out()
        for row in np.flatnonzero(steps.birthplace == START).tolist():
            if row not in self.left_out:
                self.early[row, NONE] = len(self.row) + len(self.early)

    def _constants_left_out(self) -> frozenset[int]:
        """Constants that only launches read which are left out."""
        steps, there = self.made.steps, np.zeros(self.made.steps.length, dtype=np.bool_)
        there[self.made.source] = True
        read: dict[bool, set[int]] = {False: set(), True: set()}
        for task, place in zip(steps.trace.tasks, steps.place.tolist(), strict=True):
            stays = place == START or bool(there[place % steps.length])
            read[stays].update(np.searchsorted(steps.trace.blocks.start, task.inputs).tolist())
        gone = read[False] - read[True]
        return frozenset(row for row in gone if self._birth[row] == START and self._is_constant[row])

    def used(self, launched: Launched, ids: Sequence[tuple[int, ...]]) -> Used:
        """Which instances each task refers to. ``ids``: of the tensors of each task of the run.

        Raises CannotCompose."""
        starts = self.made.steps.trace.blocks.start
        rows = [np.searchsorted(starts, np.array(group, dtype=np.int64)).tolist() for group in ids]
        twins = self._twins()
        found, counts = [], []
        for task, place in zip(launched.task.tolist(), launched.place.tolist(), strict=True):
            self._check_sum(place, rows[task])
            others = rows[twins[task]] if twins[task] != NONE else None
            for number, row in enumerate(rows[task]):
                is_shared = others is not None and number < len(others) and others[number] == row
                found.append(self._instance(task, place, row, is_shared=is_shared))
            counts.append(len(rows[task]))
        return Used(instance=np.array(found, dtype=np.int64), borders=offsets(np.array(counts, dtype=np.int64)))

    def _check_sum(self, place: int, rows: Sequence[int]) -> None:
        """What stands outside of all passes has to read as much of any number of them."""
        made, few = self.made, self.made.passes.micro_batches
        if few == made.micro_batches or place < 0 or made.number[place % len(made.source)] != NONE or len(rows) < few:
            return
        length = made.steps.length
        read = {int(made.passes.number[self._birth[row] % length]) for row in rows if self._birth[row] >= 0}
        if len(read - {NONE}) >= few > 1:
            raise CannotCompose(phrase("something outside of the passes reads of each micro-batch"))

    def _twins(self) -> list[int]:
        """[tasks of the run] the same of another micro-batch, NONE where there is none."""
        steps = self.made.steps
        twin_of = np.array([self.places.twin(place) for place in range(steps.length)], dtype=np.int64)
        found: list[int] = twins(steps, twin_of).tolist()
        return found

    def _instance(self, task: int, place: int, row: int, *, is_shared: bool) -> int:
        steps, birth = self.made.steps, self._birth[row]
        if birth == START:
            return self._of_start(place, row, is_shared=is_shared)
        step, at = divmod(birth, steps.length)
        was = int(steps.place[task]) // steps.length
        now, new = divmod(place, len(self.made.source))
        there = self.seen(new, at, is_shared=is_shared or was != step) + (now + step - was) * len(self.made.source)
        found = self._first[there] + self._rank[row]
        if found >= self._first[there + 1]:
            raise CannotCompose(phrase("the passes of two micro-batches do not make equally many tensors"))
        return found

    def seen(self, new: int, place: int, *, is_shared: bool) -> int:
        """`Counterparts.seen`, asked once."""
        key = new, place, is_shared
        if key not in self._seen:
            self._seen[key] = self.places.seen(new, place, is_shared=is_shared)
        return self._seen[key]

    def _of_start(self, place: int, row: int, *, is_shared: bool) -> int:
        copy = self._copy[place % len(self._copy)] if place >= 0 else 0
        if not copy or is_shared or not self._is_constant[row]:
            return self.early[row, NONE]
        return self.early.setdefault((row, copy), len(self.row) + len(self.early))
