"""FOLDER -> TRACE: the files that the dry run of one rank left behind, read together and checked against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from swapconf.files.table_lines import INCOMPLETE, Damage
from swapconf.trace import execute_order, fused_kernels, launch_graph, marks, memory_block, task_table, tracker_graph
from swapconf.trace.blocks import Blocks
from swapconf.trace.trace import Kernel, Task, Trace
from swapconf.words.findings import Finding, SwapconfError
from swapconf.words.phrases import phrase

BLOCKS, GRAPH, ORDER, TASKS = "memory_block.csv", "tracker_graph.ir", "execute_order.csv", "task.csv"
Part = TypeVar("Part")


def read(folder: str | Path, rank: int) -> Trace:
    """The trace in a folder. Raises SwapconfError with what is wrong in any of its files.

    The graph is optional, because MindSpore writes none with memory_optimize_level O1. task.csv, where it was kept, is
    a second witness of the tasks. The graph that decided the order of the kernels, and what is inside
    fused ones, is read when it is asked for. A run
    in PyNative mode has marks, and an order of execution only for what it compiled by the way, which is left aside.
    """
    place = Path(folder)
    findings: list[Finding] = []
    blocks = _part(memory_block.read, place / BLOCKS, findings)
    is_marked = (place / marks.FILE).exists()
    kernels = () if is_marked else _part(execute_order.read, order_file(place), findings)
    tasks = _part(tracker_graph.read, place / GRAPH, findings) if (place / GRAPH).exists() else ()
    if is_marked:
        tasks = None if tasks is None else tuple(sorted(tasks, key=lambda task: task.event))
    read_table = partial(task_table.read, is_sorted=not is_marked)
    table = _part(read_table, place / TASKS, findings) if (place / TASKS).exists() else None
    if blocks is None or kernels is None or tasks is None or findings:
        raise SwapconfError(findings)
    if tasks:
        _check_tensors(place, blocks, tasks)
        if not is_marked:
            _check_kernels(place, kernels, tasks)
        if table is not None and not np.array_equal(table.event, [task.event for task in tasks]):
            _refuse(place / TASKS, phrase("the tasks are not those of {file}", file=GRAPH))

    def kept(name: str) -> str:
        return str(place / name) if (place / name).exists() and not is_marked else ""

    found = marks.read(place / marks.FILE, blocks) if is_marked else ()
    moved, host_bytes = marks.moved_by(place / marks.FILE) if is_marked else ((), 0)
    return Trace(
        folder=str(place),
        rank=rank,
        blocks=blocks,
        kernels=kernels,
        tasks=tasks,
        marks=found,
        moved=moved,
        moved_host_bytes=host_bytes,
        launch_graph_file=kept(launch_graph.FILE),
        fused_kernels_file=kept(fused_kernels.FILE),
    )


def order_file(folder: Path) -> Path:
    """MindSpore puts the executed order into a folder of its own."""
    nested = folder / "execute_order" / ORDER
    return nested if nested.exists() else folder / ORDER


def _part(read_file: Callable[[Path], Part], path: Path, findings: list[Finding]) -> Part | None:
    try:
        return read_file(path)
    except SwapconfError as error:
        findings.extend(error.findings)
        return None


def _check_tensors(folder: Path, blocks: Blocks, tasks: Sequence[Task]) -> None:
    """A file that was cut between two lines is whole by itself, but lacks what the others speak of."""
    tensors = np.fromiter((tensor for task in tasks for tensor in (*task.inputs, *task.outputs)), dtype=np.int64)
    known = np.fromiter((task.event for task in tasks), dtype=np.int64)
    if not np.isin(tensors, blocks.start).all():
        _refuse(folder / BLOCKS, phrase("{file} speaks of tensors that this file does not have", file=GRAPH))
    if not np.isin(blocks.users, known).all():
        _refuse(folder / GRAPH, phrase("{file} speaks of tasks that this file does not have", file=BLOCKS))


def _check_kernels(folder: Path, kernels: Sequence[Kernel], tasks: Sequence[Task]) -> None:
    if [kernel.name for kernel in kernels if not kernel.is_event] != [task.name for task in tasks if task.is_kernel]:
        _refuse(order_file(folder), phrase("the kernels are not those of {file}", file=GRAPH))


def _refuse(path: Path, message: str) -> None:
    damage = Damage(path)
    damage.add(INCOMPLETE, message)
    damage.refuse()
