"""TRACE -> PROGRAM: the kernels of one step with what each waits for (see ``waits``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.timing import COLLECTIVE, COMPUTE, TO_DEVICE, TO_HOST, Program, Waits
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import Kernel, Task, Trace
from swapconf.trace.waits import waits_of
from swapconf.trace.work import COLLECTIVES, COPY, HOST_COPIES


def program(trace: Trace) -> Program:
    """Raises ValueError where the trace has no graph, which tells shapes and times."""
    kernels, waits = waits_of(trace)
    tasks = step_tasks(trace)
    return Program(
        names=tuple(kernel.name for kernel in kernels),
        waits=Waits.of_rows(waits),
        stream=np.array([kernel.stream for kernel in kernels], dtype=np.int32),
        kind=np.array([_kind(kernel) for kernel in kernels], dtype=np.uint8),
        event=np.array([task.event for task in tasks], dtype=np.int64),
        freed=_freed(trace, kernels, tasks),
    )


def step_tasks(trace: Trace) -> tuple[Task, ...]:
    """The tracker's record of each kernel of the step, in the same order. Raises ValueError where there is none."""
    if not trace.tasks or trace.marks:
        raise ValueError(trace.why_no_graph)
    return trace.step_tasks


def _freed(trace: Trace, kernels: Sequence[Kernel], tasks: Sequence[Task]) -> NDArray[np.int64]:
    freed = np.full(len(kernels), NEVER, dtype=np.int64)
    copies = [index for index, kernel in enumerate(kernels) if kernel.copies_to_host and tasks[index].inputs]
    on_device = ~trace.blocks.on_host
    end = dict(zip(trace.blocks.start[on_device].tolist(), trace.blocks.end[on_device].tolist(), strict=True))
    for index in copies:
        freed[index] = end.get(tasks[index].inputs[0], NEVER)
    return freed


def _kind(kernel: Kernel) -> int:
    if kernel.primitive in HOST_COPIES:
        return TO_DEVICE if kernel.primitive == COPY and not kernel.copies_to_host else TO_HOST
    return COLLECTIVE if kernel.primitive in COLLECTIVES else COMPUTE
