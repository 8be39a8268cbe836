"""TRACE -> WORKSPACE, and TRACE + WORKSPACE -> TRACE: the same run with the workspace of its kernels in memory.

A block of workspace is born behind the outputs of its launch and released before anything that the launch used is, so
that inputs, outputs and workspace are held at once. To make room for these events all events of the trace are
multiplied by `SPREAD`; ids of tensors are events, and move with them. Every block is placed anew by MindSpore's rules,
because workspace changes where the others go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from swapconf.memory import addresses
from swapconf.memory.allocators import mindspore
from swapconf.memory.cann.card import A2, Card
from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.memory.workspace_rules import RULES, is_fused, workspace_bytes
from swapconf.trace.blocks import Block, Blocks
from swapconf.trace.lifetimes import UNTOLD, PoolRecord
from swapconf.trace.trace import Task, Trace
from swapconf.trace.workspace import KIND, Basis, Rule, Workspace

SPREAD = 4
_GRAIN_BYTES, _TAIL_BYTES = 512, 32  # as of the blocks of tensors, measured with MindSpore 2.9.0
_RECORDED = Rule(
    name="recorded",
    operators="all",
    formula="as the memory tracker recorded it",
    basis=Basis.TRACE,
    source="memory_block.csv, rows of type WorkSpace",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Grown:
    """``trace``: with the workspace in it. ``reserved_bytes``: what MindSpore's pool takes of the device for it."""

    trace: Trace
    workspace: Workspace
    reserved_bytes: int


def workspace(trace: Trace, card: Card = A2) -> Workspace:
    """What is recorded, if anything is; else an estimate for every launch on a card. Raises ValueError where the trace
    has no graph, which tells shapes."""
    if KIND in trace.blocks.kinds:
        return _recorded(trace)
    if not trace.tasks:
        raise ValueError(trace.why_no_graph)
    rules = tuple(RULES.values())
    index = {name: place for place, name in enumerate(RULES)}
    known: dict[tuple[str, int, int], tuple[str, int]] = {}
    unknown: set[str] = set()
    found: list[tuple[int, int, int]] = []
    for task in trace.tasks:
        if task.is_kernel:
            # by id: readers keep equal lists once, and the trace keeps them alive; to hash all shapes takes longer
            key = (task.primitive, id(task.input_tensors), id(task.output_tensors))
            if key not in known:
                known[key] = workspace_bytes(task.primitive, task.input_tensors, task.output_tensors, card)
            name, size = known[key]
            if name and RULES[name].basis is Basis.UNKNOWN:
                unknown.add(task.primitive)
            if size:
                found.append((task.event, size, index[name]))
    event, size_bytes, rule = zip(*found, strict=True) if found else ((), (), ())
    return Workspace(
        event=np.array(event, dtype=np.int64),
        size_bytes=np.array(size_bytes, dtype=np.int64),
        rule=np.array(rule, dtype=np.uint8),
        rules=rules,
        unknown=tuple(sorted(unknown)),
    )


def _recorded(trace: Trace) -> Workspace:
    """A dry run asks CANN, which says nothing for kernels that others built: of several in one that is not known."""
    rows = np.flatnonzero(trace.blocks.kind == trace.blocks.kinds.index(KIND))
    told = set(trace.blocks.task[rows].tolist())
    silent = {task.primitive for task in trace.tasks if is_fused(task.primitive) and task.event not in told}
    return Workspace(
        event=trace.blocks.task[rows],
        size_bytes=trace.blocks.size_bytes[rows],
        rule=np.zeros(len(rows), dtype=np.uint8),
        rules=(_RECORDED,),
        unknown=tuple(sorted(silent)),
    )


def grow(trace: Trace, reported: PoolRecord = UNTOLD, card: Card = A2) -> Grown:
    """The trace with estimated workspace in it. One that has it recorded stays as it is. ``reported``: what its run
    said of the pool. Raises ValueError where the trace has no graph."""
    needed = workspace(trace, card)
    placed = replay(trace, lifetimes(trace), reported)
    if needed.rules == (_RECORDED,):
        return Grown(trace=trace, workspace=needed, reserved_bytes=placed.placement.reserved_bytes)
    tasks = {task.event: task for task in trace.tasks}
    rows = [
        *map(_spread, trace.blocks),
        *(
            _block(tasks[event], size)
            for event, size in zip(needed.event.tolist(), needed.size_bytes.tolist(), strict=True)
        ),
    ]
    rows.sort(key=lambda row: row.start)
    grown = replace(trace, blocks=Blocks.of(rows), tasks=tuple(map(_spread_task, trace.tasks)))
    live = lifetimes(grown)
    placement = mindspore.place(live, placed.pool)
    return Grown(
        trace=replace(grown, blocks=addresses.with_addresses(grown.blocks, live, placement)),
        workspace=needed,
        reserved_bytes=placement.reserved_bytes,
    )


def _spread(row: Block) -> Block:
    return replace(
        row,
        start=row.start * SPREAD,
        end=None if row.end is None else row.end * SPREAD,
        task=None if row.task is None else row.task * SPREAD,
        users=tuple(user * SPREAD for user in row.users),
    )


def _spread_task(task: Task) -> Task:
    return replace(
        task,
        event=task.event * SPREAD,
        inputs=tuple(item * SPREAD for item in task.inputs),
        outputs=tuple(item * SPREAD for item in task.outputs),
    )


def _block(task: Task, size_bytes: int) -> Block:
    """Addresses and sums are still to come."""
    event = task.event * SPREAD
    return Block(
        start=event + 1,
        end=event + 2,
        address=0,
        kind=KIND,
        pool="DefaultEnhancedAscendMemoryPool",
        task=event,
        size_bytes=-(-(size_bytes + _TAIL_BYTES) // _GRAIN_BYTES) * _GRAIN_BYTES,
        stream=0,
        task_name=task.name,
        node=task.name,
        users=(event,),
        is_persistent=False,
        used_bytes=0,
        pool_peak_bytes=0,
    )
