"""TRACE -> WORK AGAIN: what a step computes a second time for the backward pass, in kernels and operations.

Names do not tell: MindSpore 2.9.0 puts ``recompute_`` before the names of all kernels of a recomputed cell, the forward
ones, too. So every tensor gets a number that stands for how it was computed: the primitive, its constants and the
numbers of its inputs. A kernel whose result has a number that was there before, and that only the backward pass reads
(through other such kernels or at once), runs again. A copy and a view do not change what a tensor is.

What the model computes again without being asked (casts of a norm) is among it, with and without a strategy. Measured
with MindSpore 2.9.0: a step of Llama, Qwen3 or DeepSeek-V3 with recompute has as many operations more than one without
as are found here, to 0.1 %.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from swapconf.simulate.costing import Signature, workload
from swapconf.simulate.program import program, step_tasks
from swapconf.simulate.work import COPY, VIEWS, work
from swapconf.timing import TO_DEVICE, TO_HOST, Program
from swapconf.trace import POINT_TO_POINT, Kernel, Task, Trace


@dataclass(frozen=True, kw_only=True, slots=True)
class Recomputed:
    """Of one step. ``operations``: of the matrix unit and the vector unit together."""

    kernels: int
    operations: float


def recomputed(trace: Trace) -> Recomputed:
    """Raises ValueError where the trace has no graph."""
    tasks = step_tasks(trace)
    again = np.array(_read_by_backward_only(trace, tasks, _seen_before(trace, tasks)), dtype=np.bool_)
    load = workload(trace)
    operations = np.array([_operations(item) for item in load.signatures])
    return Recomputed(kernels=int(again.sum()), operations=float(operations[load.index[again]].sum()))


def _seen_before(trace: Trace, tasks: Sequence[Task]) -> list[bool]:
    """By kernel: something in the step was computed in the same way before."""
    kernels = [kernel for kernel in trace.step if not kernel.is_event]
    steps = program(trace)
    numbers: dict[Hashable, int] = {}
    value: dict[int, int] = {}
    constants = {block.start for block in trace.blocks if block.kind == "ConstantValue"}
    known = []
    for index, (kernel, task) in enumerate(zip(kernels, tasks, strict=True)):
        inputs = tuple(value.setdefault(item, -item - 1) for item in task.inputs if item not in constants)
        if task.primitive == COPY:
            _copy(index, task, tasks, steps, value)
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


def _copy(index: int, task: Task, tasks: Sequence[Task], steps: Program, value: dict[int, int]) -> None:
    """What comes back to the device is what went to the host: the first copy out that the copy back waits for."""
    out = next((item for item in steps.waits[index] if steps.kind[item] == TO_HOST), -1)
    if steps.kind[index] == TO_DEVICE and out >= 0 and tasks[out].inputs and task.outputs:
        value[task.outputs[0]] = value[tasks[out].inputs[0]]


def _constants(kernel: Kernel) -> tuple[str, ...]:
    """As the order of execution tells them; the graph has a block for each, which may be another one the next time."""
    return tuple(item for item in kernel.inputs if item.startswith("ValueNode"))


def _read_by_backward_only(trace: Trace, tasks: Sequence[Task], candidates: Sequence[bool]) -> list[bool]:
    """Readers come later, so that one pass from the end decides. A view, and a kernel that MindSpore inserted and that
    stands in no cell (``Default/Cast-op3``), is of the pass of its own readers."""
    readers = {block.start: block.users for block in trace.blocks}
    serving = {task.event for task in trace.tasks if task.name.startswith("Gradients/")}
    again = []
    for task, candidate in zip(reversed(tasks), reversed(candidates), strict=True):
        users = [user for made in task.outputs for user in readers.get(made, ()) if user > task.event]
        may_serve = candidate or task.primitive in VIEWS or "-" not in task.scope
        serves = may_serve and bool(users) and all(user in serving for user in users)
        if serves:
            serving.add(task.event)
        again.append(candidate and serves)
    return again[::-1]


def _operations(item: Signature) -> float:
    done = work(item.primitive, item.inputs, item.outputs, max(1, len(item.ranks)), item.attention)
    return done.matrix_ops + done.wide_matrix_ops + done.vector_ops
