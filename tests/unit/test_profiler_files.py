"""Files of the profilers of MindSpore and torch_npu.

No real card was at hand. The columns are those of the tools: MindSpore 2.9.0 as installed (held against it in
tests/mindspore/test_profiler_columns.py), torch_npu as in its manual and sources. Of the rows, those named ``Graph_21``
and the first of ``GE`` are the ones of torch_npu's own unit tests (TestGeOpMemoryBean, TestGeMemoryRecordBean); the
others were written for these tests in the same form.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swapconf.files import table_lines
from swapconf.profile import memory_record, operator_memory
from swapconf.profile.memory_profile import BEFORE, UNKNOWN, Curve
from swapconf.trace.lifetimes import NEVER
from swapconf.words.findings import Finding, SwapconfError

FULL = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type"
)
TORCH = f"""{FULL}
cann::Graph_21,192,16995.950\t,17088.550\t,,92.6,,0.1875,490.5625,,0.0,490.5625,,,NPU:0
aten::empty_strided,0.5,1700000000123456.789\t,1700000000123457.000\t,1700000000123458.100\t,0.211,1.311,0.5,2.0,0.5,\
0.0,2.0,0.0,187651392,NPU:0
"aten::add, out",512.0,1700000000123460.001\t,,,,,1.0,2.0,1.0,,,,187651392,NPU:1
aten::view,512.0,1700000000123460.001\t,,1700000000123470.001\t,,10,1.0,2.0,1.0,0.5,2.0,0.5,187651392,NPU:1
,-20.0,1700000000123499.5\t,,,,,0.5,2.0,0.5,,,,187651392,NPU:0
"""
OLD_TORCH = """\
Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us),Allocation Total Allocated(MB),\
Allocation Total Reserved(MB),Release Total Allocated(MB),Release Total Reserved(MB),Device Type
aten::mul,4,10.5,12.25,1.75,1,2,1,2,NPU:0
"""
MINDSPORE = f"""{FULL}
Default/MatMul-op0,4096.0,1700000000000.25,1700000000010.5,N/A,10.25,N/A,4.0,10.0,4.0,0.0,10.0,0.0,0,NPU:3
Default/Add-op0,0.5,1700000000011.0,N/A,N/A,N/A,N/A,4.00048828125,10.0,4.00048828125,N/A,N/A,N/A,0,NPU:3
"""
MSPROF = """\
Device_id,Name,Size(KB),Allocation Time(us),Duration(us),Allocation Total Allocated(KB),\
Allocation Total Reserved(KB),Release Total Allocated(KB),Release Total Reserved(KB),Device
0,Graph_21,192,16995.950\t,92.6,192,502336,0,502336,NPU:0
"""

TORCH_RECORD = """\
Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type
GE,1699.550\t,0.1875,490.5625,,,NPU:0
PTA,1700.001\t,2.0,20.0,3.0,187651392,NPU:0
PTA+GE,1700.001\t,2.1875,510.5625,3.0,187651392,NPU:0
PTA,1690.5\t,1.0,10.0,1.0,187651392,NPU:0
APP,1695\t,,600.0,,,NPU:0
"""
RECORD = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Device Type"
MINDSPORE_RECORD = f"""{RECORD}
MindSpore,1700.25,0.525,1.05,0.5,NPU:0
MindSpore+GE,1700.25,0.525,1.05,0.5,NPU:0
APP,1700.0,0.0,2.0,0.0,NPU:0
"""
MSPROF_RECORD = """\
Device_id,Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device
0,GE,1699.550\t,192,502336,NPU:0
"""


def written(folder: Path, text: str, line_end: str = "\r\n") -> Path:
    """The tools write with Python's csv module, which ends lines so."""
    path = folder / "profile.csv"
    path.write_bytes(text.replace("\n", line_end).encode())
    return path


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_operators_of_torch_npu(tmp_path: Path, line_end: str) -> None:
    table = operator_memory.read(written(tmp_path, TORCH, line_end))
    start = 1700000000123456789
    assert table.start_ns.tolist() == [16995950, start, start + 3212, start + 3212, BEFORE]
    assert table.end_ns.tolist() == [17088550, start + 211, NEVER, start + 13212, start + 42711]
    assert table.size_bytes.tolist() == [192 * 1024, 512, 512 * 1024, 512 * 1024, 20 * 1024]
    assert [table.names[code] for code in table.name] == [
        "cann::Graph_21",
        "aten::empty_strided",
        "aten::add, out",
        "aten::view",
        "",
    ]
    assert [table.streams[code] for code in table.stream] == ["", *["187651392"] * 4]
    assert [table.devices[code] for code in table.device] == ["NPU:0", "NPU:0", "NPU:1", "NPU:1", "NPU:0"]
    assert table.allocated_bytes.tolist()[:2] == [192 * 1024, 512 * 1024]
    assert table.reserved_bytes.tolist()[0] == 502336 * 1024
    assert table.is_alive_at_end.tolist() == [False, False, True, False, False]


def test_operators_of_mindspore(tmp_path: Path) -> None:
    table = operator_memory.read(written(tmp_path, MINDSPORE))
    assert table.start_ns.tolist() == [1700000000000250, 1700000000011000]
    assert table.end_ns.tolist() == [1700000000010500, NEVER]
    assert table.allocated_bytes.tolist() == [2**22, 2**22 + 512]


def test_operators_of_older_torch_npu_and_of_msprof(tmp_path: Path) -> None:
    old = operator_memory.read(written(tmp_path, OLD_TORCH))
    assert (old.start_ns.tolist(), old.end_ns.tolist(), old.streams) == ([10500], [12250], ("",))
    msprof = operator_memory.read(written(tmp_path, MSPROF))
    assert (msprof.end_ns.tolist(), msprof.reserved_bytes.tolist()) == ([17088550], [502336 * 1024])


def test_records_of_torch_npu(tmp_path: Path) -> None:
    curves = {curve.component: curve for curve in memory_record.read(written(tmp_path, TORCH_RECORD))}
    assert list(curves) == ["GE", "PTA", "PTA+GE", "APP"]
    assert told(curves["GE"]) == [(1699550, 192 * 1024, 502336 * 1024, UNKNOWN)]
    assert told(curves["PTA"]) == [(1690500, 2**20, 10 * 2**20, 2**20), (1700001, 2**21, 20 * 2**20, 3 * 2**20)]
    assert (curves["PTA"].allocated_peak_bytes, curves["PTA"].reserved_peak_bytes) == (2**21, 20 * 2**20)
    assert told(curves["APP"]) == [(1695000, UNKNOWN, 600 * 2**20, UNKNOWN)]


def test_a_megabyte_of_mindspore_is_a_thousand_kilobytes(tmp_path: Path) -> None:
    """AscendMemoryViewer of MindSpore 2.9.0 divides bytes by 1024 and then by 1000."""
    first, _, app = memory_record.read(written(tmp_path, MINDSPORE_RECORD))
    assert told(first) == [(1700250, 1050 * 512, 2100 * 512, 1000 * 512)]
    assert app.reserved_peak_bytes == 2048000


def test_records_of_msprof(tmp_path: Path) -> None:
    (curve,) = memory_record.read(written(tmp_path, MSPROF_RECORD))
    assert (curve.device, told(curve)) == ("NPU:0", [(1699550, 192 * 1024, 502336 * 1024, UNKNOWN)])


def told(curve: Curve) -> list[tuple[int, ...]]:
    return list(
        zip(
            curve.time_ns.tolist(),
            curve.allocated_bytes.tolist(),
            curve.reserved_bytes.tolist(),
            curve.active_bytes.tolist(),
            strict=True,
        )
    )


def refused(path: Path) -> Finding:
    reader = memory_record if "Component" in path.read_text(encoding="utf-8").partition("\n")[0] else operator_memory
    with pytest.raises(SwapconfError) as caught:
        reader.read(path)
    assert len(caught.value.findings) == 1
    assert all("swapconf dryrun" not in finding.hint for finding in caught.value.findings)
    return caught.value.findings[0]


@pytest.mark.parametrize(
    ("text", "rule", "line", "words"),
    [
        (TORCH.replace("Name", "Title"), "trace-header", 1, "no column Name in"),
        (
            TORCH_RECORD.replace("Timestamp(us),Total Allocated(MB)", "When,What"),
            "trace-header",
            1,
            "no column Timestamp, Total Allocated in",
        ),
        (
            OLD_TORCH.replace("Release Time(us),Duration", "X,Y"),
            "trace-garbled",
            1,
            "no column Release Time or Duration",
        ),
        (TORCH.replace("Size(KB)", "Size(GB)"), "trace-garbled", 1, "the unit of Size is 'GB'"),
        (TORCH.replace("aten::empty_strided,0.5", "aten::empty_strided,0x5"), "trace-garbled", 3, "Size is '0x5'"),
        (TORCH.replace("aten::empty_strided,0.5", "aten::empty_strided,"), "trace-garbled", 3, "Size is empty"),
        (TORCH.replace("aten::empty_strided,0.5", "aten::empty_strided,1e999999"), "trace-garbled", 3, "Size is '1e99"),
        (TORCH.replace("aten::empty_strided,0.5", "aten::empty_strided,-1e3092048"), "trace-garbled", 3, "Size is '-1"),
        (TORCH.replace("aten::empty_strided,0.5", "aten::empty_strided,inf"), "trace-garbled", 3, "Size is 'inf'"),
        (TORCH.replace("1700000000123457.000", "17"), "trace-garbled", 3, "before it is allocated"),
        (TORCH.replace("17088.550\t,,", ""), "trace-garbled", 2, "13 values, where the header names 15"),
        (TORCH.replace('out"', "out"), "trace-garbled", 6, "unexpected end of data"),
        (TORCH[:-8], "trace-truncated", 6, "breaks off"),
        (TORCH_RECORD.replace("GE,1699.550", ",1699.550"), "trace-garbled", 2, "Component is empty"),
        (TORCH_RECORD.replace("1690.5", "N/A"), "trace-garbled", 5, "Timestamp is empty"),
        (TORCH_RECORD.replace("1.0,10.0", "-1.0,10.0"), "trace-garbled", 5, "negative"),
        (TORCH_RECORD[:-4], "trace-truncated", 6, "breaks off"),
        ("", "trace-truncated", 0, "empty"),
    ],
)
def test_damage(tmp_path: Path, text: str, rule: str, line: int, words: str) -> None:
    finding = refused(written(tmp_path, text))
    assert (finding.rule, finding.origin.line) == (rule, line)
    assert words in finding.message


def test_missing(tmp_path: Path) -> None:
    for reader in (operator_memory, memory_record):
        with pytest.raises(SwapconfError) as caught:
            reader.read(tmp_path / "none.csv")
        assert caught.value.findings[0].rule == "file-not-found"
        assert "ASCEND_PROFILER_OUTPUT" in caught.value.findings[0].hint


def test_the_size_of_a_chunk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, TORCH)
    whole = operator_memory.read(path)
    for size in (1, 2, 7, 100):
        monkeypatch.setattr(table_lines, "CHUNK_BYTES", size)
        assert operator_memory.read(path).end_ns.tolist() == whole.end_ns.tolist()
