"""CALLS + TIMES -> SCHEDULE: how a pipeline is cut, as the messages between its stages show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from swapconf.timing.meetings import Call
from swapconf.timing.timeline import replay
from swapconf.timing.timing import COMPUTE, Floats, PipelineSchedule, Program
from swapconf.upstream.scopes import GRADIENTS


def schedule(by_rank: Mapping[int, Sequence[Call]]) -> PipelineSchedule | None:
    """None where no rank sends anything to another. ``by_rank``: one rank of each stage, in the order of stages.

    The first stage sends each micro-batch on once from each of its parts of the model, and gets it back before each
    but the first."""
    first = next(iter(by_rank), -1)
    messages = [call for call in by_rank.get(first, ()) if call.sender >= 0 and not call.is_gradient]
    sent = sum(call.sender == first for call in messages)
    micro_batches = sent - (len(messages) - sent)
    if len(by_rank) < 2 or micro_batches < 1:
        return None
    return PipelineSchedule(num_stages=len(by_rank), num_micro_batches=micro_batches, num_chunks=sent // micro_batches)


def micro_end(program: Program) -> int:
    """The last kernel of the last micro-batch: the last that computes in the backward pass of a cell. What follows adds
    up gradients and updates weights. -1 where there is none."""
    computing = np.flatnonzero(program.kind == COMPUTE).tolist()
    return next((kernel for kernel in reversed(computing) if _is_gradient(program.names[kernel])), -1)


def _is_gradient(name: str) -> bool:
    """``Gradients/Default/network-...``; the sums of gradients stand in no cell: ``Gradients/Default/Grad_...``."""
    return name.startswith(GRADIENTS) and "-" in name.rpartition("/")[0]


def expected_us(
    plan: PipelineSchedule, programs: Sequence[Program], durations_us: Sequence[Floats], made: Sequence[Sequence[Call]]
) -> float:
    """The step by the formula of 1F1B: each stage as it is alone, its messages taking no time. ``made``: the calls of
    each. What a stage does after its last micro-batch is added as it is, of the slowest."""
    micro_us, rest_us = [], 0.0
    for program, duration, calls in zip(programs, durations_us, made, strict=True):
        free = duration.copy()
        free[[call.kernel for call in calls if call.sender >= 0]] = 0.0
        line, last = replay(program, free), micro_end(program)
        end = float(line.end_us[last]) if last >= 0 else 0.0
        micro_us.append(end / plan.num_micro_batches)
        rest_us = max(rest_us, line.step_us - end)
    return plan.step_us(micro_us) + rest_us
