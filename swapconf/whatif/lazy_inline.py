"""PROGRAM -> PROGRAM: a forward pass that ends before the gradients begin, where the one of the baseline does not.

mindformers turns lazy inline off where a step has one micro-batch and no pipeline; with swap it stays on (see
docs/explanation/what-is-replaced.md). MindSpore 2.9.0 then ties every gradient to the end of the forward pass: what the
loss computes for its own gradient alone (``Exp``, ``Sub`` of the softmax) no longer runs with the forward pass but in
the backward pass, and the last kernels of the loss no longer run among gradients. Nor do gradients that need nothing of
the loss, of routers, run with the forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.loss import REACH
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import FORWARD_END, GRADIENT_ONLY, HEAD, TURN


@dataclass(frozen=True, kw_only=True, slots=True)
class Barrier:
    """Kernels of one step. ``start``: the first gradient; ``late``: of the forward pass, read by gradients alone;
    ``behind``: the kernel behind which these run; ``tail``: of the forward pass, launched behind the first gradient.
    ``early``: gradients that are launched with the forward pass; each runs with its reader: the first in the backward
    pass, by kernel."""

    start: int
    late: Ints
    behind: int
    tail: Ints
    early: Mapping[int, int] = field(default_factory=dict[int, int])


def barriers(baseline: Baseline) -> tuple[Barrier, ...]:
    """One for each step; none where lazy inline is on anyway."""
    starts = np.unique(baseline.returnable[baseline.returnable > 0]).tolist()
    if len(starts) > baseline.steps or baseline.is_piped:
        return ()
    candidates = (_barrier(baseline, start) for start in starts)
    return tuple(barrier for barrier in candidates if barrier is not None)


def barred(program: StrategyProgram, per_step: Sequence[Barrier]) -> StrategyProgram:
    """The same program, with these barriers."""
    places: dict[int, int] = {}
    for barrier in per_step:
        first = barrier.start * TICKS - FORWARD_END
        places |= {kernel: first + TURN * turn for turn, kernel in enumerate(barrier.tail.tolist())}
        first = barrier.behind * TICKS + GRADIENT_ONLY
        places |= {kernel: first + TURN * turn for turn, kernel in enumerate(barrier.late.tolist())}
        places |= {
            kernel: int(program.where[reader]) - HEAD + TURN * turn
            for turn, (kernel, reader) in enumerate(barrier.early.items())
        }
    return program.moved(places)


def _barrier(baseline: Baseline, start: int) -> Barrier | None:
    outside = ~baseline.kernels.backward & (baseline.kernels.layer < 0) & (baseline.kernels.stream == 0)
    tail = _tail(baseline, start, outside)
    late, last = _late(baseline, start, outside, tail)
    ahead = (kernel for kernel in range(last - 1, start - 1, -1) if kernel not in tail and baseline.below[kernel] < 0)
    behind = next(ahead, -1)
    if not late or behind < 0:
        return None
    return Barrier(
        start=start,
        late=np.array(late),
        behind=behind,
        tail=np.array(tail, dtype=np.int64),
        early=_early(baseline, start),
    )


def _early(baseline: Baseline, start: int) -> dict[int, int]:
    begin = int(baseline.step_starts[baseline.step_starts <= start].max())
    reader: dict[int, int] = {}
    for kernel in (np.flatnonzero(baseline.early_gradients[begin:start]) + begin)[::-1].tolist():
        readers = [follower for follower in baseline.followers(kernel) if follower != kernel]
        first = min((reader.get(follower, follower) for follower in readers), default=-1)
        if first >= start:
            reader[kernel] = first
    return dict(sorted(reader.items()))


def _tail(baseline: Baseline, start: int, outside: Flags) -> list[int]:
    maker = baseline.maker[baseline.reads.block]
    tail: list[int] = []
    for kernel in (np.flatnonzero(outside[start : start + REACH]) + start).tolist():
        makers = [int(maker[row]) for row in baseline.rows_of(kernel)]
        if makers and all(source < start or source in tail for source in makers):
            tail.append(kernel)
    return tail


def _late(baseline: Baseline, start: int, outside: Flags, tail: list[int]) -> tuple[list[int], int]:
    """Also the first that reads these. Whatever is read by none but these is one of them, however early it runs."""
    late: list[int] = []
    last, begin = len(baseline.kernels), int(baseline.step_starts[baseline.step_starts <= start].max())
    reach = REACH * (1 + int(baseline.layers.is_extra.sum()))  # each extra layer has a loss of its own
    for kernel in (np.flatnonzero(outside[begin:start]) + begin)[::-1].tolist():
        readers = baseline.followers(kernel)
        is_near = kernel > start - reach
        behind = [reader for reader in readers if is_near and reader >= start and reader not in tail]
        if baseline.rows_of(kernel) and readers and all(reader in late or reader in behind for reader in readers):
            late.insert(0, kernel)
            last = min([last, *behind])
    return late, last
