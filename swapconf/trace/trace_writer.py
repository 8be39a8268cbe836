"""TRACE -> FOLDER: the files of a rank in the form of MindSpore's memory tracker, so that its readers read them.

What a trace does not hold stays empty: the line of MindSpore's source, the stack of Python frames, the name of the
graph. Blocks of type ``WorkSpace`` carry their rule instead of a line of source (``file_name``), so that an estimated
row can be told from a recorded one. execute_order.csv has neither events nor addresses, and is copied.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path

from swapconf.files.csv_cells import cell
from swapconf.files.writing import refuse_links, replace_by_copy, replace_text
from swapconf.trace.blocks import Block
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import Task, Tensor, Trace
from swapconf.trace.trace_folder import BLOCKS, GRAPH, ORDER
from swapconf.trace.workspace import KIND, Workspace

WORKSPACE = "workspace.csv"
HEADER = (
    "start_time_stamp",
    "end_time_stamp",
    "device_addr",
    "stream_id",
    "pool_type",
    "size",
    "actual_used_memory",
    "actual_peak_memory",
    "file_name",
    "line_num",
    "type",
    "producer_task",
    "task_name",
    "node_name",
    "graph_name",
    "user_tasks",
    "last_user_task",
    "python_stack",
    "is_persistent",
    "is_small",
)
WORKSPACE_HEADER = ("event", "kernel", "size", "basis", "rule", "source")


def write(trace: Trace, workspace: Workspace, executed_order: Path, folder: Path) -> None:
    """Write memory_block.csv, tracker_graph.ir, execute_order.csv and, of what is estimated, workspace.csv; ``trace``
    has the workspace in it, ``executed_order`` is the file of the run itself. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {task.event: task.name for task in trace.tasks}
    blocks = [block for block in trace.blocks if block.kind == KIND]
    rule_of = {
        block.start: f"{workspace.rules[code].basis.value}: {workspace.rules[code].name}"
        for block, code in zip(blocks, workspace.rule.tolist(), strict=True)
    }
    refuse_links(folder, (ORDER,))
    replace_text(folder / BLOCKS, "".join(memory_block_lines(trace.blocks, rule_of)))
    replace_text(folder / GRAPH, "".join(tracker_graph_lines(trace.tasks)))
    replace_by_copy(folder / ORDER, executed_order)
    replace_text(folder / WORKSPACE, _workspace_table(blocks, workspace, names))


def memory_block_lines(blocks: Iterable[Block], file_name: Mapping[int, str]) -> Iterator[str]:
    """The rows of memory_block.csv, under its header. ``file_name``: by birth, "" for all others."""
    yield ",".join(HEADER) + "\n"
    for block in blocks:
        cells = (
            block.start,
            NEVER if block.end is None else block.end,
            hex(block.address),
            block.stream,
            cell(block.pool),
            block.size_bytes,
            block.used_bytes,
            block.pool_peak_bytes,
            file_name.get(block.start, ""),
            "",
            cell(block.kind),
            "" if block.task is None else block.task,
            cell(block.task_name),
            cell(block.node),
            "",
            "{" + "-".join(map(str, block.users)) + "}",
            max(block.users, default=""),
            "",
            int(block.is_persistent),
            0,
        )
        yield ",".join(map(str, cells)) + "\n"


def tracker_graph_lines(tasks: Iterable[Task]) -> Iterator[str]:
    """Two lines a task, as tracker_graph.ir has them."""
    for task in tasks:
        attributes = ";".join(f"{name}={value}" for name, value in task.attributes)
        call = f"({_ids(task.outputs)}) = {task.name}({_ids(task.inputs)})"
        yield f"{call}, task_info: {task.event}, attrs {{{attributes}}}\n"
        yield f"    ({_tensors(task.output_tensors)}) <- ({_tensors(task.input_tensors)})\n"


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(f"%{item}" for item in ids)


def _tensors(tensors: Iterable[Tensor]) -> str:
    return ", ".join(f"{tensor.dtype}:[{', '.join(map(str, tensor.shape))}]" for tensor in tensors)


def _workspace_table(blocks: Iterable[Block], workspace: Workspace, names: Mapping[int, str]) -> str:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(WORKSPACE_HEADER)
    for block, size, code in zip(blocks, workspace.size_bytes.tolist(), workspace.rule.tolist(), strict=True):
        rule = workspace.rules[code]
        event = block.task if block.task is not None else block.start
        table.writerow((event, cell(names.get(event, block.node)), size, rule.basis.value, rule.name, rule.source))
    return text.getvalue()
