"""TASK.CSV -> TASK TABLE: which graph and which actor of MindSpore's runtime launched each task.

MindSpore's memory tracker writes a row for each task of tracker_graph.ir, in the same order. Only the graph and the
actor stand in no other file; the line of MindSpore's source and the stack of Python frames are skipped. In PyNative
mode a collective is written down behind the events that others wait for, which come after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swapconf.files.byte_table import Names, tables
from swapconf.files.table_lines import GARBLED, Damage, number
from swapconf.trace.trace import TaskTable
from swapconf.words.phrases import phrase

_EVENT, _ACTOR, _NODE, _GRAPH = "time_stamp", "task_name", "node_name", "graph_name"
COLUMNS = (_EVENT, _ACTOR, _NODE, _GRAPH)


def read(path: str | Path, *, is_sorted: bool = True) -> TaskTable:
    """The tasks of a file, in the order of their events. ``is_sorted``: they have to stand so. Raises SwapconfError,
    with a finding for each line that is wrong."""
    damage = Damage(path)
    events: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    names = {column: Names() for column in (_ACTOR, _NODE, _GRAPH)}
    codes: dict[str, list[NDArray[np.int32]]] = {column: [np.zeros(0, np.int32)] for column in names}
    for table in tables(path, COLUMNS, damage):
        event, are_numbers = table.numbers(_EVENT)
        table.explain(are_numbers, _refuse, damage)
        events.append(event)
        for column, parts in codes.items():
            parts.append(table.codes(column, names[column]))
    damage.refuse()
    event = np.concatenate(events)
    order = np.arange(len(event)) if is_sorted else np.argsort(event, kind="stable")
    event = event[order]
    if len(late := np.flatnonzero(np.diff(event) <= 0)):
        place = int(late[0]) + 1
        damage.add(
            GARBLED,
            phrase("task {task} stands behind task {other}", task=event[place], other=event[place - 1]),
            place + 2,
        )
    damage.refuse()
    return TaskTable(
        event=event,
        actor=np.concatenate(codes[_ACTOR])[order],
        actors=names[_ACTOR].texts(),
        node=np.concatenate(codes[_NODE])[order],
        nodes=names[_NODE].texts(),
        graph=np.concatenate(codes[_GRAPH])[order],
        graphs=names[_GRAPH].texts(),
    )


def _refuse(row: Mapping[str, str]) -> None:
    number(row[_EVENT], _EVENT)
