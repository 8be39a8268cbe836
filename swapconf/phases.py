"""TRACE -> PHASE of each launch: forward, recomputed, backward or optimizer. The one place that decides it.

Names do not tell: MindSpore 2.9.0 puts ``recompute_`` before the names of all kernels of a recomputed cell, the forward
ones, too, and before none where single primitives are recomputed. So every tensor gets a number that stands for how it
was computed: the primitive, its constants and the numbers of its inputs. A launch whose result has a number that was
there before in the step, and that only the backward pass reads (through other such launches or at once), is recomputed.
A copy and a view do not change what a tensor is.

A gradient is named ``Gradients/...``; what a cell computes by hand for its gradient (``bprop``) bears the cell's name,
is new, and only the backward pass reads it. The optimizer is told by the cells in which it stands. Kernels that
MindSpore inserts have no cells (``Default/Cast-op3``); if nothing else tells, they belong to the phase in which they
run. What the model recomputes without being asked (casts of a norm) is recomputed, too.

Measured with MindSpore 2.9.0: a step of Llama, Qwen3 or DeepSeek-V3 with recompute has as many operations more than one
without as are found here, to 0.1 %.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from enum import Enum

from swapconf.primitives import COPY, VIEWS
from swapconf.trace import POINT_TO_POINT, Kernel, Task, Trace
from swapconf.waits import waits_of

_GRADIENTS = "Gradients/"
_OPTIMIZER = re.compile(r"(?:^|/)(?:optimizer|learning_rate|clip_grad_norm)-\w+(?:/|$)")


class Phase(Enum):
    FORWARD = "forward"
    RECOMPUTED = "recomputed"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


def step_phases(trace: Trace) -> tuple[Phase, ...]:
    """The phase of each launch of `Trace.step_tasks`; empty where the trace has no graph."""
    if not trace.has_graph:
        return ()
    tasks = trace.step_tasks
    named = _by_name(tasks)
    known = _seen_before(trace, tasks)
    again = _recomputed(trace, tasks, known)
    late = _read_by_backward_only(trace, tasks)
    found = []
    current = direction = Phase.FORWARD
    for phase, is_again, is_late in zip(named, again, late, strict=True):
        if is_again:
            found.append(Phase.RECOMPUTED)
        elif phase is Phase.FORWARD and is_late:
            found.append(direction)
        else:
            if phase is not None:
                current = phase
                direction = direction if phase is Phase.OPTIMIZER else phase  # MindSpore runs some of it in between
            found.append(current)
    return tuple(found)


def phases(trace: Trace) -> dict[int, Phase]:
    """The phase of the launch that made each tensor, by the tensor's id, which is the event at which its block is born.

    Empty where the trace has no graph."""
    if not trace.has_graph:
        return {}
    kernels = [kernel for kernel in trace.kernels if not kernel.is_event]
    step = [kernel for kernel in trace.step if not kernel.is_event]
    of_kernel = {(kernel.graph, kernel.name): phase for kernel, phase in zip(step, step_phases(trace), strict=True)}
    tasks = (task for task in trace.tasks if task.is_kernel)
    found: dict[int, Phase] = {}
    for kernel, task in zip(kernels, tasks, strict=True):
        for tensor in task.outputs:
            found.setdefault(tensor, of_kernel[kernel.graph, kernel.name])
    return found


def _by_name(tasks: Sequence[Task]) -> list[Phase | None]:
    """None: the name does not tell."""
    wrapper = _wrapper(tasks)
    return [_named(task, wrapper) for task in tasks]


def _wrapper(tasks: Sequence[Task]) -> str:
    """The cell that holds network and optimizer: ``Default/network-MFPipelineWithLossScaleCell``. What stands in it
    directly belongs to neither."""
    for task in tasks:
        if not task.name.startswith(_GRADIENTS) and (match := _OPTIMIZER.search(task.scope)):
            return task.scope[:match.start()]
    return "Default"


def _named(task: Task, wrapper: str) -> Phase | None:
    if task.name.startswith(_GRADIENTS):
        return None if task.scope == "Gradients/Default" else Phase.BACKWARD
    if task.scope in (wrapper, "Default"):
        return None
    return Phase.OPTIMIZER if _OPTIMIZER.search(task.scope) else Phase.FORWARD


def _seen_before(trace: Trace, tasks: Sequence[Task]) -> list[bool]:
    """By launch: something in the step was computed in the same way before."""
    kernels, waits = waits_of(trace)
    numbers: dict[Hashable, int] = {}
    value: dict[int, int] = {}
    constants = {block.start for block in trace.blocks if block.kind == "ConstantValue"}
    known = []
    for index, (kernel, task) in enumerate(zip(kernels, tasks, strict=True)):
        inputs = tuple(value.setdefault(item, -item - 1) for item in task.inputs if item not in constants)
        if task.primitive == COPY:
            _copy(kernel, task, [(kernels[item], tasks[item]) for item in waits[index]], value)
            known.append(False)
            continue
        turn = index if task.primitive in POINT_TO_POINT else -1
        key = (task.primitive, _constants(kernel), task.output_tensors, inputs, turn)
        known.append(key in numbers)
        number = numbers.setdefault(key, len(numbers) << 8)
        if task.primitive in VIEWS and inputs:
            value.update(dict.fromkeys(task.outputs, inputs[0]))
        else:
            value.update((made, number + place) for place, made in enumerate(task.outputs))
    return known


def _copy(kernel: Kernel, task: Task, waited_for: Sequence[tuple[Kernel, Task]], value: dict[int, int]) -> None:
    """What comes back to the device is what went to the host: the first copy out that the copy back waits for."""
    out = next((other for copy, other in waited_for if copy.copies_to_host), None)
    if not kernel.copies_to_host and out is not None and out.inputs and task.outputs:
        value[task.outputs[0]] = value[out.inputs[0]]


def _constants(kernel: Kernel) -> tuple[str, ...]:
    """As the order of execution tells them; the graph has a block for each, which may be another one the next time."""
    return tuple(item for item in kernel.inputs if item.startswith("ValueNode"))


def _recomputed(trace: Trace, tasks: Sequence[Task], candidates: Sequence[bool]) -> list[bool]:
    """Candidates that only the backward pass reads. Readers come later, so that one pass from the end decides. A view,
    and a kernel that MindSpore inserted and that stands in no cell, is of the pass of its own readers."""
    readers = _readers(trace)
    serving = {task.event for task in trace.tasks if task.name.startswith(_GRADIENTS)}
    again = []
    for task, candidate in zip(reversed(tasks), reversed(candidates), strict=True):
        users = [user for made in task.outputs for user in readers.get(made, ()) if user > task.event]
        may_serve = candidate or task.primitive in VIEWS or "-" not in task.scope
        serves = may_serve and bool(users) and all(user in serving for user in users)
        again.append(candidate and serves and task.event not in serving)
        if serves:
            serving.add(task.event)
    return again[::-1]


def _read_by_backward_only(trace: Trace, tasks: Sequence[Task]) -> list[bool]:
    """By launch: somebody reads it, but only gradients or such as these."""
    readers = _readers(trace)
    chosen = {task.event for task in trace.tasks if task.name.startswith(_GRADIENTS)}
    found = []
    for task in reversed(tasks):
        users = [user for made in task.outputs for user in readers.get(made, ()) if user > task.event]
        found.append(bool(users) and all(user in chosen for user in users))
        if found[-1]:
            chosen.add(task.event)
    return found[::-1]


def _readers(trace: Trace) -> dict[int, tuple[int, ...]]:
    return {block.start: block.users for block in trace.blocks}
