"""TRACE -> WORK AGAIN: what a step computes a second time in the backward pass, in kernels and operations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.simulate.costing import Signature, workload
from swapconf.simulate.phases import Phase, phases
from swapconf.simulate.program import step_tasks
from swapconf.simulate.work import work
from swapconf.trace import Trace


@dataclass(frozen=True, kw_only=True, slots=True)
class Recomputed:
    """Of one step. ``operations``: of the matrix unit and the vector unit together. What the model itself computes
    again (the casts of a norm) counts, as its kernels cannot be told from those of a strategy."""

    kernels: int
    operations: float


def recomputed(trace: Trace) -> Recomputed:
    """Raises ValueError where the trace has no graph."""
    phase = phases(trace)
    again = np.array([any(phase.get(made) is Phase.RECOMPUTED for made in task.outputs) for task in step_tasks(trace)])
    load = workload(trace)
    operations = np.array([_operations(item) for item in load.signatures])
    return Recomputed(kernels=int(again.sum()), operations=float(operations[load.index[again]].sum()))


def _operations(item: Signature) -> float:
    done = work(item.primitive, item.inputs, item.outputs, max(1, len(item.ranks)), item.attention)
    return done.matrix_ops + done.wide_matrix_ops + done.vector_ops
