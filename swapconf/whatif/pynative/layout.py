"""BLOCKS + INTERVALS -> BLOCKS with what a recomputed or swapped part changes of their lives.

A recomputed part keeps nothing of what autograd saved in it: such a block dies behind its last forward user, and when
the backward pass asks for the first of them, the part runs once more, and what was saved lives from then to its death
in the backward pass. What others use of it stays, and so do its inputs, until it has run again. Source: MindSpore
2.10.0, common/recompute.py, ``use_reentrant=False``.

A swapped layer's saved blocks leave when the forward pass of the layer that is ``prefetch`` further ends, and come back
when its backward pass begins. Source: hyper_parallel of 2026, core/activation_checkpoint/swap.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.lifetimes import NEVER, TICKS, Category
from swapconf.trace.marks import NO_KERNELS
from swapconf.trace.trace import Trace
from swapconf.whatif.pynative.intervals import Interval, Step


@dataclass(frozen=True, slots=True)
class Again:
    """A block that is there once more: ``row`` of the trace, from ``start`` to ``end`` in ticks."""

    row: int
    start: int
    end: int
    category: Category
    layer: int


@dataclass(slots=True)
class Move:
    """A block that goes to the host: ``row``, out at ``leaves``, back at ``returns``, in ticks."""

    row: int
    layer: int
    leaves: int
    returns: int


@dataclass(frozen=True, slots=True)
class _Replay:
    """Times of what runs once more just before the task ``turn``, in the order of the first time."""

    start: int
    turn: int

    def at(self, event: int) -> int:
        return self.turn * TICKS - TICKS // 2 + min(event - self.start, TICKS // 2 - 1)


@dataclass(slots=True)
class Changes:
    """``end``: int64 [n], in ticks, of each device block; NEVER stays."""

    end: NDArray[np.int64]
    again: list[Again] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    kernels: dict[int, int] = field(default_factory=dict)
    _back: dict[int, int] = field(default_factory=dict)  # row -> which of ``again`` came back last

    def move(self, move: Move, end: int) -> None:
        """``end``: the event of the block's release in the trace. What several layers saved moves with the first."""
        ticks = NEVER if end == NEVER else end * TICKS
        last = self._back.get(move.row)
        if last is not None and self.again[last].start > move.leaves:
            return
        if last is None:
            self.end[move.row] = min(int(self.end[move.row]), move.leaves)
        else:
            self.again[last] = replace(self.again[last], end=move.leaves)
        self._back[move.row] = len(self.again)
        self.again.append(Again(move.row, move.returns, ticks, Category.SWAP, move.layer))
        self.moves.append(move)


_OUTPUT = 2  # an operator's outputs get memory behind it in the tracker's order


class Layout:
    """The device blocks of a trace, for one set of changes after another."""

    def __init__(self, trace: Trace) -> None:
        blocks = trace.blocks
        self.rows = np.flatnonzero(~blocks.on_host)
        self.start, self.end = blocks.start[self.rows], blocks.end[self.rows]
        self.size_bytes = blocks.size_bytes[self.rows]
        self._users = [
            np.sort(blocks.users[blocks.user_offsets[row] : blocks.user_offsets[row + 1]]) for row in self.rows
        ]
        self._masks = _masks(trace)
        self._views = _views(trace)
        self._first_step = int(trace.passes.steps[0]) if len(trace.passes.steps) else 0
        self.tasks = np.array([task.event for task in trace.tasks], dtype=np.int64)
        kernels = [task.event for task in trace.tasks if not task.primitive.endswith(NO_KERNELS)]
        self._kernels = np.array(kernels, dtype=np.int64)

    def unchanged(self) -> Changes:
        return Changes(np.where(self.end == NEVER, NEVER, self.end * np.where(self.end == NEVER, 1, TICKS)))

    def recompute(self, changes: Changes, step: Step, part: Interval) -> None:
        """``part``: that runs once more."""
        inside = range(*np.searchsorted(self.start, [part.start, part.end]).tolist())
        saved = frozenset(row for row in inside if self._is_saved(row, step))
        inner = [row for row in saved if not self._is_used_behind(row, part.end, step)]
        turns = [self._first_user(row, step.backward) for row in inner or saved]
        turn = min((event for event in turns if event is not None), default=None)
        if turn is None:
            return
        needed = frozenset(row for row in saved if self.end[row] > turn)
        stop = max(max(int(self.start[row]), self._last_user(row, part.end)) for row in needed)
        replayed = _Replay(part.start, turn)
        for row in inside:
            start, end = int(self.start[row]), int(self.end[row])
            if row in needed:
                is_used = self._is_used_behind(row, part.end, step)
                last = self._last_user(row, turn - 1 if is_used else part.end)
                changes.end[row] = min(changes.end[row], self._behind(max(last, start)))
                changes.again.append(Again(row, replayed.at(start), end * TICKS, Category.RECOMPUTED, part.layer))
            elif start <= stop + _OUTPUT:
                gone = replayed.at(min(end, part.end))
                changes.again.append(Again(row, replayed.at(start), gone, Category.RECOMPUTED, part.layer))
        self._hold_inputs(changes, step, part, max(int(self.end[row]) for row in needed))
        changes.kernels[part.layer] = changes.kernels.get(part.layer, 0) + int(
            np.searchsorted(self._kernels, stop, side="right") - np.searchsorted(self._kernels, part.start)
        )

    def swap(self, changes: Changes, step: Step, part: Interval, target: Interval) -> None:
        """``part``: the layer whose saved blocks move. ``target``: the layer that says when."""
        turn, own = step.turns.get(target.layer), step.turns.get(part.layer)
        if turn is None or own is None:
            return
        until = min((event for event in step.turns.values() if event > own), default=step.end)
        leaves, returns = target.end * TICKS + 1, turn * TICKS + 1
        for row in self._moved_rows(step, part, own, until):
            changes.move(Move(row, part.layer, leaves, returns), int(self.end[row]))

    def _moved_rows(self, step: Step, part: Interval, own: int, until: int) -> Iterator[int]:
        """``own``, ``until``: where the layer's backward pass begins and the next one's."""
        for row in range(*np.searchsorted(self.start, [step.start, part.end]).tolist()):
            if int(self.start[row]) in self._masks or not self._is_saved(row, step):
                continue
            is_own = self.start[row] > part.start
            stays = is_own and not self._is_used_behind(row, part.end, step)
            is_used = is_own or self._is_used(row, part.start, part.end)
            if stays or (is_used and self._is_used(row, own, until)):
                yield row
        views = self._views[
            np.searchsorted(self._views[:, 0], part.start) : np.searchsorted(self._views[:, 0], part.end)
        ]
        for birth in np.unique(views[:, 1]).tolist():
            row = int(np.searchsorted(self.start, birth))
            is_weight = birth < self._first_step and row < len(self.start) and self.start[row] == birth
            if is_weight and self._is_used(row, own, until):  # a view of a parameter is no parameter
                yield row

    def _hold_inputs(self, changes: Changes, step: Step, part: Interval, last: int) -> None:
        """What a part reads has to be there until it has run again."""
        for row in range(*np.searchsorted(self.start, [step.start, part.start]).tolist()):
            if part.start < self.end[row] < last and self._is_used(row, part.start, part.end):
                changes.end[row] = max(changes.end[row], last * TICKS)

    def _is_saved(self, row: int, step: Step) -> bool:
        """For the backward pass, which lets go of it."""
        return bool(step.backward < self.end[row] <= step.end)

    def _first_user(self, row: int, event: int) -> int | None:
        """The first behind an event."""
        users = self._users[row]
        place = int(np.searchsorted(users, event, side="right"))
        return int(users[place]) if place < len(users) else None

    def _last_user(self, row: int, event: int) -> int:
        """The last up to an event, -1 without one."""
        users = self._users[row]
        place = int(np.searchsorted(users, event, side="right"))
        return int(users[place - 1]) if place else -1

    def _is_used(self, row: int, start: int, end: int) -> bool:
        """Behind ``start`` and up to ``end``."""
        return start < self._last_user(row, end)

    def _is_used_behind(self, row: int, event: int, step: Step) -> bool:
        """Whether something of the forward pass behind an event uses it."""
        return self._is_used(row, event, step.backward)

    def _behind(self, event: int) -> int:
        """Ticks: before the next task behind one."""
        place = int(np.searchsorted(self.tasks, event, side="right"))
        return int(self.tasks[place] if place < len(self.tasks) else event + 1) * TICKS - TICKS // 2


def _masks(trace: Trace) -> frozenset[int]:
    """Births of the blocks that mindformers never moves: attention masks. Source: mindformers 2.0.0,
    pynative/distributed/activation_checkpoint.py, _build_policy_fn_swap."""
    return frozenset(
        block
        for task in trace.tasks
        for block, tensor in zip(task.outputs, task.output_tensors, strict=False)
        if tensor.dtype == "UInt8" and len(tensor.shape) == 4 and tensor.shape[1] == 1
    )


def _views(trace: Trace) -> NDArray[np.int64]:
    """(task, birth of its block) of each view, in order; a view writes the tensor that it reads."""
    found = [(task.event, block) for task in trace.tasks for block in task.outputs if block in task.inputs]
    return np.array(found, dtype=np.int64).reshape(-1, 2)
