"""INSTANCES + TASKS of the whole model -> EVENTS: when each block is born, used and released.

Every birth, launch and release takes one event, as the tracker counts them, but a launch has that of the last block
that is born with it. At one place the order is that of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.dryrun.growing.instances import Instances
from swapconf.dryrun.growing.steps import START, Steps
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import NEVER

_BIRTH, _LAUNCH, _LATE_BIRTH, _RELEASE = range(4)  # before the first launch, blocks are born behind their tasks


@dataclass(frozen=True, kw_only=True, eq=False)
class Launched:
    """Tasks of the whole model: the ``task`` that each is made from, as which ``copy``, and its ``place``."""

    task: Ints
    copy: Ints
    place: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Events:
    """``start``, ``end``: [instances]; ``task``: [tasks]."""

    start: Ints
    end: Ints
    task: Ints


def events(steps: Steps, blocks: Instances, launched: Launched) -> Events:
    """In order: place, task, copy (where several were put in at one place), what happens, and its event in the run."""
    born = steps.born[blocks.row]
    early = blocks.place == START
    ends = np.flatnonzero(blocks.freed_rank >= 0)
    source, copy = steps.trace.blocks, np.where(early & steps.made_by_task[blocks.row], blocks.copy, 0)
    event = np.array([task.event for task in steps.trace.tasks], dtype=np.int64)
    counts = len(blocks.row), len(launched.task), len(ends)
    place = np.concatenate([blocks.place, launched.place, blocks.freed[ends]])
    rank = np.concatenate([steps.rank[born], steps.rank[launched.task], blocks.freed_rank[ends]])
    number = np.concatenate([copy, np.where(launched.place == START, launched.copy, 0), np.zeros(counts[2], np.int64)])
    kind = np.repeat([_BIRTH, _LAUNCH, _RELEASE], counts)
    kind[: counts[0]][early & (source.start[blocks.row] > event[born])] = _LATE_BIRTH
    birth = np.where(early, blocks.turn, source.start[blocks.row])
    when = np.concatenate([birth, event[launched.task], source.end[blocks.row[ends]]])
    last = np.concatenate([blocks.copy, launched.copy, blocks.copy[ends]])
    order = np.lexsort((last, when, kind, number, rank, place))
    time = np.empty(len(order), dtype=np.int64)
    time[order] = np.cumsum(_takes_one(order, kind)) - 1
    end = np.full(counts[0], NEVER, dtype=np.int64)
    end[ends] = time[counts[0] + counts[1] :]
    return Events(start=time[: counts[0]], end=end, task=time[counts[0] : counts[0] + counts[1]])


def _takes_one(order: Ints, kind: Ints) -> Flags:
    """A launch behind a birth is at the event of that."""
    sorted_ = kind[order]
    takes = np.ones(len(order), dtype=np.bool_)
    takes[1:] = ~((sorted_[1:] == _LAUNCH) & (sorted_[:-1] == _BIRTH))
    return takes
