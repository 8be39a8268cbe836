"""TRACE -> TRACE without fused kernels: with ``jit_level: O1`` MindSpore makes one kernel of several operators.

It does so after recompute and swap have marked operators, so that a strategy is about operators and not about these
kernels. Where the trace knows what is inside, each operator is a kernel (`trace/opened.py`). Else
``GraphKernel_Mul_Add_Cast_fusion`` stands for the operator that makes what it leaves, ``Cast``; with several
outputs for as many, the last ones of its name, each of which reads the one before it where both are of one shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from swapconf.timing.costing import Signature, Workload
from swapconf.trace.columns import FUSED
from swapconf.trace.trace import Kernel, Task, Trace
from swapconf.upstream.launch_orders import GRAPH_KEPT
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

_REST = "+"  # in the names of what stands for a fused kernel, but for the first


def unfused(trace: Trace) -> Trace:
    """The same blocks, and a kernel for each operator in a fused one, or for each output."""
    trace = trace.opened.trace
    if not trace.has_graph or not trace.is_fused:
        return trace
    others = iter([task for task in trace.tasks if task.is_kernel])
    kernels: list[Kernel] = []
    tasks: list[Task] = [task for task in trace.tasks if not task.is_kernel]
    for kernel in trace.kernels:
        if kernel.is_event:
            kernels.append(kernel)
            continue
        for part, task in _parts(kernel, next(others)):
            kernels.append(part)
            tasks.append(task)
    return replace(trace, kernels=tuple(kernels), tasks=tuple(sorted(tasks, key=lambda task: task.event)))


def on_first(load: Workload, parts: Trace) -> Workload:
    """What the kernels of the fused step do, told of those that stand for them: the first of each takes all of its
    time. ``parts``: the trace without fused kernels."""
    launched = [kernel for kernel in parts.step if not kernel.is_event]
    names = [kernel.name for kernel in launched]
    index = np.array([kernel.index for kernel in launched])
    is_rest = np.diff(index, prepend=-1) == 0
    index = load.index[np.cumsum(~is_rest) - 1]
    nothing = Signature("Reshape", (), (), (), None)
    return Workload(
        names=tuple(names), signatures=(*load.signatures, nothing), index=np.where(is_rest, len(load.signatures), index)
    )


def worth(trace: Trace) -> Iterator[Finding]:
    """What a prediction from a trace with fused kernels is worth."""
    if not trace.is_fused:
        return
    is_known = bool(trace.opened.parts)
    is_ordered = is_known and trace.opened.launch_graph is not None
    yield Finding(
        origin=Origin(file=f"{trace.folder}/execute_order.csv"),
        rule="kernels-fused",
        severity=Severity.NOTE,
        message=phrase(
            "kernels are fused (jit_level O1): the prediction is about the operators in them, and the kernels that "
            "MindSpore would make of them; it was tried on fewer runs than with jit_level O0 "
            "(docs/evidence/what-if-fused.md)"
        )
        if is_ordered
        else phrase(
            "kernels are fused (jit_level O1): the prediction is about the operators in them, in the order of the run "
            "without a strategy, not in that which MindSpore would decide; the bound of --safe is wider for it "
            "(docs/evidence/what-if-fused.md)"
        )
        if is_known
        else phrase(
            "kernels are fused (jit_level O1), and this trace does not tell what is inside: the prediction is less "
            "exact, mostly too high (docs/evidence/what-if-fused.md)"
        ),
        hint=phrase("confirm what you choose by a dry run; with jit_level O0 the prediction is exact to 1 % or so")
        if is_known
        else phrase(
            "make the trace again: a dry run of this version with MindSpore {first} to {last} keeps what is inside",
            first=GRAPH_KEPT[0],
            last=GRAPH_KEPT[1],
        ),
    )


def _parts(kernel: Kernel, task: Task) -> Iterator[tuple[Kernel, Task]]:
    primitives = _primitives(kernel.name)
    made = [place for place, output in enumerate(task.outputs) if output not in task.inputs]
    if not primitives or not made:
        yield kernel, task
        return
    primitives = (primitives[-len(made) :] + [primitives[-1]] * len(made))[: len(made)]
    inputs, tensors = task.inputs, task.input_tensors
    for number, (place, primitive) in enumerate(zip(made, primitives, strict=True)):
        name = f"{kernel.name}{_REST}{number}" if number else kernel.name
        output = task.output_tensors[place : place + 1]
        yield (
            replace(kernel, name=name, primitive=primitive),
            replace(
                task,
                name=f"{task.scope}/{primitive}-op{number}",
                inputs=inputs,
                input_tensors=tensors,
                outputs=task.outputs[place : place + 1],
                output_tensors=output,
            ),
        )
        following = task.output_tensors[made[number + 1]] if number + 1 < len(made) else None
        if following is not None and output and following.shape == output[0].shape:
            inputs, tensors = task.outputs[place : place + 1], output
        else:
            inputs, tensors = task.inputs, task.input_tensors


def _primitives(name: str) -> list[str]:
    """``Mul``, ``Add``, ``Cast`` of ``Default/GraphKernel_Mul_Add_Cast_fusion-op3``; none of another kernel."""
    _, fused, operators = name.rpartition("-op")[0].rpartition(FUSED)
    return operators.removesuffix("_fusion").removesuffix("_split").split("_") if fused else []
