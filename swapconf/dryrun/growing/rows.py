"""INSTANCES, REFERENCES + EVENTS -> the kernels, tasks and blocks of the whole model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from swapconf.dryrun.growing.events import Events, Launched
from swapconf.dryrun.growing.instances import Instances
from swapconf.dryrun.growing.layers import layer_in
from swapconf.dryrun.growing.references import Used
from swapconf.dryrun.growing.steps import START, Steps
from swapconf.memory.addresses import used_bytes
from swapconf.trace.blocks import NO_TASK, Blocks, coded, offsets
from swapconf.trace.columns import Ints
from swapconf.trace.trace import Kernel, Task

_NUMBERED = re.compile(r"^\d+_")  # the tracker puts the number of the launch before its name


def kernels_of(step: Sequence[Kernel], count: int) -> tuple[Kernel, ...]:
    """``count`` steps, the rows counted on."""
    return (
        *step,
        *(replace(kernel, index=kernel.index + turn * len(step)) for turn in range(1, count) for kernel in step),
    )


def tasks_of(
    steps: Steps,
    kernels: Sequence[Kernel],
    launched: Launched,
    when: Events,
    reads: Used,
    writes: Used,
    blocks: Instances,
) -> tuple[Task, ...]:
    """In order of their events. A kernel's task bears its name, that of an event its number."""
    start = when.start
    given, made = start[reads.instance].tolist(), start[writes.instance].tolist()
    borders = reads.borders.tolist(), writes.borders.tolist()
    rows, places, events = launched.task.tolist(), launched.place.tolist(), when.task.tolist()
    tasks, found = steps.trace.tasks, []
    for index in np.argsort(when.task, kind="stable").tolist():
        task, place = tasks[rows[index]], places[index]
        inputs = tuple(given[borders[0][index] : borders[0][index + 1]])
        outputs = tuple(made[borders[1][index] : borders[1][index + 1]])
        name, attributes, tensors = task.name, task.attributes, task.input_tensors
        if place == START:
            made_as = blocks.node.get(int(writes.instance[borders[1][index]]), "") if outputs else ""
            name = made_as if made_as and layer_in(name) >= 0 else name
        elif task.is_kernel:
            name = kernels[place].name
        elif kernels[place].is_event and steps.rank[rows[index]] == 0:
            attributes = tuple((key, kernels[place].event if key == "event" else value) for key, value in attributes)
        if len(inputs) != len(task.inputs) and len(task.inputs) == len(tensors):
            tensors = (*tensors, *[tensors[-1]] * (len(inputs) - len(task.inputs)))
        found.append(
            replace(
                task,
                event=events[index],
                name=name,
                inputs=inputs,
                outputs=outputs,
                attributes=attributes,
                input_tensors=tensors,
            )
        )
    return tuple(found)


def blocks_of(
    steps: Steps, kernels: Sequence[Kernel], launched: Launched, when: Events, reads: Used, blocks: Instances
) -> Blocks:
    """In order of birth. Addresses are still to come."""
    source, order = steps.trace.blocks, np.argsort(when.start, kind="stable")
    rows, place = blocks.row[order], blocks.place[order]
    nodes, names = _names(steps, kernels, blocks, order)
    node, known_nodes = coded(nodes)
    task_name, task_names = coded(names)
    users, borders = _users(launched, when, reads, order)
    start, end, size = when.start[order], when.end[order], source.size_bytes[rows]
    on_host = source.on_host[rows]
    used = np.empty(len(rows), dtype=np.int64)
    for chosen in (on_host, ~on_host):
        used[chosen] = used_bytes(start[chosen], end[chosen], size[chosen])
    return Blocks(
        start=start,
        end=end,
        size_bytes=size,
        address=np.zeros(len(rows), dtype=np.int64),
        stream=source.stream[rows],
        pool=source.pool[rows],
        pools=source.pools,
        kind=source.kind[rows],
        kinds=source.kinds,
        task=np.where(place == START, source.task[rows], NO_TASK),
        task_name=task_name,
        task_names=task_names,
        node=node,
        nodes=known_nodes,
        users=users,
        user_offsets=borders,
        is_persistent=source.is_persistent[rows],
        used_bytes=used,
        pool_peak_bytes=np.zeros(len(rows), dtype=np.int64),
    )


def _names(steps: Steps, kernels: Sequence[Kernel], blocks: Instances, order: Ints) -> tuple[list[str], list[str]]:
    """(node, task name) of each block, in order."""
    source, run = steps.trace.blocks, steps.trace.kernels
    nodes, names = [], []
    for index, row, place, was in zip(
        order.tolist(),
        blocks.row[order].tolist(),
        blocks.place[order].tolist(),
        steps.birthplace[blocks.row[order]].tolist(),
        strict=True,
    ):
        node, name = source.nodes[source.node[row]], source.task_names[source.task_name[row]]
        if place == START:
            node = blocks.node.get(index, node)
        elif node == run[was].name:
            node = kernels[place].name
            name = f"{place % (len(kernels) // steps.count)}_{node}" if _NUMBERED.match(name) else name
        nodes.append(node)
        names.append(name)
    return nodes, names


def _users(launched: Launched, when: Events, reads: Used, order: Ints) -> tuple[Ints, Ints]:
    """The events of the tasks that read each block, and where those of each begin."""
    user = np.repeat(when.task, np.diff(reads.borders))
    where = np.empty(len(order), dtype=np.int64)
    where[order] = np.arange(len(order))
    block = where[reads.instance]
    by_block = np.lexsort((user, block))
    return user[by_block], offsets(np.bincount(block, minlength=len(order)))
