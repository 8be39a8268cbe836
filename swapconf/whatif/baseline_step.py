"""TRACE + BASELINE -> STEP: one training step without swap and recompute, ready to be timed under any strategy.

A kernel that runs again takes as long as the one that it repeats, and a copy as long as its tensor on the host link, so
all times of all strategies are known from one step: they are rows of one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.cost import Costs, Hardware, Host
from swapconf.timing.costing import Workload, copies, costs, operations, workload
from swapconf.timing.measurements import Measured
from swapconf.timing.meetings import Call, calls
from swapconf.timing.program import program
from swapconf.timing.timing import Program
from swapconf.trace.columns import Ints
from swapconf.trace.trace import Tensor, Trace
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.unfused import on_first, unfused


@dataclass(frozen=True, kw_only=True)
class Step:
    """``trace``: without fused kernels. ``program``: the k kernels of its step. ``kernel``: int64 [k], which kernel of
    the baseline each of them is; ``item``: [kernels of the baseline] the other way round, -1 for those of other steps.
    ``load``: what the kernels do; ``tensors``: [blocks] what a copy of each block moves."""

    baseline: Baseline
    trace: Trace
    program: Program
    kernel: Ints
    item: Ints
    load: Workload
    tensors: tuple[Tensor, ...]

    def calls(self, rank: int) -> tuple[Call, ...]:
        """Kernels of the program that need other ranks."""
        return calls(self.trace, rank)

    @cached_property
    def labels(self) -> NDArray[np.object_]:
        """[4, k] names: of the kernel, of it run again, of the copy of what it makes to the host, and of that back."""
        names = self.program.names
        return np.array(
            [
                names,
                [f"recompute_{name}" for name in names],
                [f"{name} D2H" for name in names],
                [f"{name} H2D" for name in names],
            ],
            dtype=np.object_,
        )


def step_of(trace: Trace, baseline: Baseline) -> Step:
    """Once per trace. Raises ValueError where the trace has no graph."""
    once = program(parts := unfused(trace))
    kernel = np.array(parts.step_launches, dtype=np.int64)
    item = np.full(len(baseline.kernels), -1, dtype=np.int64)
    item[kernel] = np.arange(len(kernel))
    return Step(
        baseline=baseline,
        trace=parts,
        program=once,
        kernel=kernel,
        item=item,
        load=on_first(workload(trace), parts),
        tensors=_tensors(parts, baseline),
    )


def table(step: Step, hardware: Hardware, host: Host | None = None, measured: Measured | None = None) -> Costs:
    """A row for each kernel, then for the copy of each block to the host, then for its copy back."""
    parts = [
        costs(load, hardware, host, measured)
        for load in (step.load, copies(step.tensors, to_host=True), copies(step.tensors, to_host=False))
    ]
    return Costs(
        duration_us=np.concatenate([part.duration_us for part in parts]),
        origin=np.concatenate([part.origin for part in parts]),
        group=np.concatenate([part.group for part in parts]),
        spread=parts[0].spread,
    )


def added_operations(step: Step, again: Ints) -> float:
    """Of the kernels of the baseline that run again in a step: products, and one operation an element of the others.
    What the model computes again anyway adds nothing."""
    items = step.item[again[step.baseline.twin[again] < 0]]
    return float(operations(step.load)[items[items >= 0]].sum())


def _tensors(trace: Trace, baseline: Baseline) -> tuple[Tensor, ...]:
    """[blocks] the tensor as the kernel that made the block wrote it."""
    written: dict[int, Tensor] = {}
    for task in trace.tasks:
        if task.is_kernel:
            for name, tensor in zip(task.outputs, task.output_tensors, strict=False):
                written.setdefault(name, tensor)
    unknown = Tensor("UInt8", (0,))
    starts = np.sort(trace.blocks.start[~trace.blocks.on_host]).tolist()
    assert len(starts) == len(baseline.blocks)
    return tuple(written.get(start, unknown) for start in starts)
