"""PROGRAM -> PROGRAM: finished gradients are divided by the scale of the loss while others are still computed.

Without lazy inline, mcore models add up their losses in parameters (``AssignAdd``), and what reads the scale of the
loss behind that waits until all that read parameters as they are have done so: the weights of norms, which their
gradients read. What runs again reads a weight that is tied to the gradient of its cell, and counts as read when that is
there. So where the first layer runs again, MindSpore 2.9.0 divides the gradients of the layers behind it before it, and
what was communicated of them is released (measured on Qwen3 and TeleChat3, and seen in the edges of the last graph).
"""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.loss import launched
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import COPY_OUT, TURN


def unscaled_early(baseline: Baseline, program: StrategyProgram) -> StrategyProgram:
    """The same program, where the last norm to be read does not run again."""
    primitive, outside = baseline.kernels.primitives, (baseline.kernels.layer < 0) & ~baseline.kernels.backward
    places: dict[int, int] = {}
    added = np.flatnonzero(outside & (primitive == "AssignAdd"))
    for inverse in np.flatnonzero(outside & (primitive == "Reciprocal")).tolist():
        low, high = _step(baseline, inverse)
        gradients = np.flatnonzero(primitive[low:high] == "RmsNormGrad") + low
        scale = max(_faces(baseline, inverse), default=-1)
        if scale < 0 or not len(gradients) or not ((low <= added) & (added < scale)).any():
            continue
        late = int(_read(baseline, program, gradients).max())
        if late < program.where[gradients].max() < program.where[scale]:
            readers = _readers(baseline, inverse)
            divided = [kernel for kernel in readers if _is_there(baseline, program, kernel, inverse, late)]
            begin = late // TICKS * TICKS + COPY_OUT
            places |= {kernel: begin + TURN * turn for turn, kernel in enumerate([scale, inverse, *divided])}
    return launched(program, places) if places else program


def _step(baseline: Baseline, kernel: int) -> tuple[int, int]:
    """The first kernel of a step, and that of the next one."""
    starts = baseline.step_starts
    index = int(np.searchsorted(starts, kernel, side="right"))
    return int(starts[index - 1]), int(starts[index])


def _read(baseline: Baseline, program: StrategyProgram, gradients: Ints) -> Ints:
    """When the weights of norms are read for the last time. ``gradients``: of the norms."""
    kernels, again, begins = baseline.kernels, set(program.copies.tolist()), _begins(baseline, program)
    found = program.where[gradients]
    for index, kernel in enumerate(gradients.tolist()):
        norms = again & {face for face in _faces(baseline, kernel) if kernels.primitive[face] == "RmsNorm"}
        found[index] = min(
            (begins.get(int(kernels.passing[norm]), found[index]) for norm in norms), default=found[index]
        )
    return found


def _begins(baseline: Baseline, program: StrategyProgram) -> dict[int, int]:
    """By pass where the first of it runs again that waits for a gradient; see `ungated` for the others."""
    passing = baseline.kernels.passing[program.copies]
    gated = program.inserted >= baseline.returnable[program.copies] * TICKS + COPY_OUT
    found: dict[int, int] = {}
    for number, place in zip(passing[gated].tolist(), program.inserted[gated].tolist(), strict=True):
        found[number] = min(place, found.get(number, place))
    return found


def _is_there(baseline: Baseline, program: StrategyProgram, kernel: int, inverse: int, late: int) -> bool:
    """The gradient that a kernel divides is."""
    return all(int(program.where[face]) < late for face in _faces(baseline, kernel) if face != inverse)


def _readers(baseline: Baseline, kernel: int) -> list[int]:
    return [reader for block in baseline.made.get(kernel, ()) for reader in baseline.readers_of(block)]


def _faces(baseline: Baseline, kernel: int) -> list[int]:
    return [int(baseline.reads.face[row]) for row in baseline.rows_of(kernel) if baseline.reads.face[row] >= 0]
