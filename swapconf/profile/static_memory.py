"""STATIC_OP_MEM.CSV -> ALLOCATIONS: what each operator of a graph that GE compiled gets, from when until when.

Times are logical: the places of nodes in a graph. A graph stands for a device here, as its operators share one memory
and those of others do not. A last row TOTAL is the sum of what is asked for, and no operator. See `known_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from swapconf.files.table_lines import number
from swapconf.profile.memory_profile import UNKNOWN, OperatorMemory
from swapconf.profile.profiler_csv import Header, each
from swapconf.trace.lifetimes import NEVER
from swapconf.words.phrases import phrase

NEEDED = ("Op Name", "Graph ID", "Node Index Start", "Node Index End", "Size")
_UNTIL_THE_END = 2**32 - 1
_TOTAL = "TOTAL"
_WHOLE_GRAPH = frozenset({"", "0"})

_Row = tuple[str, str, int, int, int]


def read(*paths: str | Path) -> OperatorMemory:
    """Raises SwapconfError, with a finding for each line that is wrong."""
    return _table([row for row in each(paths, NEEDED, _parser) if row is not None])


def _parser(header: Header) -> Callable[[Sequence[str]], _Row | None]:
    name, model, graph = (header.text(column) for column in ("Op Name", "Model Name", "Graph ID"))
    start, end = header.text("Node Index Start"), header.text("Node Index End")
    size, device = header.size_bytes("Size"), header.text("Device_id")

    def parse(row: Sequence[str]) -> _Row | None:
        """(graph, operator, start, end, bytes); None for the sum."""
        if name(row) == _TOTAL:
            return None
        held = size(row)
        if held is None or held < 0:
            raise ValueError(phrase("{column} is empty or negative", column="Size"))
        begin, until = number(start(row), "Node Index Start"), number(end(row), "Node Index End")
        if until < begin:
            raise ValueError(phrase("{what} is {text}, not a number", what="Node Index End", text=until))
        whose = "" if model(row) in _WHOLE_GRAPH else f" {model(row)}"
        place = f"NPU:{device(row)}, " if device(row) else ""
        return f"{place}graph {graph(row)}{whose}", name(row), begin, NEVER if until == _UNTIL_THE_END else until, held

    return parse


def _table(found: Sequence[_Row]) -> OperatorMemory:
    of_graph: dict[str, int] = {}
    of_name: dict[str, int] = {}
    for graph, name, *_ in found:
        of_graph.setdefault(graph, len(of_graph))
        of_name.setdefault(name, len(of_name))
    unknown = np.full(len(found), UNKNOWN, dtype=np.int64)
    start, end, size = (np.array([row[place] for row in found], dtype=np.int64) for place in (2, 3, 4))
    return OperatorMemory(
        start_ns=start,
        end_ns=end,
        size_bytes=size,
        allocated_bytes=unknown,
        reserved_bytes=unknown,
        name=np.array([of_name[row[1]] for row in found], dtype=np.int32),
        names=tuple(of_name),
        stream=np.zeros(len(found), dtype=np.int32),
        streams=("",),
        device=np.array([of_graph[row[0]] for row in found], dtype=np.int32),
        devices=tuple(of_graph),
    )
