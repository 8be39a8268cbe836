"""MEMORY_BLOCK.CSV -> BLOCKS: every allocation that MindSpore's memory tracker saw, in order of birth.

Columns are found by name. Times count the tracker's events, and 2^63-1 stands for never. Stacks of Python frames, more
than half of the file, are skipped. Measured with 5 million rows: see scripts/bench/bench_trace_reading.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapconf.files.byte_table import ByteTable, Names, numbers, tables
from swapconf.files.table_lines import GARBLED, INCOMPLETE, Damage, number, shown
from swapconf.trace.blocks import NO_TASK, Blocks, offsets, ranges
from swapconf.trace.running_sums import used_bytes, with_releases, wrong_sums
from swapconf.words.phrases import phrase

_NUMBERS = {
    "start": "start_time_stamp",
    "end": "end_time_stamp",
    "size_bytes": "size",
    "stream": "stream_id",
    "used_bytes": "actual_used_memory",
    "pool_peak_bytes": "actual_peak_memory",
}
_TEXTS = {"pool": "pool_type", "kind": "type", "task_name": "task_name", "node": "node_name"}
_ADDRESS, _TASK, _USERS, _PERSISTENT = "device_addr", "producer_task", "user_tasks", "is_persistent"
COLUMNS = (*_NUMBERS.values(), *_TEXTS.values(), _ADDRESS, _TASK, _USERS, _PERSISTENT)
_MAX_TOTAL_BYTES = 2**62  # with it, no sum of sizes and no address that a policy gives can overflow
_OPEN, _CLOSE, _DASH = b"{}-"

Parts = dict[str, NDArray[Any]]


def read(path: str | Path) -> Blocks:
    """The blocks of a file. Raises SwapconfError, with a finding for each line that is wrong."""
    damage = Damage(path)
    parts: list[Parts] = []
    names = {column: Names() for column in _TEXTS}
    for table in tables(path, COLUMNS, damage):
        part, are_right = _part(table, names)
        table.explain(are_right, _refuse, damage)
        parts.append(part)
    if not any(len(part["start"]) for part in parts):
        damage.add(INCOMPLETE, phrase("there is no block below the header: no memory was recorded"))
    damage.refuse()
    blocks = with_releases(_joined(parts, names))
    _check(blocks, damage)
    damage.refuse()
    return blocks


def _part(table: ByteTable, names: Mapping[str, Names]) -> tuple[Parts, NDArray[np.bool_]]:
    """The columns of some rows, and which of the rows are right."""
    are_right = np.ones(len(table.rows), dtype=np.bool_)
    part: Parts = {}
    for name, column in _NUMBERS.items():
        part[name], are_numbers = table.numbers(column)
        are_right &= are_numbers
    part["address"], are_numbers = table.numbers(_ADDRESS, base=16)
    are_right &= are_numbers
    persistent, are_numbers = table.numbers(_PERSISTENT)
    part["is_persistent"] = persistent == 1
    are_right &= are_numbers
    task, are_numbers = table.numbers(_TASK)
    has_task = np.not_equal(*table.cells(_TASK))
    part["task"] = np.where(has_task, task, NO_TASK)
    are_right &= are_numbers | ~has_task
    part["users"], part["num_users"], are_lists = _users(table)
    are_right &= are_lists
    are_right &= (part["end"] > part["start"]) & np.not_equal(*table.cells("pool_type"))
    for name, column in _TEXTS.items():
        part[name] = table.codes(column, names[name])
    return part, are_right


def _users(table: ByteTable) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """(tasks of all rows, how many of each row, which rows have such a list): ``{652-664}``, ``{}`` or nothing."""
    start, stop = table.cells(_USERS)
    in_braces = (stop - start >= 2) & (table.bytes[start] == _OPEN) & (table.bytes[stop - 1] == _CLOSE)
    are_lists = in_braces | (stop == start)
    filled = np.flatnonzero(in_braces & (stop - start > 2))
    length = (stop - start)[filled] - 1
    inner = table.bytes[ranges(start[filled] + 1, length)]  # of each list all but the opening brace
    row_end = np.cumsum(length) - 1
    is_cut = inner == _DASH
    is_cut[row_end] = True
    cuts = np.flatnonzero(is_cut)
    tasks, are_numbers = numbers(inner, np.concatenate([np.zeros(1, np.int64), cuts[:-1] + 1])[: len(cuts)], cuts)
    row = np.searchsorted(row_end, cuts)
    counts = np.zeros(len(start), dtype=np.int64)
    counts[filled] = np.bincount(row, minlength=len(filled))
    are_lists[filled[row[~are_numbers]]] = False
    return tasks, counts, are_lists


def _refuse(row: Mapping[str, str]) -> None:
    """Raises ValueError with what is wrong with a row."""
    values = {
        column: number(row[column], column, 16 if column == _ADDRESS else 10)
        for column in ("start_time_stamp", "end_time_stamp", _ADDRESS, "size", "stream_id")
    }
    if row[_TASK]:
        number(row[_TASK], _TASK)
    users = row[_USERS]
    if users not in ("", "{}"):
        if users[0] != "{" or users[-1] != "}":
            raise ValueError(phrase("{column} is {text}, not a list in braces", column=_USERS, text=shown(users)))
        for task in users[1:-1].split("-"):
            number(task, _USERS)
    for column in (_PERSISTENT, "actual_used_memory", "actual_peak_memory"):
        number(row[column], column)
    if values["end_time_stamp"] <= values["start_time_stamp"]:
        raise ValueError(
            phrase(
                "freed at {end}, before it is made at {start}",
                end=values["end_time_stamp"],
                start=values["start_time_stamp"],
            )
        )
    if not row["pool_type"]:
        raise ValueError(phrase("{column} is empty", column="pool_type"))


def _joined(parts: list[Parts], names: dict[str, Names]) -> Blocks:
    """One column after another, so that no more than one is held twice."""

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([part.pop(name) for part in parts]) if parts else np.zeros(0, np.int64)

    return Blocks(
        **{name: column(name) for name in (*_NUMBERS, *_TEXTS, "address", "task", "is_persistent", "users")},
        user_offsets=offsets(column("num_users")),
        pools=names.pop("pool").texts(),
        kinds=names.pop("kind").texts(),
        task_names=names.pop("task_name").texts(),
        nodes=names.pop("node").texts(),
    )


def _check(blocks: Blocks, damage: Damage) -> None:
    """Rows that are lost or doubled show in the running sums, which MindSpore writes for device and host."""
    if (total := blocks.size_bytes.sum(dtype=np.float64)) > _MAX_TOTAL_BYTES:
        damage.add(
            GARBLED, phrase("the blocks have {size:.0e} bytes together, more than any run allocates", size=float(total))
        )
        return
    for on_host in (False, True):
        rows = np.flatnonzero(blocks.on_host == on_host)
        rows = rows[np.argsort(blocks.start[rows], kind="stable")]
        used = used_bytes(blocks.start[rows], blocks.end[rows], blocks.size_bytes[rows])
        if (wrong := wrong_sums(blocks.start[rows], blocks.used_bytes[rows], used)).any():
            first = int(wrong.argmax())
            damage.add(
                GARBLED,
                phrase(
                    "{told} bytes are in use according to this row, {summed} according to the rows "
                    "before it: rows are missing or changed",
                    told=blocks.used_bytes[rows[first]],
                    summed=used[first],
                ),
                int(rows[first]) + 2,
            )
