"""TRACE of fewer layers + PERIODS -> TRACE of more layers, launch by launch and block by block.

Where the blocks are in memory is not known of it; see `placed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from swapconf.dryrun.growing.directions import layers_of, upwards
from swapconf.dryrun.growing.events import Launched, events
from swapconf.dryrun.growing.fused import inside
from swapconf.dryrun.growing.instances import Beginning, instances, of_steps
from swapconf.dryrun.growing.launches import step_kernels
from swapconf.dryrun.growing.layers import Numbering
from swapconf.dryrun.growing.periods import Period
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.references import Resolver, kept_for_readers, references, with_makers
from swapconf.dryrun.growing.rows import blocks_of, kernels_of, tasks_of
from swapconf.dryrun.growing.same_layers import same_layers
from swapconf.dryrun.growing.steps import START, Steps
from swapconf.dryrun.growing.unrolled import NONE, Unrolled
from swapconf.trace.blocks import ranges
from swapconf.trace.trace import Trace
from swapconf.words.phrases import phrase


def grown(
    steps: Steps, periods: Sequence[Period], numbering: Numbering, more: int, constants: Mapping[int, int]
) -> Trace:
    """The trace with ``more`` copies of each period; ``constants``: how many more there are of each size. Raises
    CannotGrow."""
    unrolled = unrolled_by(steps, periods, more)
    born = of_steps(steps, unrolled)
    row = born[0]
    first = np.zeros(len(steps.trace.blocks), dtype=np.int64)
    first[row[::-1]] = np.arange(len(row))[::-1]
    beginning = Beginning(steps, numbering, more, constants, base=len(row))
    resolver = Resolver(steps=steps, unrolled=unrolled, beginning=beginning, first=first)
    launched, tasks = _launched(steps, unrolled), steps.trace.tasks
    reads, writes = (
        resolver.used(references(steps, unrolled, ids), launched)
        for ids in ([task.inputs for task in tasks], [task.outputs for task in tasks])
    )
    beginning.fill()
    blocks = instances(steps, unrolled, beginning, born)
    launched, reads, writes = with_makers(steps, launched, reads, writes, _new(steps, beginning))
    when = events(steps, kept_for_readers(blocks, launched, reads, steps), launched)
    if (when.end <= when.start).any():
        raise CannotGrow(phrase("a tensor would be released before it is made"))
    step = step_kernels(steps, unrolled, numbering)
    kernels = kernels_of(step, steps.count)
    return replace(
        steps.trace,
        kernels=kernels,
        known_inside=inside(steps, unrolled, numbering, step),
        tasks=tasks_of(steps, kernels, launched, when, reads, writes, blocks),
        blocks=blocks_of(steps, kernels, launched, when, reads, blocks),
    )


def unrolled_by(steps: Steps, periods: Sequence[Period], more: int) -> Unrolled:
    """The launches of a step, with ``more`` copies of each period."""
    layers = layers_of(steps)
    periods = same_layers(periods, layers)
    return Unrolled(length=steps.length, periods=periods, upwards=upwards(steps, periods, layers), more=more)


def _launched(steps: Steps, unrolled: Unrolled) -> Launched:
    """Those of the start, then those at each place of each step."""
    place = np.concatenate([np.arange(steps.length) + step * steps.length for step in range(steps.count)])
    borders = np.searchsorted(steps.place, np.append(place, len(place)))
    source = np.concatenate([unrolled.source + step * steps.length for step in range(steps.count)])
    counts = (borders[1:] - borders[:-1])[source]
    owner = np.repeat(np.arange(len(source)), counts)
    task = ranges(borders[source], counts)
    early = np.flatnonzero(steps.place == START)
    none = np.full(len(early), NONE, dtype=np.int64)
    return Launched(
        task=np.concatenate([early, task]),
        place=np.concatenate([none, owner]),
        copy=np.concatenate([none, np.tile(unrolled.copy, steps.count)[owner]]),
    )


def _new(steps: Steps, beginning: Beginning) -> list[tuple[int, int, int]]:
    """Of the new ones that a task makes."""
    known = len(beginning.rows)
    all_new = zip(beginning.row[known:], beginning.copy[known:], beginning.new, strict=True)
    return [one for one in all_new if steps.made_by_task[one[0]]]
