"""TIMELINE + COSTS + LIFETIMES -> STEP PROFILE: what a profiler would have recorded of the simulated step.

Memory is given out in the order of launches: an event of the memory tracker happens when the main stream gets to the
kernel that is launched next, as in ``timeline.memory``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.categories import by_category
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.profile.step_profile import Allocations, StepProfile
from swapconf.timing.cost import Costs
from swapconf.timing.program import step_tasks
from swapconf.timing.timeline import clock_us, of_step
from swapconf.timing.timing import Timeline
from swapconf.trace.lifetimes import NEVER, Category, Lifetimes
from swapconf.trace.trace import Trace

_NS = 1000


def step_profile(trace: Trace, line: Timeline, costs: Costs, hardware: str, reserved_bytes: int) -> StepProfile:
    """``line``: the replay of a step of this trace; ``reserved_bytes``: of the device, by the pool."""
    kernels = [kernel for kernel in trace.step if not kernel.is_event]
    live = of_step(line.program, lifetimes(trace))
    time_ns, by = _memory(line, live)
    return StepProfile(
        rank=trace.rank,
        hardware=hardware,
        program=line.program,
        tasks=step_tasks(trace),
        groups=tuple(kernel.group for kernel in kernels),
        start_ns=_whole_ns(line.start_us),
        end_ns=_whole_ns(line.end_us),
        origin=costs.origin,
        cause=line.cause,
        memory_ns=time_ns,
        memory_bytes=by,
        allocations=_allocations(line, live),
        reserved_bytes=reserved_bytes,
    )


def clock_ns(line: Timeline, event: NDArray[np.int64]) -> NDArray[np.int64]:
    """When events of the memory tracker happen."""
    return _whole_ns(clock_us(line, event))


def _whole_ns(time_us: NDArray[np.float64]) -> NDArray[np.int64]:
    whole: NDArray[np.int64] = np.rint(time_us * _NS).astype(np.int64)
    return whole


def _memory(line: Timeline, live: Lifetimes) -> tuple[NDArray[np.int64], dict[Category, NDArray[np.int64]]]:
    """Of all events at one moment the highest and the last, [m]: a picture of steps needs no more."""
    used = live.used
    at = clock_ns(line, used.time)
    last = np.flatnonzero(np.diff(at, append=-1))
    first = np.concatenate([np.zeros(min(1, len(last)), np.int64), last[:-1] + 1])
    highest = [int(begin + used.bytes_after[begin : end + 1].argmax()) for begin, end in zip(first, last, strict=True)]
    chosen = np.unique(np.concatenate([np.array(highest, dtype=np.int64), last]))
    moments = used.time[chosen]
    return at[chosen], {
        category: curve.bytes_after[np.maximum(np.searchsorted(curve.time, moments, side="right") - 1, 0)]
        * (moments >= curve.time[0])
        for category, curve in by_category(live).items()
    }


def _allocations(line: Timeline, live: Lifetimes) -> Allocations:
    is_freed = live.end != NEVER
    end_ns = np.full(len(live), NEVER, dtype=np.int64)
    end_ns[is_freed] = clock_ns(line, live.end[is_freed])
    used = live.used

    def after(event: NDArray[np.int64]) -> NDArray[np.int64]:
        at = np.maximum(np.searchsorted(used.time, event, side="right") - 1, 0)
        bytes_after: NDArray[np.int64] = used.bytes_after[at]
        return bytes_after

    return Allocations(
        name=tuple(live.names[code] for code in live.name.tolist()),
        size_bytes=live.size_bytes,
        start_ns=clock_ns(line, live.start),
        end_ns=end_ns,
        allocated_bytes=after(live.start),
        freed_bytes=after(live.end),
    )
