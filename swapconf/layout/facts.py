"""JUDGE -> FACTS: what one layer of a layout holds, computes and takes, as its dry run without a strategy shows.

The least of all layers that were run, so that what is concluded for other layouts is never too much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from swapconf.layout.layout import Layout
from swapconf.memory.trace_lifetimes import layer_of, lifetimes
from swapconf.plan.judge import Judge
from swapconf.timing.costing import matrix_operations
from swapconf.timing.schedule import micro_end
from swapconf.timing.timing import COMPUTE
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.trace.trace import Trace
from swapconf.whatif.evaluation import RankStep


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Of one decoder layer on one card.

    Attributes:
        shared_bytes: Weights and the state of the optimizer, which the parallel optimizer cuts, too.
        gradient_bytes: Gradients that are kept to be added up; 0 with one micro-batch.
        micro_us: What a micro-batch computes forward and backward.
        matrix_ops: The operations of its products of matrices.
    """

    layout: Layout
    shared_bytes: int
    gradient_bytes: int
    micro_us: float
    matrix_ops: float


def facts_of(layout: Layout, judge: Judge) -> Facts:
    held = [item for trace in judge.evaluator.traces for item in _held(trace)]
    took = [item for step in judge.evaluator.steps for item in _took(step, step.micro_batches or layout.micro_batches)]
    return Facts(
        layout=layout,
        shared_bytes=min((item.shared for item in held), default=0),
        gradient_bytes=min((item.gradients for item in held), default=0),
        micro_us=min((item.us for item in took), default=0.0),
        matrix_ops=min((item.operations for item in took), default=0.0),
    )


class _Held(NamedTuple):
    shared: int
    gradients: int


class _Took(NamedTuple):
    us: float
    operations: float


def _held(trace: Trace) -> list[_Held]:
    """By layer of the trace."""
    live = lifetimes(trace)
    found = []
    for layer in sorted(set(live.layer[live.layer >= 0].tolist())):
        mine = live.is_persistent & (live.layer == layer)
        shared, gradients = (
            int(live.size_bytes[mine & np.isin(live.category, [CATEGORIES.index(item) for item in items])].sum())
            for items in ((Category.WEIGHT, Category.OPTIMIZER), (Category.GRADIENT,))
        )
        found.append(_Held(shared, gradients))
    return found


def _took(step: RankStep, micro_batches: int) -> list[_Took]:
    """By layer of the trace, of one micro-batch."""
    program = step.program
    last = micro_end(program)
    layer = _layers(program.names)
    computes = (program.kind == COMPUTE) & (np.arange(len(program)) <= last)
    operations = matrix_operations(step.load)
    found = []
    for number in sorted(set(layer[layer >= 0].tolist())):
        mine = computes & (layer == number)
        found.append(
            _Took(float(step.duration_us[mine].sum()) / micro_batches, float(operations[mine].sum()) / micro_batches)
        )
    return found


def _layers(names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([layer_of(name) for name in names], dtype=np.int64)
