"""ARRANGED -> TRACE of a step with other micro-batches, launch by launch and block by block.

Where the blocks are in memory is not known of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from swapconf.dryrun.composing.arranged import Arranged
from swapconf.dryrun.composing.born import Born
from swapconf.dryrun.composing.counterparts import Counterparts
from swapconf.dryrun.composing.kernels import step_kernels
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.growing.events import Launched, events
from swapconf.dryrun.growing.instances import Instances
from swapconf.dryrun.growing.references import Used, kept_for_readers, with_makers
from swapconf.dryrun.growing.rows import blocks_of, kernels_of, tasks_of
from swapconf.dryrun.growing.steps import START, Steps
from swapconf.trace.blocks import ranges
from swapconf.trace.columns import Ints
from swapconf.trace.fused_kernels import FusedKernel
from swapconf.trace.trace import Kernel, Trace
from swapconf.words.phrases import phrase


def rearranged(made: Arranged) -> Trace:
    """Raises CannotCompose."""
    steps, places = made.steps, Counterparts(made)
    born, tasks = Born(made, places), steps.trace.tasks
    launched = _launched(born)
    reads = born.used(launched, [task.inputs for task in tasks])
    writes = born.used(launched, [task.outputs for task in tasks])
    launched, reads, writes = with_makers(steps, launched, reads, writes, _new(born))
    blocks = _released(born, places, launched, reads)
    when = events(steps, blocks, launched)
    if (when.end <= when.start).any():
        raise CannotCompose(phrase("a tensor would be released before it is made"))
    step = step_kernels(places)
    kernels = kernels_of(step, steps.count)
    return replace(
        steps.trace,
        kernels=kernels,
        launch_graph_file="",
        fused_kernels_file="",
        known_inside=_inside(made, step),
        tasks=tasks_of(steps, kernels, launched, when, reads, writes, blocks),
        blocks=blocks_of(steps, kernels, launched, when, reads, blocks),
    )


def _inside(made: Arranged, step: Sequence[Kernel]) -> Mapping[str, FusedKernel]:
    """What is inside the fused kernels of the new step, by their new names."""
    known, old = made.steps.trace.fused_kernels, made.steps.kernels
    return {
        kernel.name: known[old[source].name]
        for kernel, source in zip(step, made.source.tolist(), strict=True)
        if old[source].name in known
    }


def _launched(born: Born) -> Launched:
    """Those of the start, then those at each place of each step."""
    made, steps, length = born.made, born.made.steps, len(born.made.source)
    source = np.concatenate([made.source + step * steps.length for step in range(steps.count)])
    borders = np.searchsorted(steps.place, np.arange(steps.length * steps.count + 1))
    counts = (borders[1:] - borders[:-1])[source]
    owner = np.repeat(np.arange(len(source)), counts)
    gone = {int(steps.trace.blocks.start[row]) for row in born.left_out}
    early = np.array(
        [
            task
            for task in np.flatnonzero(steps.place == START).tolist()
            if not gone & {*steps.trace.tasks[task].outputs}
        ],
        dtype=np.int64,
    )
    none = np.full(len(early), NONE, dtype=np.int64)
    return Launched(
        task=np.concatenate([early, ranges(borders[source], counts)]),
        place=np.concatenate([none, owner]),
        copy=np.concatenate([none, made.copy[owner % length]]),
    )


def _new(born: Born) -> list[tuple[int, int, int]]:
    """Further constants that a task makes."""
    made_by_task = born.made.steps.made_by_task
    return [(row, copy, one) for (row, copy), one in born.early.items() if copy != NONE and made_by_task[row]]


def _released(born: Born, places: Counterparts, launched: Launched, reads: Used) -> Instances:
    """A block is released behind its last reader, or as long after that as in the run: what a message or a sum of all
    cards reads is kept until another stream waits for that."""
    steps = born.made.steps
    early = np.array(list(born.early), dtype=np.int64).reshape(-1, 2)
    last = steps.freed[early[:, 0]]
    if (steps.place[np.maximum(last, 0)][last >= 0] >= 0).any():
        raise CannotCompose(phrase("a parameter or constant is released in the steps"))
    freed, born_rank = steps.freed[born.row], steps.rank[steps.born[born.row]]
    last_rank = steps.rank[np.maximum(last, 0)]
    nobody = Instances(
        row=np.concatenate([born.row, early[:, 0]]),
        copy=np.concatenate([born.made.copy[born.place % len(born.made.source)], early[:, 1]]),
        place=np.concatenate([born.place, np.full(len(early), START)]),
        freed=np.concatenate([np.where(freed >= 0, born.place, NONE), np.full(len(early), NONE)]),
        freed_rank=np.concatenate([np.where(freed >= 0, born_rank, NONE), np.where(last >= 0, last_rank, NONE)]),
        turn=np.concatenate([np.zeros(len(born.row), dtype=np.int64), early[:, 0]]),
        node={},
    )
    read = kept_for_readers(nobody, launched, reads, steps)
    used = _last_used(steps)
    place, rank = read.freed.copy(), read.freed_rank.copy()
    length = len(born.made.source)
    for one in np.flatnonzero((freed >= 0) & (freed != used[born.row])).tolist():
        step, at = divmod(int(steps.place[freed[one]]), steps.length)
        was, source = divmod(int(steps.place[used[born.row[one]]]), steps.length)
        now, new = divmod(int(place[one]), length)
        place[one] = places.seen(new, at, is_shared=was != step, source=source) + (now + step - was) * length
        rank[one] = steps.rank[freed[one]]
    return replace(read, freed=place, freed_rank=rank)


def _last_used(steps: Steps) -> Ints:
    """[blocks] the last task that makes or reads each."""
    found = steps.born.copy()
    starts = steps.trace.blocks.start
    for number, task in enumerate(steps.trace.tasks):
        for tensor in (*task.inputs, *task.outputs):
            row = int(np.searchsorted(starts, tensor))
            found[row] = max(found[row], number)
    return found
