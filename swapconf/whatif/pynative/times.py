"""TRACE + MACHINE + PARTS -> TIME of a step of a PyNative run, estimated.

Kernels of the main stream take what such kernels take by type and shapes, one after another (`swapconf.timing`): that
is a card which is never kept waiting by Python. Collectives take no time here. What a config changes:

- what runs again takes its time once more, just before the backward pass asks for it;
- a swapped layer is copied to the host when its forward pass ends, and back when that of the layer ``prefetch`` further
  is gone back through; all copies share one stream and one link. The main stream waits where hyper_parallel makes it
  wait: for the first at the end of the later layer, for the second where the layer's own backward pass begins. What
  its swapped modules saved is copied with the layer, all at once, as the chain of prefetches is one of layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from swapconf.timing.cost import GIGA, Costs, FigureOrigin, Machine
from swapconf.timing.costing import Signature, Workload, costs
from swapconf.trace.marks import NO_KERNELS
from swapconf.trace.trace import Task, Trace
from swapconf.trace.work import COMMUNICATING
from swapconf.whatif.pynative.intervals import Interval, Step
from swapconf.whatif.pynative.layout import Layout
from swapconf.whatif.pynative.parts import Parts
from swapconf.whatif.pynative.recompute import run_again
from swapconf.whatif.pynative.swap import moved_rows

_OUT, _IS_OUT, _BACK, _IS_BACK, _AGAIN = range(5)  # what comes first where several are at one event


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeTime:
    """Of one step. ``again_us``: of what runs once more. ``stall_us``: how long the main stream waits for copies."""

    step_us: float
    again_us: float = 0.0
    stall_us: float = 0.0


class NativeTimes:
    """The last step of a trace without swap and recompute, with one set of parts after another."""

    def __init__(self, trace: Trace, layout: Layout, steps: tuple[Step, ...], machine: Machine) -> None:
        begins = int(trace.passes.steps[-1])
        self._layout = layout
        self._steps = tuple(step for step in steps if step.start >= begins)
        tasks = [task for task in trace.tasks if task.event >= begins and _is_timed(task)]
        self._events = np.array([task.event for task in tasks], dtype=np.int64)
        self._costs = _costs(tasks, machine)
        self._until_us = np.concatenate([[0.0], np.cumsum(self._costs.duration_us)])
        self._again: dict[Interval, tuple[int, float]] = {}
        self._rows: dict[Interval, frozenset[int]] = {}

    def range_us(self, step_us: float) -> tuple[float, float]:
        """What a step may take that is estimated so: from many fast kernels to many slow ones."""
        return self._costs.range_of(step_us)

    def shares(self) -> dict[FigureOrigin, float]:
        """How the times of all kernels are known."""
        return self._costs.shares()

    def time(self, parts: Parts, link_gbps: float) -> NativeTime:
        """``link_gbps``: of one card to its host, in one direction, 10^9 bytes a second."""
        clock = again = link = 0.0
        stall, reached = 0.0, 0
        ready: dict[tuple[tuple[int, int], int], float] = {}  # step and layer, way of a copy -> when it is through
        for event, what, key, amount in sorted(self._moments(parts)):
            clock += self._us(reached, event)
            reached = event
            if what == _AGAIN:
                clock += amount
                again += amount
            elif what in (_OUT, _BACK):
                link = max(link, clock) + amount / (link_gbps * GIGA) * 1e6
                ready[key, what] = link
            else:
                late = max(0.0, ready[key, what - 1] - clock)
                clock += late
                stall += late
        clock += float(self._until_us[-1]) - self._us(0, reached)
        return NativeTime(step_us=clock, again_us=again, stall_us=stall)

    def _us(self, start: int, end: int) -> float:
        """Of the kernels from one event on and before another."""
        first, last = np.searchsorted(self._events, [start, end]).tolist()
        return float(self._until_us[last] - self._until_us[first])

    def _moments(self, parts: Parts) -> Iterator[tuple[int, int, tuple[int, int], float]]:
        """(event, what happens there, step and layer, microseconds or bytes of it)."""
        for number, step in enumerate(self._steps):
            for one in step.passes:
                if (one.layer, one.module) in parts.again:
                    turn, us = self._run_again(step, one)
                    yield turn, _AGAIN, (number, one.layer), us
            gone: set[int] = set()  # what several layers saved moves with the first
            for (layer, target), moved in groupby(parts.moved, key=lambda one: (one[0], one[2])):
                own, other = step.layer(layer), step.layer(target)
                if own is None or other is None or own.turn is None or other.turn is None:
                    continue
                modules = (step.part(layer, module) for _, module, _ in moved)
                saved = {row for one in modules if one is not None for row in self._moved(step, one)}
                rows = sorted(saved - gone)
                gone.update(rows)
                size, key = float(self._layout.value_bytes[rows].sum()), (number, layer)
                yield own.end, _OUT, key, size
                yield other.end, _IS_OUT, key, size
                yield other.turn, _BACK, key, size
                yield own.turn, _IS_BACK, key, size

    def _run_again(self, step: Step, part: Interval) -> tuple[int, float]:
        if part not in self._again:
            run = run_again(self._layout, step, part)
            self._again[part] = (0, 0.0) if run is None else (run.turn, self._us(part.start, run.stop + 1))
        return self._again[part]

    def _moved(self, step: Step, part: Interval) -> frozenset[int]:
        if part not in self._rows:
            can_move = part.turn is not None
            self._rows[part] = frozenset(moved_rows(self._layout, step, part)) if can_move else frozenset()
        return self._rows[part]


def _is_timed(task: Task) -> bool:
    return not task.primitive.endswith(NO_KERNELS) and not task.primitive.startswith(COMMUNICATING)


def _costs(tasks: list[Task], machine: Machine) -> Costs:
    known: dict[Signature, int] = {}
    index = [
        known.setdefault(Signature(task.primitive, task.input_tensors, task.output_tensors), len(known))
        for task in tasks
    ]
    load = Workload(
        names=tuple(task.name for task in tasks), signatures=tuple(known), index=np.array(index, dtype=np.int64)
    )
    return costs(load, machine.hardware, machine.host)
