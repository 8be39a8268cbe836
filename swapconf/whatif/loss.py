"""PROGRAM -> PROGRAM: the two gradients of the head, which change places where the last layer is recomputed."""

from __future__ import annotations

from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import HEAD, TURN

REACH = 40  # kernels between the start of a backward pass and the head, at most


def head_first(baseline: Baseline, program: StrategyProgram) -> StrategyProgram:
    """The same program, where no last layer is recomputed, or the order is this one anyway."""
    again = set(baseline.kernels.passing[program.copies].tolist())
    places: dict[int, int] = {}
    for batch in baseline.batches:
        if batch[-1] in again:
            begin = int(baseline.returnable[batch[-1]])  # a pass is numbered by one of its nodes
            ahead, late = _head(baseline, begin)
            places |= {kernel: ahead * TICKS - HEAD + TURN * turn for turn, kernel in enumerate(late)}
    return program.moved(places)


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
        for second in range(first + 1, min(first + REACH, len(kernels))):
            if kernels.primitive[second] == "MatMul" and given & {
                int(reads.block[row]) for row in baseline.rows_of(second)
            }:
                adds = [kernel for kernel in baseline.followers(second) if kernels.primitive[kernel] == "AssignAdd"]
                return (first, [second, *adds[:1]]) if adds else (0, [])
        break
    return 0, []
