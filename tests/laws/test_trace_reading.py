"""However a trace file is cut into chunks, and whatever is wrong with it: the same as reading it row by row."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.files import table_lines
from swapconf.trace import execute_order, memory_block, task_table, tracker_graph
from swapconf.trace.blocks import Block, Blocks
from swapconf.trace.lifetimes import NEVER
from swapconf.words.findings import SwapconfError
from tests.helpers import TRACES

NAMES = (
    "start_time_stamp",
    "end_time_stamp",
    "device_addr",
    "stream_id",
    "pool_type",
    "size",
    "actual_used_memory",
    "actual_peak_memory",
    "type",
    "producer_task",
    "task_name",
    "node_name",
    "user_tasks",
    "python_stack",
    "is_persistent",
)
SOURCE = TRACES / "llama_l2_layerswap_n1"
TEXTS = {
    file: b"".join((SOURCE / file).read_bytes().splitlines(keepends=True)[:60])
    for file in ("memory_block.csv", "execute_order.csv", "tracker_graph.ir")
}
TEXTS["task.csv"] = b"time_stamp,task_name,node_name,graph_name,python_stack,\n" + b"".join(
    b"%d,Actor%d,Default/MatMul-op%d,kernel_graph0,File:a, b|,\n" % (time, time % 3, time) for time in range(40)
)
READERS: dict[str, Callable[[Path], Any]] = {
    "memory_block.csv": memory_block.read,
    "execute_order.csv": execute_order.read,
    "tracker_graph.ir": tracker_graph.read,
    "task.csv": task_table.read,
}

numbers = st.one_of(
    st.integers(0, 20).map(str),
    st.integers(0, 2**65).map(str),
    st.sampled_from(
        [
            "",
            "0",
            "007",
            str(NEVER),
            str(2**63),
            "-1",
            "1_0",
            "0x1f",
            "0X1f",
            "0x",
            "x",
            "1.0",
            " 1",
            "9" * 19,
            "1" * 20,
        ]
    ),
)
addresses = st.one_of(numbers, st.integers(0, 2**66).map(hex), st.sampled_from(["0xFFf", "0x0x1", "fg", "ff"]))
names = st.sampled_from(["", "Default/MatMul-op1", "Ascend", "Other", "größe", "a b"])
users = st.one_of(
    st.lists(st.integers(0, 10**6), max_size=4).map(lambda tasks: f"{{{'-'.join(map(str, tasks))}}}"),
    st.sampled_from(["", "{", "}", "{-}", "{1-}", "{1}2}", "{{1}", "{1 2}", "1", "{a}", "{1--2}"]),
)
stacks = st.sampled_from(["", "File:/a.py;Line:1|", "File:/a,b,c.py;Line:1|", ","])
likely = {
    "start_time_stamp": st.integers(0, 5).map(str),
    "end_time_stamp": st.just(str(NEVER)),
    "size": st.just("0"),
    "actual_used_memory": st.just("0"),
    "user_tasks": st.just("{3-4}"),
    "pool_type": st.just("Ascend"),
    "python_stack": stacks,
}
unlikely = {
    "device_addr": addresses,
    "pool_type": names,
    "type": names,
    "task_name": names,
    "node_name": names,
    "user_tasks": users,
    "python_stack": stacks,
}


@st.composite
def rows(draw: st.DrawFn) -> str:
    """A row of which one value or two may be anything."""
    odd = draw(st.sets(st.sampled_from(NAMES), max_size=2))
    cells = [draw(unlikely.get(name, numbers) if name in odd else likely.get(name, st.just("1"))) for name in NAMES]
    return draw(st.sampled_from([",".join(cells)] * 9 + [",".join(cells[:-1]), ""]))


def outcome(read: Callable[[Path], Any], data: bytes) -> tuple[Any, ...]:
    """What a reader makes of a file: its rows, or what it finds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        try:
            result = read(path)
        except SwapconfError as error:
            return "refused", [(found.origin.line, found.rule, found.message) for found in error.findings]
        return "read", (result.event.tolist(), result.actors) if hasattr(result, "event") else list(result)


def row_by_row(path: Path) -> list[Block]:
    """The slow reader: one row at a time, each value by itself."""
    damage = table_lines.Damage(path)
    found, num_rows = [], 0
    for line, text in table_lines.lines(path, damage):
        if line > 1:
            num_rows += 1
            with damage.at(line):
                cells = text.split(",")
                if len(cells) < len(NAMES):
                    raise ValueError(f"{len(cells)} values, where the header names {len(NAMES)}")
                row = dict(zip(NAMES, [*cells[:13], ",".join(cells[13:-1]), cells[-1]], strict=True))
                memory_block._refuse(row)
                found.append(block(row))
    if not num_rows:
        damage.add(table_lines.INCOMPLETE, "there is no block below the header: no memory was recorded")
    damage.refuse()
    return found


def block(row: dict[str, str]) -> Block:
    end = int(row["end_time_stamp"])
    return Block(
        start=int(row["start_time_stamp"]),
        end=None if end == NEVER else end,
        address=int(row["device_addr"], 16),
        size_bytes=int(row["size"]),
        stream=int(row["stream_id"]),
        pool=row["pool_type"],
        kind=row["type"],
        task=int(row["producer_task"]) if row["producer_task"] else None,
        task_name=row["task_name"],
        node=row["node_name"],
        users=tuple(int(task) for task in row["user_tasks"].strip("{}").split("-") if task),
        is_persistent=int(row["is_persistent"]) == 1,
        used_bytes=int(row["actual_used_memory"]),
        pool_peak_bytes=int(row["actual_peak_memory"]),
    )


@settings(max_examples=200)
@given(st.lists(rows(), max_size=8), st.sampled_from(["\n", "\r\n"]), st.integers(1, 400))
def test_columns_are_what_row_by_row_gives(texts: list[str], line_end: str, chunk: int) -> None:
    data = "".join(text + line_end for text in [",".join(NAMES), *texts]).encode()
    with mock.patch.object(memory_block, "_check"), mock.patch.object(table_lines, "CHUNK_BYTES", chunk):
        assert outcome(memory_block.read, data) == outcome(row_by_row, data)


@settings(max_examples=60)
@given(st.sampled_from(sorted(TEXTS)), st.integers(1, 3000), st.data())
def test_the_size_of_a_chunk_changes_nothing(file: str, chunk: int, data: st.DataObject) -> None:
    text = bytearray(TEXTS[file])
    for _ in range(data.draw(st.integers(0, 3), "changes")):
        place = data.draw(st.integers(0, len(text) - 1), "place")
        text[place : place + data.draw(st.integers(0, 3), "lost")] = data.draw(
            st.sampled_from([b"", b"\n", b"\r\n", b"\0", b"\xff", b",", b"9", b"}", b'"', b"\n\n", b"x" * 900]), "new"
        )
    limit = data.draw(st.sampled_from([800, table_lines.MAX_LINE_BYTES]), "limit")
    with mock.patch.object(table_lines, "MAX_LINE_BYTES", limit):
        whole = outcome(READERS[file], bytes(text))
        with mock.patch.object(table_lines, "CHUNK_BYTES", chunk):
            assert outcome(READERS[file], bytes(text)) == whole


@given(
    st.lists(
        st.builds(
            Block,
            start=st.integers(0, 99),
            end=st.none() | st.integers(100, 200),
            address=st.integers(0, 2**47),
            size_bytes=st.integers(0, 2**40),
            stream=st.integers(0, 9),
            pool=st.sampled_from(["Ascend", "Other"]),
            kind=st.sampled_from(["Weight", "Kernel"]),
            task=st.none() | st.integers(0, 99),
            task_name=st.text(max_size=3),
            node=st.text(max_size=3),
            users=st.lists(st.integers(0, 99), max_size=3).map(tuple),
            is_persistent=st.booleans(),
            used_bytes=st.integers(0, 2**40),
            pool_peak_bytes=st.integers(0, 2**40),
        ),
        max_size=9,
    )
)
def test_rows_become_columns_and_rows_again(made: list[Block]) -> None:
    blocks = Blocks.of(made)
    assert list(blocks) == made
    assert [blocks[place] for place in range(-len(made), 0)] == made
    for on_host in (False, True):
        chosen = [block for block in made if block.on_host == on_host]
        assert blocks.peak_bytes(on_host=on_host) == max(
            (
                sum(
                    block.size_bytes
                    for block in chosen
                    if block.start <= now and (block.end is None or block.end > now)
                )
                for now in range(201)
            ),
            default=0,
        )
