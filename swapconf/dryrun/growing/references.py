"""TASKS of a run -> what each task of the whole model reads and writes.

A task of a copied layer refers to what belongs to its own layer, unless its twin in the next period refers to the very
same: that is shared by all layers. A task outside of the layers that refers to what is copied, such as the sum of all
norms of gradients, refers to every copy, in the order in which it refers to those of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.dryrun.growing.events import Launched
from swapconf.dryrun.growing.instances import Beginning, Instances
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.steps import START, Steps
from swapconf.dryrun.growing.unrolled import NONE, Unrolled, of_twins
from swapconf.trace.blocks import offsets, ranges
from swapconf.trace.columns import Flags, Ints
from swapconf.words.phrases import phrase


@dataclass(frozen=True, kw_only=True, eq=False)
class References:
    """Of the tasks of a run, one after another.

    Attributes:
        row: The block.
        borders: [tasks + 1] where each begins.
        shared: The twin of the task refers to the same.
        of_twin: What its twin refers to, NONE where it has none.
    """

    row: Ints
    borders: Ints
    shared: Flags
    of_twin: Ints


def references(steps: Steps, unrolled: Unrolled, ids: Sequence[tuple[int, ...]]) -> References:
    """``ids``: of the tensors that each task reads, or writes."""
    borders = offsets(np.array([len(item) for item in ids], dtype=np.int64))
    known = np.array([item for group in ids for item in group], dtype=np.int64)
    row = np.searchsorted(steps.trace.blocks.start, known)
    owner = np.repeat(np.arange(len(ids)), np.diff(borders))
    of_twin = of_twins(row, borders, np.arange(len(row)), owner, twins(steps, unrolled.twin)[owner])
    return References(row=row, borders=borders, shared=of_twin == row, of_twin=of_twin)


def twins(steps: Steps, twin_of: Ints) -> Ints:
    """[tasks] the same task at the twin of its place, NONE where there is none. ``twin_of``: [places]."""
    step, place = np.divmod(steps.place, steps.length)
    twin = np.where(steps.place >= 0, twin_of[place], NONE)
    where = np.where(twin >= 0, step * steps.length + twin, 0)
    task = np.searchsorted(steps.place, where) + steps.rank
    known = (twin >= 0) & (task < len(steps.place))
    known &= steps.place[np.where(known, task, 0)] == where
    return np.where(known, task, NONE)


@dataclass(frozen=True, kw_only=True, eq=False)
class Used:
    """Of the tasks of the whole model, one after another: which instances; ``borders``: [tasks + 1]."""

    instance: Ints
    borders: Ints


def with_makers(
    steps: Steps, launched: Launched, reads: Used, writes: Used, new: Sequence[tuple[int, int, int]]
) -> tuple[Launched, Used, Used]:
    """The tasks that make new parameters and constants, too, each like that of the one that it is made from. ``new``:
    the block that each is made from, as which copy, and its instance."""
    rows, copies, instances = np.array(new, dtype=np.int64).reshape(-1, 3).T
    return (
        Launched(
            task=np.concatenate([launched.task, steps.born[rows]]),
            copy=np.concatenate([launched.copy, copies]),
            place=np.concatenate([launched.place, np.full(len(rows), START)]),
        ),
        Used(instance=reads.instance, borders=np.append(reads.borders, np.full(len(rows), reads.borders[-1]))),
        Used(
            instance=np.append(writes.instance, instances),
            borders=np.append(writes.borders, writes.borders[-1] + 1 + np.arange(len(rows))),
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Resolver:
    """``first``: [blocks] the first instance of each block that is born in the steps."""

    steps: Steps
    unrolled: Unrolled
    beginning: Beginning
    first: Ints

    def used(self, references: References, launched: Launched) -> Used:
        """What the tasks of the whole model refer to."""
        task, copy = launched.task, launched.copy
        counts = np.diff(references.borders)[task]
        owner = np.repeat(np.arange(len(task)), counts)
        index = ranges(references.borders[task], counts)
        row, shared, of_twin = references.row[index], references.shared[index], references.of_twin[index]
        place, of_copy = self.steps.place[task][owner] % self.steps.length, copy[owner]
        in_step = self.steps.place[task][owner] >= 0
        turn = np.where(in_step, self.unrolled.turn(place, of_copy), NONE)
        result = np.empty(len(row), dtype=np.int64)
        early = self.steps.birthplace[row] == START
        result[~early] = self._born_in_steps(
            place[~early], of_copy[~early], row[~early], shared[~early], of_twin[~early]
        )
        result[early] = self._from_start(row[early], np.where(shared, NONE, turn)[early], of_copy[early])
        borders = offsets(counts)
        outside = np.unique(owner[(turn < 0) & in_step & self._is_copied(row)])
        return self._with_sums(
            result,
            borders,
            row,
            [task for task in outside.tolist() if self._is_sum(row[borders[task] : borders[task + 1]])],
        )

    def _born_in_steps(self, place: Ints, copy: Ints, row: Ints, shared: Flags, of_twin: Ints) -> Ints:
        steps, unrolled = self.steps, self.unrolled
        step, other = np.divmod(steps.birthplace[row], steps.length)
        made = np.where(of_twin >= 0, steps.birthplace[of_twin] - step * steps.length, NONE)
        source, number = self._made(unrolled.seen(place, copy, other, shared, made))
        twin = steps.first_born[step * steps.length + source] + steps.rank_of_birth[row]
        if (twin >= steps.first_born[step * steps.length + source + 1]).any():
            raise CannotGrow(phrase("the layers do not make equally many tensors"))
        return np.asarray(self.first[twin] + np.maximum(number, 0))

    def _made(self, place: Ints) -> tuple[Ints, Ints]:
        return self.unrolled.source[place], self.unrolled.copy[place]

    def _from_start(self, row: Ints, turn: Ints, copy: Ints) -> Ints:
        found = np.empty(len(row), dtype=np.int64)
        known: dict[tuple[int, int, bool], int] = {}
        for index, (one, at, number) in enumerate(zip(row.tolist(), turn.tolist(), copy.tolist(), strict=True)):
            key = one, at, number >= 0
            if key not in known:
                known[key] = self.beginning.natural(one) if at < 0 else self.beginning.at(one, at, is_copy=number >= 0)
            found[index] = known[key]
        return found

    def _is_copied(self, row: Ints) -> Flags:
        place = self.steps.birthplace[row]
        return np.asarray((place >= 0) & self.unrolled.is_copied[place % self.steps.length])

    def _is_sum(self, row: Ints) -> bool:
        place = self.steps.birthplace[row]
        return self.unrolled.is_sum((place[place >= 0] % self.steps.length).tolist())

    def _with_sums(self, found: Ints, borders: Ints, row: Ints, sums: Sequence[int]) -> Used:
        """Tasks ``sums`` refer to all copies."""
        parts, counts, here = [], np.diff(borders), 0
        for task in sums:
            low, high = int(borders[task]), int(borders[task + 1])
            rows = row[low:high].tolist()
            firsts = np.where(self._is_copied(row[low:high]), self.first[row[low:high]], found[low:high])
            longer = _in_all_copies(rows, firsts.tolist(), self._period_of, self.unrolled.more)
            parts += [found[here:low], np.array(longer, dtype=np.int64)]
            counts[task], here = len(longer), high
        return Used(instance=np.concatenate([*parts, found[here:]]), borders=offsets(counts))

    def _period_of(self, row: int) -> int:
        place = int(self.steps.birthplace[row])
        if place < 0 or not self.unrolled.is_copied[place % self.steps.length]:
            return NONE
        return int(self.unrolled.period[place % self.steps.length])


def _in_all_copies(rows: Sequence[int], found: Sequence[int], period_of: Callable[[int], int], more: int) -> list[int]:
    """``found``: the first copy of each; the others follow it."""
    longer: list[int] = []
    index = 0
    while index < len(rows):
        period, stop = period_of(rows[index]), index + 1
        while stop < len(rows) and period != NONE and period_of(rows[stop]) == period:
            stop += 1
        group = found[index:stop]
        backwards = index > 0 and rows[index - 1] > rows[index]
        numbers = (0,) if period == NONE else range(more, -1, -1) if backwards else range(more + 1)
        longer += [one + number for number in numbers for one in group]
        index = stop
    return longer


def kept_for_readers(blocks: Instances, launched: Launched, reads: Used, steps: Steps) -> Instances:
    """No block is released before its last reader, wherever that was found."""
    reader = np.repeat(np.arange(len(launched.task)), np.diff(reads.borders))
    ranks = int(steps.rank.max()) + 1
    last = np.full(len(blocks.row), NONE, dtype=np.int64)
    np.maximum.at(last, reads.instance, (launched.place * ranks + steps.rank[launched.task])[reader])
    freed = blocks.freed * ranks + blocks.freed_rank
    later = (blocks.freed_rank >= 0) & (last > freed)
    return replace(
        blocks,
        freed=np.where(later, last // ranks, blocks.freed),
        freed_rank=np.where(later, last % ranks, blocks.freed_rank),
    )
