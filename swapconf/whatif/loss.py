"""PROGRAM -> PROGRAM: kernels around the gradient of the loss that a strategy makes MindSpore launch earlier.

A copy back whose prefetch reaches to the start of the backward pass is tied to the first gradient kernel, which then
waits for it. Kernels of the loss that read nothing but the forward pass (``Cast``, ``Exp`` and ``Sub`` of the softmax)
do not wait, and run before that gradient and the copies (measured with MindSpore 2.9.0; without such a copy they run
where the gradient needs them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import BEFORE_GRADIENTS, HEAD, TURN
from swapconf.whatif.swap import Windows

REACH = 40  # kernels between the start of a backward pass and the head, at most
_MORE = 2  # a copy back, and what ties it to the start, stand between these and its reader


def hurried(baseline: Baseline, program: StrategyProgram, windows: Windows) -> StrategyProgram:
    """The same program, where no copy reaches so far."""
    begin = baseline.returnable[windows.face]
    at_start = ~windows.unread & (begin > 0) & (windows.returned < program.where[begin])
    known = baseline.before_gradients
    moved = [(start, known[start]) for start in np.unique(begin[at_start]).tolist() if start in known]
    if not moved:
        return program
    return _launched(
        program,
        {
            int(kernel): start * TICKS - BEFORE_GRADIENTS + TURN * turn
            for start, kernels in moved
            for turn, kernel in enumerate(kernels)
        },
    )


def started(baseline: Baseline, program: StrategyProgram, planned: Windows, windows: Windows) -> Windows:
    """``windows`` of the program with `hurried` kernels, where copies back stand as was ``planned`` without these. Of
    those at the start, each is launched before these kernels that is not nearer to the end of the step."""
    begin = baseline.returnable[windows.face]
    first = np.full(len(program.where), -1, dtype=np.int64)
    for start, kernels in baseline.before_gradients.items():
        if program.where[kernels[0]] < program.where[start]:
            first[start] = kernels[0]
    kernel = first[begin]
    sooner = (kernel >= 0) & ~windows.unread & (planned.returned < program.where[begin])
    sooner &= windows.far + _MORE >= baseline.depth[kernel]
    return replace(
        windows, returned=np.where(sooner, np.maximum(program.where[kernel] - 1, windows.copied + 1), planned.returned)
    )


def head_first(baseline: Baseline, program: StrategyProgram) -> StrategyProgram:
    """The same program, where no last layer is recomputed, or the order is this one anyway."""
    again = set(baseline.kernels.passing[program.copies].tolist())
    places: dict[int, int] = {}
    for batch in baseline.batches:
        if batch[-1] in again:
            begin = int(baseline.returnable[batch[-1]])  # a pass is numbered by one of its nodes
            ahead, late = _head(baseline, begin)
            places |= {kernel: ahead * TICKS - HEAD + TURN * turn for turn, kernel in enumerate(late)}
    return _launched(program, places) if places else program


def _head(baseline: Baseline, begin: int) -> tuple[int, list[int]]:
    """(the gradient of the input of the head, behind the start of a backward pass; that of its weight, with what adds
    it up, where it is launched later)."""
    kernels, reads = baseline.kernels, baseline.reads
    if not begin:
        return 0, []
    for first in range(begin, min(begin + REACH, len(kernels))):
        if kernels.primitive[first] != "MatMul" or not kernels.backward[first]:
            continue
        given = {
            int(reads.block[row])
            for row in baseline.rows_of(first)
            if kernels.backward[baseline.maker[reads.block[row]]]
        }
        for other in range(first + 1, min(first + REACH, len(kernels))):
            if kernels.primitive[other] == "MatMul" and given & {
                int(reads.block[row]) for row in baseline.rows_of(other)
            }:
                adds = [
                    kernel
                    for block in baseline.made.get(other, ())
                    for kernel in baseline.readers_of(block)
                    if kernels.primitive[kernel] == "AssignAdd"
                ]
                return (first, [other, *adds[:1]]) if adds else (0, [])
        break
    return 0, []


def _launched(program: StrategyProgram, places: Mapping[int, int]) -> StrategyProgram:
    """With some kernels of the baseline at other positions."""
    where, position = program.where.copy(), program.position.copy()
    for kernel, new in places.items():
        old = int(where[kernel])
        position[position == old] = new
        where[kernel] = new
    return replace(program, where=where, position=position)
