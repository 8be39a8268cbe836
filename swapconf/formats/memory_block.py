"""MEMORY_BLOCK.CSV -> BLOCKS: every allocation that MindSpore's memory tracker saw, in order of birth.

Columns are found by name. No value is quoted; only paths (``file_name``, ``python_stack``, more than half of the file)
may hold a comma, so a row is read from both ends. Times count the tracker's events, and 2^63-1 stands for never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from swapconf.formats.trace_lines import GARBLED, HEADER, TRUNCATED, Damage, lines, number, shown
from swapconf.trace import Block

NEVER = 2**63 - 1
COLUMNS = ("start_time_stamp", "end_time_stamp", "device_addr", "stream_id", "pool_type", "size",
           "actual_used_memory", "actual_peak_memory", "type", "producer_task", "task_name", "node_name",
           "user_tasks", "is_persistent")
_PATHS = "python_stack"


def read(path: str | Path) -> tuple[Block, ...]:
    """The blocks of a file. Raises SwapconfError, with a finding for each line that is wrong."""
    damage = Damage(path)
    columns: Columns | None = None
    blocks: list[Block] = []
    for line, text in lines(path, damage):
        if columns is None:
            columns = _columns(text, damage)
            continue
        with damage.at(line):
            blocks.append(_block(columns.values(text)))
    if columns is None:
        damage.add(TRUNCATED, "the file is empty")
    _check(blocks, damage)
    damage.refuse()
    return tuple(blocks)


class Columns:
    """Where the columns stand: up to the paths counted from the left, behind them from the right."""

    def __init__(self, names: Sequence[str]) -> None:
        self._count = len(names)
        turn = names.index(_PATHS) if _PATHS in names else len(names)
        self._open = turn < len(names)
        self._places = {name: names.index(name) if names.index(name) <= turn else names.index(name) - len(names)
                        for name in COLUMNS}

    def values(self, row: str) -> dict[str, str]:
        """The values of a row by column. Raises ValueError where there are too few or too many."""
        cells = row.split(",")
        if len(cells) < self._count or (len(cells) > self._count and not self._open):
            raise ValueError(f"{len(cells)} values, where the header names {self._count}")
        return {name: cells[place] for name, place in self._places.items()}


def _columns(header: str, damage: Damage) -> Columns:
    names = header.split(",")
    if missing := [name for name in COLUMNS if name not in names]:
        damage.add(HEADER, f"no column {', '.join(missing)} in {shown(header)}", 1)
    damage.refuse()
    return Columns(names)


def _block(row: Mapping[str, str]) -> Block:
    end = number(row["end_time_stamp"], "end_time_stamp")
    block = Block(
        start=number(row["start_time_stamp"], "start_time_stamp"),
        end=None if end == NEVER else end,
        address=number(row["device_addr"], "device_addr", 16),
        size_bytes=number(row["size"], "size"),
        stream=number(row["stream_id"], "stream_id"),
        pool=row["pool_type"],
        kind=row["type"],
        task=number(row["producer_task"], "producer_task") if row["producer_task"] else None,
        task_name=row["task_name"],
        node=row["node_name"],
        users=_users(row["user_tasks"]),
        is_persistent=number(row["is_persistent"], "is_persistent") == 1,
        used_bytes=number(row["actual_used_memory"], "actual_used_memory"),
        pool_peak_bytes=number(row["actual_peak_memory"], "actual_peak_memory"),
    )
    if end <= block.start:
        raise ValueError(f"freed at {end}, before it is made at {block.start}")
    if not block.pool:
        raise ValueError("pool_type is empty")
    return block


def _users(text: str) -> tuple[int, ...]:
    """``{652-664}``, ``{}`` or nothing."""
    if text in ("", "{}"):
        return ()
    if text[0] != "{" or text[-1] != "}":
        raise ValueError(f"user_tasks is {shown(text)}, not a list in braces")
    return tuple(number(task, "user_tasks") for task in text[1:-1].split("-"))


def _check(blocks: Sequence[Block], damage: Damage) -> None:
    """Rows that are lost or doubled show in the running sums, which MindSpore writes for device and host."""
    for on_host in (False, True):
        pool = [(line, block) for line, block in enumerate(blocks, 2) if block.on_host == on_host]
        if wrong := _first_wrong_sum(sorted(pool, key=lambda item: item[1].start)):
            line, used, block = wrong
            damage.add(GARBLED, f"{block.used_bytes} bytes are in use according to this row, {used} according to the "
                                "rows before it: rows are missing or changed", line)


def _first_wrong_sum(pool: Sequence[tuple[int, Block]]) -> tuple[int, int, Block] | None:
    """Blocks made at once (outputs of a graph planned ahead, at successive events) carry the sum after the last."""
    freed = sorted((block.end, block.size_bytes) for _, block in pool if block.end is not None)
    used = gone = 0
    for place, (line, block) in enumerate(pool, 1):
        used += block.size_bytes
        while gone < len(freed) and freed[gone][0] < block.start:
            used -= freed[gone][1]
            gone += 1
        if used != block.used_bytes and not (place < len(pool) and _at_once(block, pool[place][1])):
            return line, used, block
    return None


def _at_once(block: Block, following: Block) -> bool:
    return following.start == block.start + 1 and following.used_bytes == block.used_bytes
