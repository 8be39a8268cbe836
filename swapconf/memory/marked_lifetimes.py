"""TRACE of a PyNative run -> LIFETIMES: what each device block holds, told by when it was made and how long it stays.

- made before the first step: a weight if it stays, optimizer state where the optimizer was built just then
- made in the forward pass: an activation; in what runs again: recomputed; in the backward pass: a gradient
- made by the optimizer: its state where the next step still has it, else a temporary
- a collective's, such as parameters that are gathered from shards: communication
- an input of the step: a constant; a storage that is filled again otherwise: a swap buffer

memory_block.csv names the operator before the one that made a block (MindSpore 2.10.0); the first task that writes it
made it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.blocks import coded
from swapconf.trace.lifetimes import CATEGORIES, NEVER, OF_KIND, Category, Lifetimes
from swapconf.trace.marked_passes import Pass
from swapconf.trace.running_sums import FILLED_AGAIN
from swapconf.trace.trace import Trace
from swapconf.trace.work import COLLECTIVES, COMMUNICATING

GATHERING = "DistCommAllGather"
_BY_PASS = {Pass.FORWARD: Category.ACTIVATION, Pass.RECOMPUTED: Category.RECOMPUTED, Pass.BACKWARD: Category.GRADIENT}


def marked_lifetimes(trace: Trace) -> Lifetimes:
    """The device blocks of a trace with marks, [n]."""
    blocks, passes = trace.blocks, trace.passes
    chosen = np.flatnonzero(~blocks.on_host)
    start, end = blocks.start[chosen], blocks.end[chosen]
    names = made_by(trace, start)
    stretches = [passes.stretches[place] for place in passes.places(start).tolist()]
    stays = _outlives_its_step(start, end, passes.steps)
    kinds = [blocks.kinds[kind] for kind in blocks.kind[chosen].tolist()]
    told = [blocks.task_names[name] for name in blocks.task_name[chosen].tolist()]
    gathered = gathered_blocks(trace)
    category = [
        Category.COMMUNICATION
        if event in gathered
        else Category.SWAP
        if task == FILLED_AGAIN
        else _category(kind, name, stretch.what, is_kept)
        for event, kind, name, task, stretch, is_kept in zip(
            start.tolist(), kinds, names, told, stretches, stays.tolist(), strict=True
        )
    ]
    name, distinct = coded(names)
    return Lifetimes(
        start=start,
        end=end,
        size_bytes=blocks.size_bytes[chosen],
        is_persistent=blocks.is_persistent[chosen],
        category=np.array([CATEGORIES.index(item) for item in category], dtype=np.uint8),
        layer=np.array([stretch.layer for stretch in stretches], dtype=np.int32),
        name=name,
        names=distinct,
        stream=blocks.stream[chosen],
    )


def made_by(trace: Trace, events: NDArray[np.int64]) -> list[str]:
    """The operator that made the block of each event; of one that no task writes, the last before it, "" before all."""
    writers: dict[int, str] = {}
    for task in trace.tasks:
        for tensor in task.outputs:
            writers.setdefault(tensor, task.primitive)
    tasks = np.array([task.event for task in trace.tasks], dtype=np.int64)
    before = (np.searchsorted(tasks, events, side="right") - 1).tolist()
    return [
        writers.get(event, trace.tasks[place].primitive if place >= 0 else "")
        for event, place in zip(events.tolist(), before, strict=True)
    ]


def gathered_blocks(trace: Trace) -> frozenset[int]:
    """Those that parameters are gathered into, by the events of their birth, whoever made them."""
    return frozenset(tensor for task in trace.tasks if task.primitive.startswith(GATHERING) for tensor in task.outputs)


def _outlives_its_step(start: NDArray[np.int64], end: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a block is still there when the next step begins, or for good."""
    later: NDArray[np.bool_] = np.searchsorted(steps, start) < np.searchsorted(steps, end)
    return np.logical_or(later, end == NEVER)


def _category(kind: str, name: str, what: Pass, stays: bool) -> Category:
    if kind in OF_KIND:
        return OF_KIND[kind]
    if name in COLLECTIVES or name.startswith(COMMUNICATING):
        return Category.COMMUNICATION
    if what is Pass.BUILDING:
        return Category.WEIGHT if stays else Category.TEMPORARY
    if what in (Pass.OPTIMIZER, Pass.OPTIMIZER_BUILDING):
        return Category.OPTIMIZER if stays else Category.TEMPORARY
    return _BY_PASS[what]
