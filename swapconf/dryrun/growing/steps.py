"""TRACE -> STEPS: the launches of a run as places in one training step, and what is born and released at each.

A *place* is a row of execute_order.csv within its step; steps launch the same kernels. Each task of the tracker stands
at a place: that of its kernel, of the event that it records or waits for, or of the launch before it. A block is born
with the first task at or behind its birth, and released behind the last task before its end. What comes before the
first launch is the *start*: parameters and constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import Kernel, Task, Tensor, Trace
from swapconf.words.phrases import phrase

START = -1
_EVENT_TASKS = {"RecordEvent": "StreamSend", "WaitEvent": "StreamRecv"}
_SENTINEL = -2  # of a block that is never released


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """``length``: places of a step. ``place``: [tasks] counted through all steps, START before the first launch;
    ``rank``: [tasks] which of the tasks of its place it is. ``born``, ``freed``: [blocks] a task, ``freed`` below zero
    for what is never released. ``rank_of_birth``: [blocks] among those that are born at the same place."""

    trace: Trace
    length: int
    place: Ints
    rank: Ints
    born: Ints
    freed: Ints
    rank_of_birth: Ints

    @property
    def count(self) -> int:
        """How many steps there are."""
        return len(self.trace.kernels) // self.length

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """Of the first step."""
        return self.trace.kernels[: self.length]

    @cached_property
    def birthplace(self) -> Ints:
        """[blocks] where each is born."""
        return np.asarray(self.place[self.born])

    @cached_property
    def first_born(self) -> Ints:
        """[all places + 1] the first block that is born at each place, blocks being in order of birth."""
        return np.searchsorted(self.birthplace, np.arange(len(self.trace.kernels) + 1))

    @cached_property
    def made_by_task(self) -> Flags:
        """[blocks] born before the first launch by a task that writes it."""
        ids = [tensor for task in self.trace.tasks[: int(np.searchsorted(self.place, 0))] for tensor in task.outputs]
        return np.isin(self.trace.blocks.start, ids)

    @cached_property
    def task_at(self) -> Ints:
        """[places of the first step] the task of each kernel, START for events."""
        found = np.full(self.length, START, dtype=np.int64)
        for index, task in enumerate(self.trace.tasks):
            if task.is_kernel and (place := int(self.place[index])) < self.length:
                found[place] = index
        return found

    @cached_property
    def forms(self) -> tuple[tuple[object, ...], ...]:
        """[places] what makes two launches alike: primitive, stream, and the tensors that they read and write. How many
        equal ones they read is left out: some read one of each layer."""
        tasks, found = self.trace.tasks, []
        tensors: dict[tuple[Tensor, ...], tuple[Tensor, ...]] = {}
        for kernel, index in zip(self.kernels, self.task_at.tolist(), strict=True):
            form: tuple[object, ...] = (kernel.primitive, kernel.stream)
            if index != START:
                given = tasks[index].input_tensors
                if given not in tensors:
                    tensors[given] = tuple(dict.fromkeys(given))
                form = (*form, tensors[given], tasks[index].output_tensors)
            found.append(form)
        return tuple(found)


def steps(trace: Trace) -> Steps:
    """Raises CannotGrow where the trace has no graph, or its steps differ."""
    if not trace.has_graph:
        raise CannotGrow(trace.why_no_graph)
    names = [(kernel.graph, kernel.name) for kernel in trace.kernels]
    length = len(trace.step)
    if any(names[start : start + length] != names[:length] for start in range(0, len(names), length)):
        raise CannotGrow(phrase("the training steps of the trace do not launch the same kernels"))
    blocks = trace.blocks
    if (np.diff(blocks.start) <= 0).any():
        raise CannotGrow(phrase("the blocks of the trace are not in order of birth"))
    place, rank = _places(trace)
    event = np.array([task.event for task in trace.tasks], dtype=np.int64)
    born = np.minimum(np.searchsorted(event, blocks.start), len(event) - 1)
    for index in np.flatnonzero(place == START).tolist():  # of these the tracker writes the launch first
        rows = np.searchsorted(blocks.start, trace.tasks[index].outputs)
        born[rows] = np.where(blocks.start[rows] > event[index], index, born[rows])
    _with_makers(born, place, trace)
    if (np.diff(place[born]) < 0).any():
        raise CannotGrow(phrase("the blocks of the trace are not in order of birth"))
    freed = np.where(blocks.end == NEVER, _SENTINEL, np.searchsorted(event, blocks.end) - 1)
    return Steps(
        trace=trace, length=length, place=place, rank=rank, born=born, freed=freed, rank_of_birth=_ranks(place[born])
    )


def _with_makers(born: Ints, place: Ints, trace: Trace) -> None:
    """What a launch makes is of the steps, even if it is born before the events that it waits for and no launch has
    been yet: a message that a stage receives first of all."""
    early = {int(start): row for row, start in enumerate(trace.blocks.start.tolist()) if place[born[row]] == START}
    for index in np.flatnonzero(place >= 0).tolist():
        for tensor in trace.tasks[index].outputs:
            row = early.get(tensor)
            if row is not None and not trace.blocks.is_persistent[row]:
                born[row] = index
                del early[tensor]


def _places(trace: Trace) -> tuple[Ints, Ints]:
    kernels, here = trace.kernels, START
    place = np.empty(len(trace.tasks), dtype=np.int64)
    for index, task in enumerate(trace.tasks):
        if task.is_kernel:
            here += 1
            while kernels[here].is_event:
                here += 1
        elif START < here < len(kernels) - 1 and _is_of(task, kernels[here + 1]):
            here += 1
        place[index] = here
    return place, _ranks(place)


def _is_of(task: Task, kernel: Kernel) -> bool:
    return _EVENT_TASKS.get(task.name) == kernel.primitive and ("event", kernel.event) in task.attributes


def _ranks(place: Ints) -> Ints:
    """Of ascending numbers: the how manieth of its kind each is."""
    return np.arange(len(place)) - np.searchsorted(place, place)
