"""PROGRAM -> PROGRAM: finished gradients are divided by the scale of the loss while others are still computed.

Without lazy inline, mcore models add up their losses in parameters (``AssignAdd``), and what reads the scale of the
loss behind that waits until all that read parameters as they are have done so: the weights of norms, which their
gradients read. What runs again reads a weight that is tied to the gradient of its cell, and counts as read when that is
there. So where the first layer runs again, MindSpore 2.9.0 divides the gradients of the layers behind it before it, and
what was communicated of them is released (measured on Qwen3 and TeleChat3, and seen in the edges of the last graph).

With lazy inline they come out of the backward pass as a tuple. Of what is taken from it MindSpore 2.9.0 unties every
other one, from the first weight of the optimizer on: these are divided when the next matrix has its gradient, the
others wait for all, and are scattered only then where the optimizer is parallel (seen in the edges of the last graph;
measured on all mcore families).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.trace.work import COLLECTIVES
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import COPY_OUT, HEAD, TURN


def unscaled_early(baseline: Baseline, program: StrategyProgram) -> StrategyProgram:
    """The same program, where the last norm to be read does not run again."""
    places: dict[int, int] = {}
    for inverse, scale in _scales(baseline):
        low, high = _step(baseline, inverse)
        gradients = np.flatnonzero(baseline.kernels.primitives[low:high] == "RmsNormGrad") + low
        if not len(gradients):
            continue
        late = int(_read(baseline, program, gradients).max())
        if late < program.where[gradients].max() < program.where[scale]:
            readers = baseline.followers(inverse)
            divided = [kernel for kernel in readers if _is_there(baseline, program, kernel, inverse, late)]
            begin = late // TICKS * TICKS + COPY_OUT
            places |= {kernel: begin + TURN * turn for turn, kernel in enumerate([scale, inverse, *divided])}
    return program.moved(places)


def unscaled_by_turns(baseline: Baseline, program: StrategyProgram) -> StrategyProgram:
    """The same program of one micro-batch, with lazy inline although the baseline has none."""
    places: dict[int, int] = {}
    for inverse, scale in _scales(baseline):
        made = {
            kernel: face
            for kernel in baseline.followers(inverse)
            if (face := _divided_gradient(baseline, kernel, inverse)) >= 0
        }
        turn = {kernel: _weight(baseline, kernel) for kernel in made}
        # the gradient of an embedding that several read is a sum, and not taken from the tuple
        first = int(any(not turn[kernel] and _has(baseline, face, "AddN") for kernel, face in made.items()))
        matrices = np.sort(
            program.where[[face for face in made.values() if not _has(baseline, face, "RmsNormGrad", "LayerNormGrad")]]
        )
        if len(matrices) < 2:
            continue
        begin = int(program.where[scale])
        is_late = begin > matrices[-2]  # behind all but the embedding, which has its own last
        for kernel, face in made.items():
            if turn[kernel] % 2 != first:
                if not is_late:
                    places[kernel] = _behind(int(matrices[-1])) + TURN * turn[kernel]
                if baseline.kernels.primitive[face] == "ReduceScatter":
                    places[face] = places.get(kernel, int(program.where[kernel])) - HEAD
            elif is_late and program.where[face] < matrices[-1]:
                behind = np.searchsorted(matrices, program.where[face], side="right")
                places[kernel] = _behind(int(matrices[behind]))
                begin = min(begin, places[kernel])
        if begin < program.where[scale]:
            places |= {scale: begin, inverse: begin}
    return program.moved(places)


def _scales(baseline: Baseline) -> Iterator[tuple[int, int]]:
    """(what inverts the scale of the loss, what makes that) of each step in which the losses are added up."""
    kernels = baseline.kernels
    outside = (kernels.layer < 0) & ~kernels.backward
    added = np.flatnonzero(outside & (kernels.primitives == "AssignAdd"))
    for inverse in np.flatnonzero(outside & (kernels.primitives == "Reciprocal")).tolist():
        low, _ = _step(baseline, inverse)
        scale = max(_faces(baseline, inverse), default=-1)
        if ((low <= added) & (added < scale)).any():
            yield inverse, scale


def _behind(position: int) -> int:
    """Of a kernel in its own place, or of one that is launched among what runs again."""
    return position + (1 if position % TICKS else COPY_OUT)


def _divided_gradient(baseline: Baseline, kernel: int, inverse: int) -> int:
    """The gradient that a kernel divides, where it is one and communicated."""
    faces = [face for face in _faces(baseline, kernel) if face != inverse]
    return faces[0] if len(faces) == 1 and baseline.kernels.primitive[faces[0]] in COLLECTIVES else -1


def _has(baseline: Baseline, gradient: int, *primitives: str) -> bool:
    """Whether what is communicated is what one of these made."""
    return any(baseline.kernels.primitive[face] in primitives for face in _faces(baseline, gradient))


def _weight(baseline: Baseline, kernel: int) -> int:
    """The number of the weight whose divided gradient a kernel makes; that of the nearest state behind it."""
    waiting, seen = deque([kernel]), {kernel}
    while waiting:
        following = waiting.popleft()
        if following in baseline.states:
            return baseline.states[following]
        fresh = dict.fromkeys(reader for reader in baseline.followers(following) if reader not in seen)
        seen.update(fresh)
        waiting.extend(fresh)
    return -1


def _step(baseline: Baseline, kernel: int) -> tuple[int, int]:
    """The first kernel of a step, and that of the next one."""
    starts = baseline.step_starts
    index = int(np.searchsorted(starts, kernel, side="right"))
    return int(starts[index - 1]), int(starts[index])


def _read(baseline: Baseline, program: StrategyProgram, gradients: Ints) -> Ints:
    """When the weights of norms are read for the last time. ``gradients``: of the norms."""
    kernels, again, begins = baseline.kernels, set(program.copies.tolist()), _begins(baseline, program)
    read_at = program.where[gradients]
    for index, kernel in enumerate(gradients.tolist()):
        norms = again & {face for face in _faces(baseline, kernel) if kernels.primitive[face] == "RmsNorm"}
        read_at[index] = min(
            (begins.get(int(kernels.passing[norm]), read_at[index]) for norm in norms), default=read_at[index]
        )
    return read_at


def _begins(baseline: Baseline, program: StrategyProgram) -> dict[int, int]:
    """By pass where the first of it runs again that waits for a gradient; see `ungated` for the others."""
    passing = baseline.kernels.passing[program.copies]
    gated = program.inserted >= baseline.returnable[program.copies] * TICKS + COPY_OUT
    begins: dict[int, int] = {}
    for number, place in zip(passing[gated].tolist(), program.inserted[gated].tolist(), strict=True):
        begins[number] = min(place, begins.get(number, place))
    return begins


def _is_there(baseline: Baseline, program: StrategyProgram, kernel: int, inverse: int, late: int) -> bool:
    """The gradient that a kernel divides is."""
    return all(int(program.where[face]) < late for face in _faces(baseline, kernel) if face != inverse)


def _faces(baseline: Baseline, kernel: int) -> list[int]:
    return [int(baseline.reads.face[row]) for row in baseline.rows_of(kernel) if baseline.reads.face[row] >= 0]
