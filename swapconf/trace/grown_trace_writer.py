"""TRACE that no run left behind -> FOLDER: all files of a rank, as MindSpore's memory tracker writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from swapconf.files.writing import refuse_links, replace_text
from swapconf.trace import fused_kernels, launch_graph
from swapconf.trace.execute_order import COLUMNS
from swapconf.trace.trace import Kernel, Trace
from swapconf.trace.trace_folder import BLOCKS, GRAPH, ORDER, TASKS
from swapconf.trace.trace_writer import memory_block_lines, tracker_graph_lines

_NO_LOGIC_ID = 2**32 - 1


def write(trace: Trace, folder: Path) -> None:
    """Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(folder, (BLOCKS, GRAPH, ORDER, TASKS))
    for name in (TASKS, launch_graph.FILE, fused_kernels.FILE):  # of another run
        (folder / name).unlink(missing_ok=True)
    replace_text(folder / BLOCKS, "".join(memory_block_lines(trace.blocks, {})))
    replace_text(folder / GRAPH, "".join(tracker_graph_lines(trace.tasks)))
    replace_text(folder / ORDER, "".join(execute_order_lines(trace.kernels)))
    if trace.fused_kernels:
        with suppress(ValueError):  # too many to be kept; a trace is whole without
            fused_kernels.write(trace.fused_kernels, folder / fused_kernels.FILE)


def remove(folder: Path) -> None:
    """What an earlier run left there. Raises OSError."""
    for name in (BLOCKS, GRAPH, ORDER, TASKS, launch_graph.FILE, fused_kernels.FILE):
        (folder / name).unlink(missing_ok=True)


def execute_order_lines(kernels: Iterable[Kernel]) -> Iterator[str]:
    """The rows of execute_order.csv, under its header. A quote inside a value is not escaped, as in MindSpore's."""
    yield COLUMNS + "\n"
    for kernel in kernels:
        inputs = "".join(f", [{number}]: {given}" for number, given in enumerate(kernel.inputs, 1))
        node = f"@{kernel.graph}:{kernel.output}{{[0]: ValueNode<Primitive> PrimFunc_{kernel.primitive}{inputs}}}"
        cells = kernel.index, kernel.name, _NO_LOGIC_ID, kernel.stream, node, kernel.event, kernel.group
        yield '"' + '","'.join(map(str, cells)) + '"\n'
