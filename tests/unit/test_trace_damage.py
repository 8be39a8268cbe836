"""A damaged trace gives a finding with file and line, never numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from swapconf.files import table_lines
from swapconf.trace import execute_order, memory_block, task_table, trace_folder, tracker_graph
from swapconf.trace.lifetimes import NEVER
from swapconf.words.findings import Finding, SwapconfError
from swapconf.words.units import GIB
from tests.helpers import TRACES
from tests.unit.test_trace_files import FRESH, TASKS, written

SOURCE = TRACES / "llama_l2_none"
READERS: dict[str, Callable[[Path], object]] = {
    "memory_block.csv": memory_block.read,
    "execute_order.csv": execute_order.read,
    "tracker_graph.ir": tracker_graph.read,
}
FILES = pytest.mark.parametrize("name", READERS)


def refused(path: Path) -> Finding:
    """The first finding of a file that cannot be read."""
    with pytest.raises(SwapconfError) as caught:
        READERS[path.name](path)
    findings = caught.value.findings
    assert all(finding.origin.file == str(path) for finding in findings)
    assert len(findings) <= table_lines.MAX_FINDINGS
    return findings[0]


def changed(folder: Path, name: str, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    path = folder / name
    path.write_bytes(b"".join(change((SOURCE / name).read_bytes().splitlines(keepends=True))))
    return path


@FILES
@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_broken_off(tmp_path: Path, name: str, share: float) -> None:
    data = (SOURCE / name).read_bytes()
    path = tmp_path / name
    cut = data[: int(len(data) * share)].rstrip(b"\n")
    path.write_bytes(cut)
    finding = refused(path)
    assert (finding.rule, finding.origin.line) == ("trace-truncated", cut.count(b"\n") + 1)


@FILES
def test_empty(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    assert refused(path).rule == "trace-truncated"


@FILES
def test_missing_or_a_folder(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path / name).rule == "file-not-found"
    (tmp_path / name).mkdir()
    assert refused(tmp_path / name).rule == "file-not-found"


@FILES
@pytest.mark.parametrize("bad", [b"\0" * 40 + b"\n", b"(\xff\xfe)\n"])
def test_not_text(tmp_path: Path, name: str, bad: bytes) -> None:
    finding = refused(changed(tmp_path, name, lambda lines: [*lines[:20], bad, *lines[20:]]))
    assert (finding.rule, finding.origin.line) == ("trace-encoding", 21)


@FILES
def test_a_line_without_end(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_lines, "MAX_LINE_BYTES", 5000)
    finding = refused(changed(tmp_path, name, lambda lines: [*lines[:20], b"a" * 9000 + b"\n", *lines[20:]]))
    assert (finding.rule, finding.origin.line) == ("trace-garbled", 21)
    assert "more than 5,000 bytes" in finding.message


@FILES
def test_words_in_between(tmp_path: Path, name: str) -> None:
    finding = refused(changed(tmp_path, name, lambda lines: [*lines[:21], b"[WARNING] hello\n", *lines[21:]]))
    assert (finding.rule, finding.origin.line) == ("trace-garbled", 22)


@FILES
def test_another_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("name,duration\n" + "a,1\n" * 1000, encoding="utf-8")
    assert refused(path).rule == ("trace-garbled" if name.endswith(".ir") else "trace-header")


@pytest.mark.parametrize("name", ["memory_block.csv", "execute_order.csv"])
@pytest.mark.parametrize("line", [1, 40, 300, 700])
def test_a_row_is_missing(tmp_path: Path, name: str, line: int) -> None:
    finding = refused(changed(tmp_path, name, lambda lines: lines[:line] + lines[line + 1 :]))
    assert finding.rule == "trace-garbled"
    assert finding.origin.line >= line + 1


@pytest.mark.parametrize("line", [200, 401])
def test_half_a_task_is_missing(tmp_path: Path, line: int) -> None:
    path = changed(tmp_path, "tracker_graph.ir", lambda lines: lines[:line] + lines[line + 1 :])
    assert refused(path).rule == "trace-garbled"


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (0, "", "start_time_stamp is ''"),
        (0, "-3", "start_time_stamp is '-3'"),
        (1, "1", "freed at 1"),
        (2, "0xzz", "device_addr is '0xzz'"),
        (4, "", "pool_type is empty"),
        (5, "5_12", "size is '5_12'"),
        (5, "9" * 30, "size is '999"),
        (5, "٣", "size is"),
        (5, str(2**63), "size is '9223372036854775808', which is too large"),
        (2, "0x" + "f" * 16, "device_addr is '0xffffffffffffffff', which is too large"),
        (3, "0x1", "stream_id is '0x1'"),
        (10, "x", "producer_task is 'x'"),
        (14, "{652}664}", "user_tasks is '652}664'"),
        (14, "652-664", "user_tasks is '652-664'"),
        (14, "{652-}", "user_tasks is ''"),
        (16, "1,2,3", "20 values, where the header names 18"),
    ],
)
def test_garbled_block(tmp_path: Path, column: int, value: str, words: str) -> None:
    def change(lines: list[bytes]) -> list[bytes]:
        cells = lines[7].decode().split(",")
        cells[column] = value
        return [*lines[:7], ",".join(cells).encode(), *lines[8:]]

    finding = refused(changed(tmp_path, "memory_block.csv", change))
    assert (finding.rule, finding.origin.line) == ("trace-garbled", 8)
    assert words in finding.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{[0]: ", "{[9]: "),
        ("ValueNode<Primitive>", "Primitive"),
        ('","', ","),
        ("@", ""),
        ('"11"', '"x"'),
        ('"0"', '"a"'),
    ],
)
def test_garbled_kernel(tmp_path: Path, old: str, new: str) -> None:
    path = changed(
        tmp_path,
        "execute_order.csv",
        lambda lines: [*lines[:11], lines[11].replace(old.encode(), new.encode(), 5), *lines[12:]],
    )
    finding = refused(path)
    assert (finding.rule, finding.origin.line) == ("trace-garbled", 12)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("task_info: ", "task: ", 8),
        ("(%8)", "(%x)", 8),
        (", attrs {", ", ", 8),
        ("=0}", "=0", 8),
        (") = ", ") ", 8),
        (" <- ", " ", 8),
        ("Float32:[1]", "Float32:[1", 8),
        ("[1]", "[1-2]", 8),
        ("[1]", "[, ]", 8),
    ],
)
def test_garbled_task(tmp_path: Path, old: str, new: str, line: int) -> None:
    def change(lines: list[bytes]) -> list[bytes]:
        return [*lines[:6], *(part.replace(old.encode(), new.encode()) for part in lines[6:8]), *lines[8:]]

    finding = refused(changed(tmp_path, "tracker_graph.ir", change))
    assert (finding.rule, finding.origin.line) == ("trace-garbled", line)


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SwapconfError) as caught:
        memory_block.read(
            changed(tmp_path, "memory_block.csv", lambda lines: [*lines[:3], b"x,y\n", *lines[3:5], b"\n", *lines[5:]])
        )
    assert [finding.origin.line for finding in caught.value.findings] == [4, 7]


@pytest.mark.parametrize(
    ("old", "new", "rule", "line", "words"),
    [
        ("graph_name", "graph", "trace-header", 1, "no column graph_name"),
        ("0,PyNative", "x,PyNative", "trace-garbled", 2, "time_stamp is 'x'"),
        ("140,,", "", "trace-garbled", 3, "6 values, where the header names 8"),
        ("0,PyNative", "3,PyNative", "trace-garbled", 3, "task 3 stands behind task 3"),
    ],
)
def test_garbled_table_of_tasks(tmp_path: Path, old: str, new: str, rule: str, line: int, words: str) -> None:
    with pytest.raises(SwapconfError) as caught:
        task_table.read(written(tmp_path, "task.csv", TASKS.replace(old, new, 1)))
    (finding,) = caught.value.findings
    assert (finding.rule, finding.origin.line) == (rule, line)
    assert words in finding.message


def test_a_comma_too_many_in_a_stack_is_none_in_the_columns_behind(tmp_path: Path) -> None:
    """The values behind the stack are counted from the right, so a value too few or too many moves into it."""
    lost = FRESH.replace("a.cc,393,PyNativeInput,0,PyNative", "a.cc,393,PyNativeInput,PyNative", 1)
    with pytest.raises(SwapconfError) as caught:
        memory_block.read(written(tmp_path, "memory_block.csv", lost))
    assert caught.value.findings[0].origin.line == 2


# --- files that do not belong together ------------------------------------------------------------------------------


@FILES
@pytest.mark.parametrize("lost", [30, 200])
def test_a_file_cut_between_two_lines(tmp_path: Path, name: str, lost: int) -> None:
    for file in READERS:
        shutil.copy(SOURCE / file, tmp_path / file)
    changed(tmp_path, name, lambda lines: lines[:-lost])
    with pytest.raises(SwapconfError) as caught:
        trace_folder.read(tmp_path, rank=0)
    (finding,) = caught.value.findings
    assert (finding.rule, finding.origin.file) == ("trace-incomplete", str(tmp_path / name))


def test_the_damage_of_all_files_is_told_together(tmp_path: Path) -> None:
    with pytest.raises(SwapconfError) as caught:
        trace_folder.read(tmp_path, rank=0)
    assert [Path(finding.origin.file).name for finding in caught.value.findings] == [
        "execute_order.csv",
        "memory_block.csv",
    ]


def test_the_table_of_tasks_is_a_witness_of_the_graph(tmp_path: Path) -> None:
    for file in READERS:
        shutil.copy(SOURCE / file, tmp_path / file)
    events = [task.event for task in trace_folder.read(tmp_path, rank=0).tasks]
    head = "time_stamp,task_name,node_name,graph_name,file_name,line_num,python_stack,\n"
    rows = [f"{event},Actor,Node,,a.cc,1,,\n" for event in events]
    written(tmp_path, "task.csv", head + "".join(rows))
    assert len(trace_folder.read(tmp_path, rank=0).tasks) == len(events)
    written(tmp_path, "task.csv", head + "".join(rows[:-1]))
    with pytest.raises(SwapconfError) as caught:
        trace_folder.read(tmp_path, rank=0)
    (finding,) = caught.value.findings
    assert (finding.rule, finding.origin.file) == ("trace-incomplete", str(tmp_path / "task.csv"))


def test_blocks_of_impossible_size_are_no_trace(tmp_path: Path) -> None:
    """Their sums and addresses would not fit into 64 bits."""
    path = tmp_path / "memory_block.csv"
    _add_blocks(path, 2**60, count=8)
    finding = refused(path)
    assert finding.rule == "trace-garbled"
    assert "more than any run allocates" in finding.message


@pytest.mark.parametrize("command", ["fragmentation", "memory"])
def test_a_block_of_an_exbibyte_costs_no_more_than_another(tmp_path: Path, command: str) -> None:
    shutil.copytree(SOURCE, tmp_path / "trace")
    _add_blocks(tmp_path / "trace" / "memory_block.csv", 2**60)
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, ({GIB}, {GIB})); "
        "from swapconf.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, command, str(tmp_path / "trace")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode in (0, 1), done.stderr
    assert "10737418" in done.stdout  # GiB


def _add_blocks(path: Path, size_bytes: int, count: int = 1) -> None:
    """Rows behind the others, each block gone before the next; all sums are right."""
    rows = [line.split(",") for line in (SOURCE / path.name).read_text(encoding="utf-8").splitlines()]
    places = {name: index for index, name in enumerate(rows[0])}
    blocks = memory_block.read(SOURCE / path.name)
    start = max(int(blocks.start.max()), int(blocks.end[blocks.end != NEVER].max()))
    used = int(blocks.size_bytes[(blocks.end == NEVER) & ~blocks.on_host].sum()) + size_bytes
    for _ in range(count):
        start, row = start + 2, list(rows[-1])
        for name, value in {
            "start_time_stamp": start,
            "end_time_stamp": start + 1,
            "size": size_bytes,
            "actual_used_memory": used,
            "actual_peak_memory": used,
            "user_tasks": "{}",
            "producer_task": "",
        }.items():
            row[places[name]] = str(value)
        rows.append(row)
    path.write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")


def test_blocks_without_a_row_are_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "memory_block.csv"
    path.write_bytes((SOURCE / path.name).read_bytes().splitlines(keepends=True)[0])
    finding = refused(path)
    assert finding.rule == "trace-incomplete"
    assert "no block below the header" in finding.message
