"""TRACE -> GATHERS: which parameter each block was gathered for from shards, and which of them the swap takes.

A parameter is gathered before the forward and before the backward pass of its unit, each time into another block, as it
is given back between. A unit inside of what runs again is gathered when it runs again, and is not once more for its
backward pass. A view of a gathered parameter, as a matrix product saves of a weight that it does not cast, is no
parameter for the swap: its storage goes to the host, and comes back when the swap says, which may be before the unit
asks for it. Source: hyper_parallel of 2026 (MindSpore), core/fully_shard and core/activation_checkpoint/swap.py.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from swapconf.memory.marked_lifetimes import GATHERING
from swapconf.trace.trace import Trace
from swapconf.trace.work import COMMUNICATING

_WHOLE = "Reshape"  # what a gathered parameter itself is
_COPYING = "InplaceCopy"  # of a parameter that only one rank has: it is copied as others are gathered
_JOINING = "Concat"  # of shards that are no rows


class Gathers:
    """``births``: of gathered blocks; ``parameters``: of those that they were gathered from."""

    def __init__(self, trace: Trace) -> None:
        begins = int(trace.passes.steps[0]) if len(trace.passes.steps) else 0
        self._parameter: dict[int, int] = {}
        self._times: dict[int, list[int]] = {}  # by parameter, births in their order
        joined: set[int] = set()
        for task in trace.tasks:
            if task.primitive == _JOINING and len({*task.inputs}) == 1 and task.inputs[0] in self._parameter:
                joined.add(task.inputs[0])
                self._join(task.inputs[0], task.outputs[0])
            shards = [block for block in task.inputs if block < begins and block not in task.outputs]
            if task.primitive.startswith((GATHERING, _COPYING)) and shards:
                for block in (block for block in task.outputs if block >= begins):
                    self._parameter[block] = shards[0]
                    self._times.setdefault(shards[0], []).append(block)
        found = [
            (task.event, block)
            for task in trace.tasks
            if not task.primitive.startswith((_WHOLE, _COPYING, *COMMUNICATING))
            for block in task.outputs
            if block in self._parameter and block in task.inputs and block not in joined
        ]
        self._views = np.array(found, dtype=np.int64).reshape(-1, 2)

    def _join(self, gathered: int, whole: int) -> None:
        parameter = self._parameter[whole] = self._parameter[gathered]
        times = self._times[parameter]
        times[times.index(gathered)] = whole

    @cached_property
    def parameters(self) -> frozenset[int]:
        return frozenset(self._times)

    @cached_property
    def births(self) -> frozenset[int]:
        return frozenset(self._parameter)

    def once_more(self, birth: int, start: int, end: int) -> int | None:
        """The birth of the block for which the same parameter is gathered next, behind ``start`` and up to ``end``."""
        times = self._times.get(self._parameter.get(birth, -1), [])
        return next((time for time in times if start < time <= end), None)

    def viewed(self, start: int, end: int) -> list[int]:
        """Births of those of which views are taken between two events, other than the parameter itself."""
        first, last = np.searchsorted(self._views[:, 0], [start, end]).tolist()
        return [int(birth) for birth in np.unique(self._views[first:last, 1])]
