"""TRACE -> TRACE whose launches of one kind that follow each other, and need nothing of each other, come in order.

MindSpore 2.9.0 launches the ``TensorMove`` of several parameters one behind the other, in an order that differs from
graph to graph (measured: Llama with 4, 6 and 8 layers, DeepSeek-V3 with 4 and 6). Which of the ``AddN`` of the aux
losses of Qwen3-MoE is launched when, all alike, is only told by the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np

from swapconf.dryrun.growing.layers import layer_in, with_layer
from swapconf.memory.addresses import used_bytes
from swapconf.trace.blocks import Blocks, offsets, ranges
from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import Kernel, Task, Trace
from swapconf.upstream.primitives import MOVE

_BEHIND = 1 << 30  # what belongs to no layer


def settled(trace: Trace) -> Trace:
    """The same launches; only those of one row of copies take each other's places, and events."""
    known = {
        int(start): trace.blocks.nodes[node]
        for start, node, is_early in zip(
            trace.blocks.start.tolist(), trace.blocks.node.tolist(), trace.blocks.is_persistent.tolist(), strict=True
        )
        if is_early
    }
    return _sorted(trace, lambda task: _key(task, known), (MOVE,))


def arranged(trace: Trace, order: Sequence[str]) -> Trace:
    """The same of all primitives, in the order that MindSpore launches the kernels of a step in, by name."""
    turn = {name: (place, name) for place, name in enumerate(order)}
    return _sorted(trace, lambda task: turn.get(task.name, (_BEHIND, "")))


def _sorted(trace: Trace, key: Callable[[Task], tuple[int, str]], only: Container[str] | None = None) -> Trace:
    """``only``: the primitives of such launches, None for all."""
    if not trace.has_graph:
        return trace
    starts = np.sort(trace.blocks.start)
    tasks = [(index, task) for index, task in enumerate(trace.tasks) if task.is_kernel]
    rows = [index for index, kernel in enumerate(trace.kernels) if not kernel.is_event]
    kernels, all_tasks = list(trace.kernels), list(trace.tasks)
    events: dict[int, int] = {}
    ends: dict[int, int] = {}
    after = [*(task.event for task in trace.tasks[1:]), NEVER]
    launches_of = groupby(zip(rows, tasks, strict=True), key=lambda item: trace.kernels[item[0]].primitive)
    for primitive, run in launches_of:
        for part in _unbroken([*run]) if only is None or primitive in only else ():
            places, launches = [row for row, _ in part], [item for _, item in part]
            order = sorted(range(len(part)), key=lambda item: key(launches[item][1]))
            if order == [*range(len(part))] or not _are_apart([task for _, task in launches], starts):
                continue
            for slot, item in enumerate(order):
                kernels[places[slot]] = replace(trace.kernels[places[item]], index=trace.kernels[places[slot]].index)
                all_tasks[launches[slot][0]] = launches[item][1]
                events[launches[item][1].event] = launches[slot][1].event
                ends[launches[item][1].event] = after[launches[-1][0]]
    return _with_events(trace, kernels, all_tasks, events, ends) if events else trace


Launch = tuple[int, tuple[int, Task]]  # row of the kernel; place among the tasks, and the task


def _unbroken(run: Sequence[Launch]) -> list[list[Launch]]:
    """Cut where something else stands in between."""
    parts = [[run[0]]]
    for one, other in pairwise(run):
        if other[0] != one[0] + 1 or other[1][0] != one[1][0] + 1:
            parts.append([])
        parts[-1].append(other)
    return parts


def _key(task: Task, names: Mapping[int, str]) -> tuple[int, str]:
    name = next((names[tensor] for tensor in task.inputs if tensor in names), "")
    layer = layer_in(name)
    return (_BEHIND, name) if layer < 0 else (layer, with_layer(name, 0))


def _are_apart(tasks: Sequence[Task], starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    """Between the first and the last, each launch makes the one block that is born at its event, and reads none of
    the others'."""
    low, high = np.searchsorted(starts, [tasks[0].event, tasks[-1].event + 1])
    events: list[int] = starts[low:high].tolist()
    return (
        events == [task.event for task in tasks]
        and all(task.outputs == (task.event,) for task in tasks)
        and not {*events}.intersection(given for task in tasks for given in task.inputs)
    )


def _with_events(
    trace: Trace, kernels: Sequence[Kernel], tasks: Sequence[Task], events: Mapping[int, int], ends: Mapping[int, int]
) -> Trace:
    """``events``: new by old; ``ends``: by old, that of the task behind its row. The id of a tensor is the event at
    which it is made. All events are doubled, so that what nobody reads any more can be released behind its launch,
    wherever that is now."""
    blocks = trace.blocks

    def moved(event: int) -> int:
        return 2 * events.get(event, event)

    start = np.array([moved(item) for item in blocks.start.tolist()], dtype=np.int64)
    users = np.array([moved(item) for item in blocks.users.tolist()], dtype=np.int64)
    latest, last = (_latest(blocks, these, at) for these, at in ((blocks.users, blocks.start), (users, start)))
    is_freed = blocks.end <= np.array([ends.get(item, -1) for item in latest.tolist()], dtype=np.int64)
    order = np.argsort(start, kind="stable")
    counts = np.diff(blocks.user_offsets)[order]
    columns = {
        name: getattr(blocks, name)[order]
        for name in (
            "address",
            "size_bytes",
            "stream",
            "pool",
            "kind",
            "task",
            "task_name",
            "node",
            "is_persistent",
            "pool_peak_bytes",
        )
    }
    end = np.where(blocks.end == NEVER, NEVER, np.where(is_freed, last + 1, 2 * np.minimum(blocks.end, NEVER // 2)))
    columns["end"] = end[order]
    used = np.empty(len(order), dtype=np.int64)
    for chosen in (blocks.on_host[order], ~blocks.on_host[order]):
        used[chosen] = used_bytes(start[order][chosen], columns["end"][chosen], columns["size_bytes"][chosen])
    return replace(
        trace,
        kernels=tuple(kernels),
        tasks=tuple(
            replace(
                task,
                event=moved(task.event),
                inputs=tuple(map(moved, task.inputs)),
                outputs=tuple(map(moved, task.outputs)),
            )
            for task in tasks
        ),
        blocks=replace(
            blocks,
            start=start[order],
            users=users[ranges(blocks.user_offsets[:-1][order], counts)],
            user_offsets=offsets(counts),
            used_bytes=used,
            **columns,
        ),
    )


def _latest(blocks: Blocks, users: Ints, start: Ints) -> Ints:
    """[blocks] the last of its users, else its birth."""
    owner = np.repeat(np.arange(len(start)), np.diff(blocks.user_offsets))
    found = start.copy()
    np.maximum.at(found, owner, users)
    return found
