"""The tracker's files of a PyNative run are kept without the stacks of Python frames."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from swapconf.dryrun.pynative import stacks
from swapconf.trace import trace_folder
from tests.helpers import TRACES, unpacked

FOLDER = unpacked(TRACES / "pynative" / "qwen3_l2_none")
FRAMES = "File:<frozen runpy>;Line:88;Function:_run_code|File:/a, b/model.py;Line:7;Function:construct|"


@pytest.mark.parametrize("inner", [".", "rank_3"])
def test_stacks_go_and_all_else_stays(tmp_path: Path, inner: str) -> None:
    folder = tmp_path / inner
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    table, graph = folder / "memory_block.csv", folder / "tracker_graph.ir"
    plain_table, plain_graph = table.read_text(), graph.read_text()
    head, *rows = plain_table.splitlines(keepends=True)
    place = head.split(",").index("graph_name")
    table.write_text(head + "".join(_with(row, place) for row in rows))
    lines = plain_graph.splitlines(keepends=True)
    graph.write_text("".join(f"{line}    # {FRAMES}\n" if line.startswith("(") else line for line in lines))
    stacks.leave_out(tmp_path)
    assert table.read_text() == plain_table
    assert graph.read_text() == plain_graph
    assert trace_folder.read(folder, 0).tasks


def _with(row: str, place: int) -> str:
    fields = row.split(",")
    fields[place] = fields[place] or FRAMES
    return ",".join(fields)
