"""TRACE -> WORK AGAIN: what a step computes a second time for the backward pass, in kernels and operations.

What is recomputed is told by `swapconf.trace.phases`; what the model recomputes without being asked (casts of a norm)
is among it, with and without a strategy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.timing.costing import Signature, workload
from swapconf.trace.phases import Phase
from swapconf.trace.trace import Trace
from swapconf.trace.work import work
from swapconf.upstream.primitives import VIEWS
from swapconf.words.phrases import phrase


@dataclass(frozen=True, kw_only=True, slots=True)
class Recomputed:
    """Of one step, but for views, which take and compute nothing. ``operations``: of the matrix unit and the
    vector unit together."""

    kernels: int
    operations: float


def recomputed(trace: Trace) -> Recomputed:
    """Raises ValueError where the trace has no graph."""
    if not trace.has_graph:
        raise ValueError(phrase("the trace has no graph: MindSpore writes none with memory_optimize_level O1"))
    load = workload(trace)
    tasks = zip(trace.step_tasks, trace.step_phases, strict=True)
    again = np.array(
        [phase is Phase.RECOMPUTED and task.primitive not in VIEWS for task, phase in tasks], dtype=np.bool_
    )
    operations = np.array([_operations(item) for item in load.signatures])
    return Recomputed(kernels=int(again.sum()), operations=float(operations[load.index[again]].sum()))


def _operations(item: Signature) -> float:
    done = work(item.primitive, item.inputs, item.outputs, item.attention)
    return done.matrix_ops + done.wide_matrix_ops + done.vector_ops
