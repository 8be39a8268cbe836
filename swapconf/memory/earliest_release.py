"""TRACE of a PyNative run -> the least that it can have in use at its peak, whatever the order of its threads.

Operators run on threads of their own, behind Python. A tensor is given back when all are through with it: Python, the
graph of the backward pass, and the last operator. Where each operator ends before Python goes on, Python decides, which
is the longest that any order gives; the further Python is ahead, the more the last operator decides, which is the
shortest. So here a block ends behind the last task that uses it, except for one that its step leaves behind, because
Python waits for the device where it reads the loss, and for what a unit has gathered, which an operator of its own
empties. Source: MindSpore, ccsrc/runtime/pipeline/async_rqueue.h, whose queues hold up to 1,024 operators each.

How far Python is ahead, no program says: it depends on the host, and on what an operator costs it. ``AHEAD`` is read
off public runs, most of whose cards come out alike with anything from two to six (docs/evidence/pynative-cards.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.marked_lifetimes import gathered_blocks
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace.lifetimes import NEVER, Lifetimes, usage
from swapconf.trace.trace import Trace

AHEAD = 4  # operators
_UNUSED = -1


def least_used_peak_bytes(trace: Trace) -> int:
    """Of a trace with marks: no order of threads has less in use at its peak."""
    return _used_peak_bytes(trace, None)


def ahead_used_peak_bytes(trace: Trace, ahead: int = AHEAD) -> int:
    """Of a trace with marks whose operators each ended before Python went on: with Python so many of them ahead."""
    return _used_peak_bytes(trace, ahead)


def _used_peak_bytes(trace: Trace, ahead: int | None) -> int:
    live = lifetimes(trace)
    return usage(live.start, earliest_ends(trace, live, ahead), live.size_bytes).peak_bytes


def earliest_ends(trace: Trace, live: Lifetimes, ahead: int | None = None) -> NDArray[np.int64]:
    """int64 [n]: when each block can be given back at the earliest. ``live``: the blocks of the trace. ``ahead``: of so
    many operators Python is; None where nothing limits it."""
    last, steps, gathered = _last_uses(trace), trace.passes.steps, gathered_blocks(trace)
    used = np.array([last.get(start, _UNUSED) for start in live.start.tolist()], dtype=np.int64)
    in_its_step = np.searchsorted(steps, live.start) == np.searchsorted(steps, live.end)
    emptied = np.array([start in gathered for start in live.start.tolist()], dtype=np.bool_)
    is_free = in_its_step & (live.end != NEVER) & (used >= live.start) & ~emptied
    freed = used + 1
    if ahead is not None:
        operators = np.array([*(task.event for task in trace.tasks), NEVER], dtype=np.int64)
        before = operators[np.maximum(np.searchsorted(operators, live.end) - ahead, 0)]
        freed = np.maximum(freed, before)
    return np.where(is_free, np.minimum(live.end, freed), live.end)


def _last_uses(trace: Trace) -> dict[int, int]:
    """By tensor, the event of the last task that reads or writes it; a view reads what it is of."""
    found: dict[int, int] = {}
    for task in trace.tasks:
        for tensor in (*task.inputs, *task.outputs):
            found[tensor] = task.event
    blocks = trace.blocks
    row = np.repeat(np.arange(len(blocks)), np.diff(blocks.user_offsets))
    for tensor, task in zip(blocks.start[row].tolist(), blocks.users.tolist(), strict=True):
        found[tensor] = max(found.get(tensor, _UNUSED), task)
    return found
