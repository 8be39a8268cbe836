"""SCHEDULE -> PROGRAM: one step as a strategy would run it, from the step without swap and recompute.

What waits for what, measured with MindSpore 2.9.0 on the events of its traces:

- Copies to the host have a stream of their own, copies back another one.
- Whatever is launched on another stream waits for all that the main stream was given before, not just for the kernel
  that makes its input.
- A copy back waits for all copies to the host launched before it, too; its own is among them.
- A copy back never starts before the first gradient kernel behind the forward pass that made its tensor, however large
  its prefetch.
- The first kernel that reads a copy back waits for it; the first kernel of the main stream that reads what a collective
  made waits for that one.
- The main stream waits for a copy to the host, so that the device memory can be released: from the first of its own
  kernels on that stands 3 * backward_prefetch or more kernels behind the copy (copies and collectives count). The
  wait falls before its next kernel, and a collective launched in between waits, too.
- What runs again waits, and is waited for, like what it repeats. A collective stays on its stream.
- Casts of weights that run at the start of a micro-batch have the copy to the host right behind them, one by one.
- Copies back that are due at the same moment run in the opposite order of their copies to the host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.timing import COLLECTIVE, TO_DEVICE, TO_HOST, Program, Waits
from swapconf.trace.blocks import ranges
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import NEVER
from swapconf.whatif.baseline_step import Step
from swapconf.whatif.predict import LaunchPlan
from swapconf.whatif.prediction import Moves
from swapconf.whatif.slots import born_at

_Pairs = tuple[Ints, Ints]  # (waiter, awaited), of equal length
_KERNEL, _AGAIN, _OUT, _BACK = range(4)


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """``row``: int64 [n], which row of `baseline_step.table` tells the cost of each kernel. ``move``: int64 [n], which
    of the Moves each copy belongs to, -1 for all other kernels."""

    program: Program
    row: Ints
    move: Ints


@dataclass(frozen=True, kw_only=True)
class _Launches:
    """All that is launched in a step, as columns in the order of launches.

    Attributes:
        part: One of the four constants above.
        source: The kernel of the step that it is, repeats, or copies the output of.
        move: The window of a copy, else -1.
        kernel_at: [k] when each kernel of the step is launched, ``again_at``: [k] when it is launched again, -1 for
            never.
        out_at, back_at: [moves], -1 for those of other steps, and where nothing reads the tensor.
        is_main: On the main stream.
    """

    position: Ints
    part: Ints
    source: Ints
    move: Ints
    kernel_at: Ints
    again_at: Ints
    out_at: Ints
    back_at: Ints
    is_main: Flags

    @property
    def main(self) -> Ints:
        """The launches on the main stream, ascending."""
        return np.flatnonzero(self.is_main)


def predicted_program(step: Step, schedule: LaunchPlan, moves: Moves) -> Predicted:
    """``moves``: those of the same schedule, row by row."""
    base, launches = step.program, _launches(step, schedule)
    part, source, move = launches.part, launches.source, launches.move
    out, back = np.flatnonzero(part == _OUT), np.flatnonzero(part == _BACK)
    stream, kind, row = base.stream[source], base.kind[source], source.copy()
    freed = np.full(len(part), NEVER, dtype=np.int64)
    free = int(base.stream.max(initial=0)) + 1
    stream[out], kind[out], row[out] = free, TO_HOST, len(base) + schedule.windows.row[move[out]]
    stream[back], kind[back] = free + 1, TO_DEVICE
    row[back] = len(base) + len(step.tensors) + schedule.windows.row[move[back]]
    freed[out] = moves.released[move[out]]
    pairs = _joined(
        _order(launches),
        _kept(step, launches),
        _readers(step, schedule, launches),
        _copies(schedule, launches),
        _releases(schedule, launches, kind),
    )
    return Predicted(
        row=row,
        move=move,
        program=Program(
            names=tuple(step.labels[part, source].tolist()),
            stream=stream,
            kind=kind,
            waits=_waits(stream, pairs),
            freed=freed,
            event=born_at(step.baseline, launches.position),
        ),
    )


def _launches(step: Step, schedule: LaunchPlan) -> _Launches:
    program, windows, twin = schedule.program, schedule.windows, step.baseline.twin
    again = np.flatnonzero((step.item[program.copies] >= 0) & (twin[program.copies] < 0))
    where, copied = _in_turn(schedule)
    out = np.flatnonzero(step.item[windows.face] >= 0)
    out = out[np.argsort(-copied[out], kind="stable")]
    back = out[~windows.unread[out]]
    position = np.concatenate([where[step.kernel], program.inserted[again], copied[out], windows.returned[back]])
    order = np.argsort(position, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    parts = (
        np.arange(len(step.kernel)),
        step.item[program.copies[again]],
        step.item[windows.face[out]],
        step.item[windows.face[back]],
    )
    source, part = np.concatenate(parts), np.repeat([_KERNEL, _AGAIN, _OUT, _BACK], [len(items) for items in parts])
    move = np.concatenate([np.full(len(step.kernel) + len(again), -1, dtype=np.int64), out, back])
    again_at, out_at, back_at = (
        np.full(count, -1, dtype=np.int64) for count in (len(step.kernel), len(windows.face), len(windows.face))
    )
    again_at[parts[_AGAIN]] = rank[part == _AGAIN]
    out_at[out], back_at[back] = rank[part == _OUT], rank[part == _BACK]
    is_main = (part <= _AGAIN) & (step.program.stream[source] == step.program.main_stream)
    return _Launches(
        position=position[order],
        part=part[order],
        source=source[order],
        move=move[order],
        is_main=is_main[order],
        kernel_at=rank[: len(step.kernel)],
        again_at=again_at,
        out_at=out_at,
        back_at=back_at,
    )


def _in_turn(schedule: LaunchPlan) -> tuple[Ints, Ints]:
    """(positions of the kernels of the baseline, of copies to the host): what runs at the start of a micro-batch only
    to be copied does so in turn, each with its copy right behind it."""
    windows, where, copied = schedule.windows, schedule.program.where.copy(), schedule.windows.copied.copy()
    early = np.flatnonzero(windows.early)
    early = early[np.lexsort((windows.face[early], copied[early]))]
    _, first, turn = np.unique(copied[early], return_index=True, return_inverse=True)
    copied[early] += 4 * (np.arange(len(early)) - first[turn])
    where[windows.face[early]] = copied[early] - 1
    return where, copied


def _order(launches: _Launches) -> _Pairs:
    """Other streams wait for the main stream."""
    before = np.maximum.accumulate(np.where(launches.is_main, np.arange(len(launches.is_main)), -1))
    others = np.flatnonzero(~launches.is_main & (before >= 0))
    return others, before[others]


def _kept(step: Step, launches: _Launches) -> _Pairs:
    """What waits in the baseline waits here, and so does what runs again, for what runs again where that does."""
    waiter, awaited = step.program.waits.waiter, step.program.waits.awaited
    talking = step.program.stream[awaited] != step.program.main_stream
    waiter, awaited = waiter[talking], awaited[talking]
    twice = launches.again_at[waiter] >= 0
    once, repeated = waiter[twice], awaited[twice]
    latest = np.where(launches.again_at[repeated] >= 0, launches.again_at[repeated], launches.kernel_at[repeated])
    return (
        np.concatenate([launches.kernel_at[waiter], launches.again_at[once]]),
        np.concatenate([launches.kernel_at[awaited], latest]),
    )


def _readers(step: Step, schedule: LaunchPlan, launches: _Launches) -> _Pairs:
    """The first kernel of the main stream that reads what a collective made, which may not be that of the baseline."""
    program, baseline = schedule.program, step.baseline
    maker = step.item[np.concatenate([baseline.maker, baseline.maker[program.origin]])[program.block]]
    uses = np.flatnonzero((maker >= 0) & (step.program.stream[maker] != step.program.main_stream))
    maker, repeated = maker[uses], program.block[uses] >= len(baseline.maker)
    reader = _launched_at(launches, program.position[uses])
    made_at = np.where(repeated, launches.again_at[maker], launches.kernel_at[maker])
    usable = launches.is_main[reader] & (made_at >= 0)
    reader, made_at = reader[usable], made_at[usable]
    first = np.full(len(launches.position), NEVER, dtype=np.int64)
    np.minimum.at(first, made_at, reader)
    made_at = np.flatnonzero(first < NEVER)
    return first[made_at], made_at


def _copies(schedule: LaunchPlan, launches: _Launches) -> _Pairs:
    """Copies back wait for copies to the host, and readers for copies back."""
    returning = np.flatnonzero(launches.back_at >= 0)
    out, back = launches.out_at[returning], launches.back_at[returning]
    number = np.arange(len(launches.part))
    latest = np.maximum.accumulate(np.where(launches.part == _OUT, number, -1))[back]
    reader = _launched_at(launches, schedule.windows.used[returning])
    return np.concatenate([back, back, reader]), np.concatenate([out, latest, back])


def _releases(schedule: LaunchPlan, launches: _Launches, kind: NDArray[np.uint8]) -> _Pairs:
    """The main stream, and collectives launched before its next kernel, wait for copies to the host."""
    main, out_at = launches.main, launches.out_at
    moving = np.flatnonzero(out_at >= 0)
    due = out_at[moving] + 3 * schedule.windows.prefetch[moving]
    follower = np.searchsorted(main, due) + 1
    order = np.argsort(follower, kind="stable")
    moving, follower = moving[order], follower[order]
    inside = follower < len(main)
    talking = np.flatnonzero((kind == COLLECTIVE) & ~launches.is_main)
    behind = np.searchsorted(main, talking)
    first = np.searchsorted(follower, behind)
    count = np.searchsorted(follower, behind, side="right") - first
    handed = ranges(first, count)
    return (
        np.concatenate([main[follower[inside]], np.repeat(talking, count)]),
        np.concatenate([out_at[moving[inside]], out_at[moving[handed]]]),
    )


def _launched_at(launches: _Launches, position: Ints) -> Ints:
    """The kernel that stands at each position."""
    kernels = np.flatnonzero(launches.part <= _AGAIN)
    place = np.searchsorted(launches.position[kernels], position)
    return np.asarray(kernels[np.minimum(place, len(kernels) - 1)])


def _joined(*pairs: _Pairs) -> _Pairs:
    return np.concatenate([waiter for waiter, _ in pairs]), np.concatenate([awaited for _, awaited in pairs])


def _waits(stream: NDArray[np.int32], pairs: _Pairs) -> Waits:
    """Without those for the own stream, and for what is launched later because it has moved."""
    waiter, awaited = pairs
    real = (awaited < waiter) & (stream[awaited] != stream[waiter])
    return Waits.of_pairs(waiter[real], awaited[real], len(stream))
