"""TRACE -> LAYOUT: the device blocks of a PyNative run as columns, and who uses them when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.marked_lifetimes import GATHERING
from swapconf.trace.lifetimes import NEVER, TICKS
from swapconf.trace.marks import NO_KERNELS
from swapconf.trace.trace import Trace
from swapconf.trace.work import COMMUNICATING
from swapconf.upstream.facts import Versions
from swapconf.whatif.pynative.changes import Changes
from swapconf.whatif.pynative.dispatches import Dispatches
from swapconf.whatif.pynative.gathers import Gathers
from swapconf.whatif.pynative.intervals import Interval, Step

POOL_BYTES = 1024  # no block is as much larger than its tensor
_ATTENTION = "FlashAttentionScore"
_SCATTERING = "InplaceScatterSrc"  # the gradient of a top-k
_SORTING = ("ArgSort",)  # a sort whose values nobody gets
_EXCHANGING = "InnerComm"  # mindspore.ops.communication, which layers call, and their gradients
_OF_SHARDS = (GATHERING, "DistCommReduceScatter")  # mint.distributed, which fully_shard takes


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs between releases of mindformers. ``runs_to_end``: whole layers that run again do not stop where the
    last was saved; ``keeps_inputs``: a swap leaves alone what all layers are given, as angles."""

    runs_to_end: bool = False
    keeps_inputs: bool = False

    @classmethod
    def of(cls, versions: Versions) -> Rules:
        told = (versions.fact(f"native_{name}").value for name in ("layer_runs_to_its_end", "swap_keeps_inputs"))
        return cls(*map(bool, told))


EARLIEST = Rules()


class Layout:
    """The device blocks of a trace, a row each, for one set of changes after another.

    ``start``, ``end``, ``size_bytes``: int64 [n]. ``value_bytes``: int64 [n], of the tensor in it, without what the
    pool adds; what moves to the host. ``masks``: births of blocks that never move. ``gathers``: of parameters that are
    whole for a while. ``of_shards``: bool [n], what they and their reduced gradients are in. ``sent``: births of what
    an operator made that communicates and has a gradient. ``views``: int64 [m, 2], (task, birth of its block) of each
    view.
    """

    def __init__(self, trace: Trace, steps: Sequence[Step] = (), rules: Rules = EARLIEST) -> None:
        blocks, self.rules = trace.blocks, rules
        self.rows = np.flatnonzero(~blocks.on_host)
        self.start, self.end = blocks.start[self.rows], blocks.end[self.rows]
        self.size_bytes = blocks.size_bytes[self.rows]
        users, offsets = _users(trace, self.rows)
        self._users = np.split(users, offsets[1:-1])
        order = np.argsort(users, kind="stable")
        self._use = users[order]
        self._use_row = np.repeat(np.arange(len(self.rows)), np.diff(offsets))[order]
        self.value_bytes = _value_bytes(trace, self.start, self.size_bytes)
        self._first_output = {
            birth: task.outputs[0] for task in trace.tasks if len(task.outputs) > 1 for birth in task.outputs[1:]
        }
        self._orders = _made_by(trace, _SORTING)
        self._outputs = {task.event: task.outputs for task in trace.tasks if task.outputs}
        self._picking = _picking(trace)
        self._scattered = _scattered(trace)
        self._picked_with = _picked_with(trace)
        self.masks = _masks(trace)
        self.gathers, self.dispatches = Gathers(trace), Dispatches(trace, steps)
        self.of_shards = np.isin(self.start, sorted(_made_by(trace, _OF_SHARDS) | self.gathers.births))
        self.sent = _made_by(trace, COMMUNICATING) - _made_by(trace, _OF_SHARDS)
        self.views = _views(trace)
        self.first_step = int(trace.passes.steps[0]) if len(trace.passes.steps) else 0
        self._tasks = np.array([task.event for task in trace.tasks], dtype=np.int64)
        sending = [task.event for task in trace.tasks if task.primitive.startswith(_EXCHANGING)]
        self._exchanges = np.array(sending, dtype=np.int64)
        attention = [task.outputs for task in trace.tasks if task.primitive == _ATTENTION and len(task.outputs) > 1]
        self.softmax_maxima, self.softmax_sums = (frozenset(made[place] for made in attention) for place in (0, 1))
        kernels = [task.event for task in trace.tasks if not task.primitive.endswith(NO_KERNELS)]
        self._kernels = np.array(kernels, dtype=np.int64)

    def row(self, birth: int) -> int | None:
        """Of the block that was made there; None of what is not on the device."""
        place = int(np.searchsorted(self.start, birth))
        return place if place < len(self.start) and self.start[place] == birth else None

    def unchanged(self) -> Changes:
        return Changes(np.where(self.end == NEVER, NEVER, self.end * np.where(self.end == NEVER, 1, TICKS)))

    def born(self, start: int, end: int) -> range:
        """The rows between two marks. A task has the number of the last block before it."""
        return range(*np.searchsorted(self.start, [start, end], side="right").tolist())

    def touched(self, part: Interval) -> set[int]:
        """The rows that a forward pass makes or uses."""
        first, last = np.searchsorted(self._use, [part.start, part.end]).tolist()
        return {*self._use_row[first:last].tolist(), *self.born(part.start, part.end)}

    def num_kernels(self, start: int, end: int) -> int:
        """Between two events, the second included."""
        first = np.searchsorted(self._kernels, start)
        return int(np.searchsorted(self._kernels, end, side="right") - first)

    def is_saved(self, row: int, step: Step) -> bool:
        """For the backward pass, which lets go of it."""
        return bool(step.backward < self.end[row] <= step.end)

    def is_whole_parameter(self, row: int, step: Step) -> bool:
        """Gathered from shards, and held from the forward pass to the backward pass by the unit that it belongs to,
        whatever autograd saves."""
        return int(self.start[row]) in self.gathers.births and self.is_saved(row, step)

    def first_user(self, row: int, start: int, end: int) -> int | None:
        """The first behind ``start`` and up to ``end``."""
        users = self._users[row]
        place = int(np.searchsorted(users, start, side="right"))
        return int(users[place]) if place < len(users) and users[place] <= end else None

    def last_user(self, row: int, event: int) -> int:
        """The last up to an event, -1 without one."""
        users = self._users[row]
        place = int(np.searchsorted(users, event, side="right"))
        return int(users[place - 1]) if place else -1

    def is_used(self, row: int, start: int, end: int) -> bool:
        """Behind ``start`` and up to ``end``."""
        return start < self.last_user(row, end)

    def gets_no_gradient(self, row: int, turn: int, end: int) -> bool:
        """Whether it only picks, as indices and masks do, for operators that no gradient reaches: the backward pass
        does not read it, or its operator's values are not used and what scatters their gradient does not read it, as it
        does with zeros where the indices lead to something that has one. ``turn``, ``end``: of that backward pass."""
        if int(self.start[row]) not in self._picking:
            return False
        if not self.is_used(row, turn, end) or int(self.start[row]) in self._orders:
            return True
        first = self._first_output.get(int(self.start[row]))
        if first is None or any(turn < event <= end for event in self._scattered.get(int(self.start[row]), ())):
            return False
        other = self.row(first)
        return other is not None and len(self._users[other]) == 0

    def first_exchange(self, start: int, end: int) -> int | None:
        """The first task between two events that communicates for a gradient."""
        place = int(np.searchsorted(self._exchanges, start, side="right"))
        return int(self._exchanges[place]) if place < len(self._exchanges) and self._exchanges[place] <= end else None

    def before(self, event: int) -> int:
        """The event of a task, or of the first block that it makes: some operators get memory for it before."""
        return event - 1 if event - 1 in self._outputs.get(event, ()) else event

    def is_never_let_go(self, row: int, turn: int, end: int) -> bool:
        """Whether it gets no gradient and is held by an operator that holds itself, as it saved what it picked: by its
        own, or by what it is picked from with this. Other operators without a gradient go with those that they lead
        to."""
        if not self.gets_no_gradient(row, turn, end):
            return False
        birth = int(self.start[row])
        picked = self._picked_with.get(birth, frozenset())
        rows = np.searchsorted(self.start, sorted(picked)).tolist()
        return (
            self.is_saved_by_its_own(birth)
            or birth in self._orders
            or any(self.gets_no_gradient(one, turn, end) for one in rows)
        )

    def is_saved_by_its_own(self, birth: int) -> bool:
        """Whether the operator that makes it may save it, as a top-k does its indices."""
        return birth in self._first_output

    def behind(self, event: int) -> int:
        """Ticks: before the next task behind one."""
        place = int(np.searchsorted(self._tasks, event, side="right"))
        return int(self._tasks[place] if place < len(self._tasks) else event + 1) * TICKS - TICKS // 2


def _users(trace: Trace, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(int64 [m], who uses each of these blocks, ascending and once, without marks; int64 [n + 1], where those of each
    begin)."""
    blocks, marks = trace.blocks, np.array([mark.event for mark in trace.marks], dtype=np.int64)
    counts = np.diff(blocks.user_offsets)
    place_of = np.full(len(counts), -1, dtype=np.int64)
    place_of[rows] = np.arange(len(rows))
    place = np.repeat(place_of, counts)
    is_told = (place >= 0) & ~np.isin(blocks.users, marks)
    users, place = blocks.users[is_told], place[is_told]
    order = np.lexsort((users, place))
    users, place = users[order], place[order]
    is_first = np.ones(len(users), dtype=np.bool_)
    is_first[1:] = (np.diff(users) != 0) | (np.diff(place) != 0)
    return users[is_first], np.searchsorted(place[is_first], np.arange(len(rows) + 1))


def _value_bytes(trace: Trace, start: NDArray[np.int64], size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """A block is a little larger than its tensor; which of those that a task writes it is, its size says."""
    row_of = dict(zip(start.tolist(), range(len(start)), strict=True))
    found = np.zeros(len(start), dtype=np.int64)
    for task in trace.tasks:
        sizes = {tensor.size_bytes or 0 for tensor in set(task.output_tensors)}  # a split has hundreds of one shape
        for block in task.outputs:
            row = row_of.get(block)
            if row is not None:
                fitting = (size for size in sizes if size <= size_bytes[row] < size + POOL_BYTES)
                found[row] = max(found[row], *fitting, 0)
    return np.where(found > 0, found, size_bytes)


def _picking(trace: Trace) -> frozenset[int]:
    """Births of the blocks that hold whole numbers or truth values."""
    first: dict[int, str] = {}
    for task in trace.tasks:
        for block, tensor in zip(task.outputs, task.output_tensors, strict=False):
            first.setdefault(block, tensor.dtype)
    return frozenset(block for block, dtype in first.items() if dtype.startswith(("Int", "UInt", "Bool")))


def _scattered(trace: Trace) -> dict[int, list[int]]:
    """By birth of indices the events of tasks that scatter a gradient by them."""
    found: dict[int, list[int]] = {}
    for task in trace.tasks:
        if task.primitive == _SCATTERING:
            for block in task.inputs:
                found.setdefault(block, []).append(task.event)
    return found


def _picked_with(trace: Trace) -> dict[int, frozenset[int]]:
    """By birth of a block that went into what something was picked from: births of what was picked."""
    made_from: dict[int, tuple[int, ...]] = {}
    found: dict[int, frozenset[int]] = {}
    for task in trace.tasks:
        if len(task.outputs) > 1:
            for block in (one for source in task.inputs for one in made_from.get(source, ())):
                found[block] = found.get(block, frozenset()).union(task.outputs[1:])
        for block in task.outputs:
            before = made_from.get(block, ()) if block in task.inputs else ()
            made_from[block] = (*before, *(one for one in task.inputs if one != block))
    return found


def _masks(trace: Trace) -> frozenset[int]:
    """Attention masks. Source: mindformers 2.0.0, pynative/distributed/activation_checkpoint.py,
    _build_policy_fn_swap."""
    return frozenset(
        block
        for task in trace.tasks
        for block, tensor in zip(task.outputs, task.output_tensors, strict=False)
        if tensor.dtype == "UInt8" and len(tensor.shape) == 4 and tensor.shape[1] == 1
    )


def _made_by(trace: Trace, prefixes: tuple[str, ...]) -> frozenset[int]:
    """Births of the blocks that operators of such names write."""
    return frozenset(block for task in trace.tasks if task.primitive.startswith(prefixes) for block in task.outputs)


def _views(trace: Trace) -> NDArray[np.int64]:
    """In order; a view writes the tensor that it reads."""
    found = [(task.event, block) for task in trace.tasks for block in task.outputs if block in task.inputs]
    return np.array(found, dtype=np.int64).reshape(-1, 2)
