"""TRACE -> PHASE of each tensor: forward, recomputed, backward or optimizer, from its name, its readers and its place.

MindSpore names a backward kernel ``Gradients/...``. What runs again carries the name of the forward kernel, also in a
recomputed cell, where both begin with ``recompute_``; it is known by its readers, which are all backward or run again
themselves, and by its place, after a backward kernel with no forward kernel between. The optimizer is told by the cells
in which it stands. Kernels that MindSpore inserts have no cells (``Default/Cast-op3``); they belong to the phase in
which they run.
"""

from __future__ import annotations

import re
from enum import Enum

from swapconf.trace import Task, Trace

_OPTIMIZER = re.compile(r"(?:^|/)(?:optimizer|learning_rate|clip_grad_norm)-\w+(?:/|$)")


class Phase(Enum):
    FORWARD = "forward"
    RECOMPUTED = "recomputed"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


def phases(trace: Trace) -> dict[int, Phase]:
    """The phase of the launch that made each tensor, by the tensor's id, which is the event at which its block is born.

    Empty where MindSpore wrote no graph (memory_optimize_level O1)."""
    tasks = [task for task in trace.tasks if task.is_kernel]
    wrapper = _wrapper(tasks)
    named = {task.event: _by_name(task, wrapper) for task in tasks}
    copies = _read_by_backward_only(tasks, trace)
    found: dict[int, Phase] = {}
    current = direction = Phase.FORWARD
    for task in tasks:
        phase = named[task.event]
        if phase is Phase.FORWARD and task.event in copies:
            phase = Phase.RECOMPUTED if direction is Phase.BACKWARD else Phase.FORWARD
        elif phase is not None:
            current = phase
            direction = direction if phase is Phase.OPTIMIZER else phase  # MindSpore runs some of it in between
        for tensor in task.outputs:
            found.setdefault(tensor, current if phase is None else phase)
    return found


def _wrapper(tasks: list[Task]) -> str:
    """The cell that holds network and optimizer: ``Default/network-MFPipelineWithLossScaleCell``. What stands in it
    directly belongs to neither."""
    for task in tasks:
        if not task.name.startswith("Gradients/") and (match := _OPTIMIZER.search(task.scope)):
            return task.scope[:match.start()]
    return "Default"


def _by_name(task: Task, wrapper: str) -> Phase | None:
    """None: the name does not tell."""
    if task.name.startswith("Gradients/"):
        return None if task.scope == "Gradients/Default" else Phase.BACKWARD
    if task.scope in (wrapper, "Default"):
        return None
    return Phase.OPTIMIZER if _OPTIMIZER.search(task.scope) else Phase.FORWARD


def _read_by_backward_only(tasks: list[Task], trace: Trace) -> set[int]:
    """Events of the launches that somebody reads, but only launches of the backward pass or such as these. Readers come
    later, so that one pass from the end decides."""
    readers = {block.start: block.users for block in trace.blocks}
    gradients = {task.event for task in tasks if task.name.startswith("Gradients/")}
    chosen: set[int] = set()
    for task in reversed(tasks):
        users = [user for tensor in task.outputs for user in readers.get(tensor, ()) if user > task.event]
        if users and all(user in chosen or user in gradients for user in users):
            chosen.add(task.event)
    return chosen
