"""What profilers and msMemScope tell of the memory of a real run: read by `oom` and `memory`, or refused by name."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from swapconf.postmortem import measured
from swapconf.postmortem.held import BEFORE
from swapconf.profile import device_memory, leak_dump, profile_files
from swapconf.profile.device_memory import DeviceMemory, ModuleMemory
from swapconf.profile.known_files import KNOWN, FileKind, of_file, of_name
from swapconf.profile.profile_files import ProfileFiles
from swapconf.profile.profiler_csv import KIB
from swapconf.words.units import MIB
from tests.helpers import ROOT, TRACES, invoke
from tests.unit.profile_folders import (
    MODULES_KB,
    OPERATORS,
    TORCH_OPERATORS,
    TORCH_RECORD,
    TORCH_STEPS,
    WAITING,
    profile,
    ranks,
)


def told(command: str, path: Path) -> Any:
    result = invoke(command, path, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def of(path: Path) -> ProfileFiles:
    (files,) = profile_files.find(path, measured.READS)
    return files


def device(path: Path) -> DeviceMemory:
    (found,) = device_memory.read(of(path))
    return found


# --- a profile of torch_npu -------------------------------------------------------------------------------------------


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    return profile(
        tmp_path / "ASCEND_PROFILER_OUTPUT",
        {
            "memory_record.csv": TORCH_RECORD,
            "operator_memory.csv": TORCH_OPERATORS,
            "kernel_details.csv": WAITING,
            "step_trace_time.csv": TORCH_STEPS,
        },
    )


def test_what_the_driver_counts_beyond_the_pool_lies_outside_of_it(torch: Path) -> None:
    found = device(torch)
    assert found.used_bytes == int(10282.7490234375 * MIB)
    assert found.reserved_bytes == 10372 * MIB
    assert found.process_bytes == int(11925.015625 * MIB)
    assert found.outside_bytes == int(1553.015625 * MIB)


@pytest.mark.parametrize("command", ["oom", "memory"])
def test_both_commands_tell_it_from_the_folder_the_one_above_and_the_file(command: str, torch: Path) -> None:
    for path in (torch, torch.parent, torch / "memory_record.csv"):
        record = told(command, path)
        record = record[0] if command == "memory" else record
        assert record["device_memory"]["outside_bytes"] == int(1553.015625 * MIB)
        output = invoke(command, path).output
        assert "counts 11.65G for the process" in output
        assert "1.52G of that in no pool" in output
        assert "--beside 1.52GB" in output


def test_what_was_held_before_the_profiler_began_is_in_no_row_and_counts(torch: Path) -> None:
    held = measured.read(of(torch)).held
    assert held is not None
    assert held.peak_bytes == int(10282.7490234375 * MIB)
    by_name = dict(held.by_category)
    assert by_name["aten::matmul"] == 49152 * KIB + 512
    assert sum(by_name.values()) == held.peak_bytes
    assert by_name[BEFORE] > 10_000 * MIB
    assert held.made_by.name == "npu::npu_fusion_attention_grad"


def test_each_launch_with_a_gradient_means_that_nothing_ran_again(torch: Path) -> None:
    assert told("memory", torch)[0]["repeated"] == [{"operator": "FlashAttentionScore", "forward": 1, "gradient": 1}]
    for command in ("memory", "oom"):
        assert (
            "nothing was recomputed: FlashAttentionScore ran 1 times, its gradient 1" in invoke(command, torch).output
        )


def test_a_profile_has_no_page(torch: Path, tmp_path: Path) -> None:
    result = invoke("memory", torch, "--html", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "a profile does not tell where they lie" in result.output


def test_traces_and_profiles_stand_beside_each_other(torch: Path) -> None:
    trace, found = json.loads(invoke("memory", TRACES / "llama_l2_none", torch, "--format", "json").stdout)
    assert trace["trace"].endswith("llama_l2_none")
    assert found["profile"] == str(torch)


# --- other tools, versions and layouts --------------------------------------------------------------------------------


def test_of_mindspore_a_megabyte_is_a_thousand_kilobytes_and_modules_say_whose_it_is(tmp_path: Path) -> None:
    """Its memory_record.csv counts ranks, its npu_module_mem.csv, which is that of msprof, devices."""
    folder = profile(
        tmp_path,
        {
            "memory_record.csv": "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),"
            "Device Type\n"
            "MindSpore,1700.25,1048.576,2097.152,0.0,NPU:8\nMindSpore+GE,1700.25,1048.576,2097.152,0.0,NPU:8\n"
            "APP,1800.0,0.0,3145.728,0.0,NPU:8\n",
            "npu_module_mem.csv": MODULES_KB,
        },
    )
    found = device(folder)
    assert found.device == "NPU:8"
    assert found.used_bytes == 1024 * 1024 * KIB
    assert found.reserved_bytes == 2048 * 1024 * KIB
    assert found.outside_bytes == (3072 - 2048) * 1024 * KIB
    assert found.modules == (
        ModuleMemory(module="APP", most_bytes=2048 * MIB, is_pool=True),
        ModuleMemory(module="HCCL", most_bytes=800 * MIB, is_pool=False),
        ModuleMemory(module="RUNTIME", most_bytes=100 * MIB, is_pool=False),
    )
    assert "1.00G of that in no pool: HCCL 800.0M, RUNTIME 100.0M" in invoke("memory", folder).output


def test_a_module_of_which_only_releases_were_seen_is_not_told(tmp_path: Path) -> None:
    """-1 KB of msprof is -0.0009765625 MB of torch_npu."""
    megabytes = (
        "Device_id,Component,Timestamp(us),Total Reserved(MB),Device\n"
        "0,HCCL,1700.0,800.0,NPU:0\n0,TDT,1700.0,-0.0009765625,NPU:0\n"
    )
    folder = profile(tmp_path, {"npu_module_mem.csv": megabytes})
    assert [(one.module, one.most_bytes) for one in device(folder).modules] == [("HCCL", 800 * MIB)]


def test_without_the_pool_of_a_framework_modules_tell_what_lies_outside(tmp_path: Path) -> None:
    """msprof knows the graph engine's pool alone: what the driver counts beyond that is no answer."""
    folder = profile(
        tmp_path / "PROF_000001_20260102030405_ABC" / "mindstudio_profiler_output",
        {
            "memory_record_20260102030405.csv": "Device_id,Component,Timestamp(us),Total Allocated(KB),"
            "Total Reserved(KB),Device\n0,GE,1700.0,1024,2048,NPU:0\n",
            "npu_mem_20260102030405.csv": "Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)\n"
            "0,APP,0.0,4194304.0,4194304.0,1700.0\n0,Device,0.0,8388608.0,8388608.0,1700.0\n",
            "npu_module_mem_20260102030405.csv": MODULES_KB,
        },
    )
    for path in (folder, tmp_path):
        found = device(path)
        assert (found.process_bytes, found.card_bytes) == (4096 * MIB, 8192 * MIB)
        assert found.outside_bytes == 850 * MIB
    assert "8.00G held by all processes" in invoke("memory", tmp_path).output


@pytest.mark.parametrize("ending", ["pt", "ms"])
def test_of_several_ranks_the_fullest_is_told_whole_and_all_beside_each_other(ending: str, tmp_path: Path) -> None:
    fuller = TORCH_RECORD.replace("11925.015625", "12949.015625")
    ranks(tmp_path, ending, {0: {"memory_record.csv": TORCH_RECORD}, 1: {"memory_record.csv": fuller}})
    found = told("oom", tmp_path)["profiles"]
    assert [one["rank"] for one in found] == [0, 1]
    output = invoke("oom", tmp_path).output
    assert "rank 1, measured" in output
    assert [one["rank"] for one in told("memory", tmp_path)] == [0, 1]


def test_logs_of_a_run_come_before_profiles_that_lie_below_them(tmp_path: Path) -> None:
    ranks(tmp_path, "ms", {0: {"memory_record.csv": TORCH_RECORD}})
    (tmp_path / "worker_0.log").write_text("nothing of memory\n")
    assert "no failed allocation is told" in invoke("oom", tmp_path).output


def test_slices_are_one_table_and_of_two_exports_the_newest_counts(tmp_path: Path) -> None:
    header, first, *rest = TORCH_OPERATORS.splitlines(keepends=True)
    profile(
        tmp_path,
        {
            "operator_memory_20260101000000.csv": header + first,
            "operator_memory_20260202000000.csv": header + first,
            "operator_memory_slice_1_20260202000001.csv": "".join([header, *rest]),
        },
    )
    held = measured.read(of(tmp_path)).held
    assert held is not None
    assert held.num_blocks == 2


def test_what_swapconf_simulated_is_not_taken_for_a_card(tmp_path: Path) -> None:
    output = profile(tmp_path / "ASCEND_PROFILER_OUTPUT", {"memory_record.csv": TORCH_RECORD})
    (tmp_path / "profiler_metadata.json").write_text('{"swapconf": "simulated, not profiled"}')
    assert told("memory", output)[0]["simulated"]
    assert "a simulated step, not a card" in invoke("memory", output).output


def test_a_wrong_line_is_told_with_its_place(tmp_path: Path) -> None:
    folder = profile(tmp_path, {"npu_module_mem.csv": MODULES_KB.replace("819200", "much")})
    result = invoke("memory", folder)
    assert result.exit_code == 2
    assert "npu_module_mem.csv:3:1" in result.output.replace("\n", "")


# --- graphs that GE compiled ------------------------------------------------------------------------------------------

STATIC = """\
Device_id,Op Name,Model Name,Graph ID,Node Index Start,Node Index End,Size(KB)
0,trans_data_1,0,1,0,4294967295,1024
0,conv_1,0,1,2,5,4096
0,conv_2,0,1,5,9,2048
0,relu_1,0,1,4,6,512
0,conv_1,0,2,0,3,3072
0,TOTAL,,,,,10752
"""


def test_the_peak_of_a_compiled_graph_is_where_most_of_it_is_alive(tmp_path: Path) -> None:
    """A release and a birth at one place do not overlap; the sum of all in the last row is no operator."""
    path = profile(tmp_path, {"static_op_mem_20260102030405.csv": STATIC}) / "static_op_mem_20260102030405.csv"
    record = told("oom", path)
    assert record["peak_bytes"] == (1024 + 4096 + 512) * KIB
    assert record["device"] == "NPU:0, graph 1"
    assert record["not_released_bytes"] == 1024 * KIB
    assert told("memory", tmp_path)[0]["peak_bytes"] == record["peak_bytes"]


# --- dumps of msMemScope ----------------------------------------------------------------------------------------------

EVENTS = (
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n"
)
OLD_DUMP = f"""{EVENTS}\
1,SYSTEM,acl init,N/A,10,7,7,N/A,N/A,,,
2,MALLOC,HAL,N/A,11,7,7,0,100,"{{addr:100,size:2097152,owner:,MID:33}}",,
3,MALLOC,HAL,N/A,12,7,7,0,200,"{{addr:200,size:1048576,owner:,MID:3}}",,
4,MALLOC,HAL,N/A,13,7,7,host,300,"{{addr:300,size:9999,owner:,MID:7}}",,
5,MALLOC,PTA,N/A,14,7,7,0,101,"{{addr:101,size:1024,owner:,total:2097152,used:1024,MID:33}}",,
6,FREE,HAL,N/A,15,7,9,N/A,200,"{{addr:200,size:1048576,owner:,MID:-1}}",,
"""
NEW_DUMP = f"""{EVENTS}\
1,OP_LAUNCH,ATEN_START,aten.addmm,10,7,7,0,N/A,,,
2,OP_LAUNCH,ATEN_START,aten.mm,11,7,7,0,N/A,,,
3,MALLOC,PTA,N/A,12,7,7,0,0x100,"{{allocation_id:1,addr:0x100,size:4096,total:20971520,used:4096}}",,
4,OP_LAUNCH,ATEN_END,aten.mm,13,7,7,0,N/A,,,
5,MALLOC,PTA,N/A,14,7,7,0,0x200,"{{allocation_id:2,addr:0x200,size:8192,total:20971520,used:12288}}",,
6,OP_LAUNCH,ATEN_END,aten.addmm,15,7,7,0,N/A,,,
7,FREE,PTA,N/A,16,7,7,0,0x100,"{{allocation_id:1,addr:0x100,size:4096,total:20971520,used:8192}}",,
8,MALLOC,PTA,N/A,17,7,7,0,0x300,"{{addr:0x300,size:512,owner:PTA@model@weight,total:20971520,used:8704}}",,
9,MALLOC,HOST,N/A,18,7,7,host,0x900,"{{addr:0x900,size:777}}",,
10,OOM_DETAIL,OOM_TRIGGER,OOM_Trigger,19,7,7,0,N/A,"{{func:halMemCreate,req_size:1073741824,flag:0,ret:6}}",,
11,OOM_DETAIL,OOM_TOP_ALLOC,OOM_TopAlloc,19,7,7,0,0x200,"{{pool:PTA,ptr:0x200,size:8192,timestamp:14}}",,
"""


def test_a_dump_of_msleaks_tells_pool_driver_and_modules_of_cann(tmp_path: Path) -> None:
    path = profile(tmp_path, {"leaks_dump_20250428113810.csv": OLD_DUMP}) / "leaks_dump_20250428113810.csv"
    found = told("oom", path)["device_memory"]
    assert (found["used_peak_bytes"], found["reserved_bytes"]) == (1024, 2 * MIB)
    assert (found["process_bytes"], found["outside_bytes"]) == (3 * MIB, MIB)
    assert [(one["module"], one["bytes"], one["is_pool"]) for one in found["modules"]] == [
        ("APP", 2 * MIB, True),
        ("HCCL", MIB, False),
    ]


def test_a_release_that_names_no_device_is_one(tmp_path: Path) -> None:
    path = profile(tmp_path, {"d.csv": OLD_DUMP}) / "d.csv"
    (driver,) = (curve for curve in leak_dump.read(path).curves if curve.component == "APP")
    assert driver.reserved_bytes.tolist() == [2 * MIB, 3 * MIB, 2 * MIB]


def test_an_allocation_is_named_after_its_owner_or_the_innermost_operator(tmp_path: Path) -> None:
    path = profile(tmp_path, {"memscope_dump_20260102030405.csv": NEW_DUMP}) / "memscope_dump_20260102030405.csv"
    dump = leak_dump.read(path)
    assert [dump.pools.names[code] for code in dump.pools.name] == ["aten.mm", "aten.addmm", "weight"]
    assert dump.pools.size_bytes.tolist() == [4096, 8192, 512]
    record = told("oom", path)
    assert (record["peak_bytes"], record["pool_bytes"], record["made_by"]["operator"]) == (
        12288,
        20 * MIB,
        "aten.addmm",
    )


def test_an_allocation_that_the_driver_refused_is_the_answer(tmp_path: Path) -> None:
    profile(tmp_path / "device_0" / "dump", {"memscope_dump_20260102030405.csv": NEW_DUMP})
    assert told("oom", tmp_path)["refused"] == [{"device": "NPU:0", "call": "halMemCreate", "bytes": 2**30}]
    output = invoke("oom", tmp_path).output
    assert "the driver refused 1.00G that halMemCreate asked for on NPU:0" in output
    assert "tells no failure" not in output


# --- refused by name --------------------------------------------------------------------------------------------------

_REFUSED = {
    "memory_compare_20260102030405.csv": (
        ",,,Base,Compare\nEvent,Name,Device Id,Allocated Memory(byte),Allocated Memory(byte),Diff Memory(byte)\n",
        "the difference of two steps",
        "give memscope_dump_*.csv",
    ),
    "python_trace_12_20260102030405.csv": (
        "FuncInfo,StartTime(ns),EndTime(ns),Thread Id,Process Id\n",
        "when Python called what",
        "memscope_dump_*.csv (leaks_dump_*.csv) beside it",
    ),
    "op_statistic.csv": (
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us)\n",
        "how long the kernels of each type took",
        "--measured",
    ),
    "api_statistic.csv": (
        "Device_id,Level,API Name,Time(us),Count,Avg(us)\n",
        "calls of the host",
        "kernel_details.csv",
    ),
    "operator_details.csv": (
        "Name,Input Shapes,Call Stack,Host Self Duration(us),Device Self Duration(us)\n",
        "on the host and on the card",
        "kernel_details.csv",
    ),
    "task_time_20260102030405.csv": (
        "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us)\n",
        "how long tasks took",
        "kernel_details.csv",
    ),
    "trace_view.json": ("[]", "the step as a picture", "--measured"),
    "communication.json": ("{}", "each collective", "kernel_details.csv"),
    "ascend_pytorch_profiler_0.db": ("SQLite format 3", "a database", "let the tool write csv"),
    "sys_mem_20260102030405.csv": ("Device_id,Memory Total(KB)\n", "the memory of the host", "memory_record.csv"),
}


@pytest.mark.parametrize("command", ["oom", "memory", "timeline"])
@pytest.mark.parametrize("name", sorted(_REFUSED))
def test_a_file_that_no_command_reads_is_refused_by_name_and_told_what_to_give(
    name: str, command: str, tmp_path: Path
) -> None:
    text, what, instead = _REFUSED[name]
    (tmp_path / name).write_text(text)
    result = invoke(command, tmp_path / name)
    output = " ".join(result.output.split())
    assert result.exit_code == 2
    assert f"this is {of_kind(name).value}, " in output
    assert what in output
    assert f"`swapconf {command}` does not read it" in output
    assert instead in output


def of_kind(name: str) -> FileKind:
    known = of_name(name)
    assert known is not None
    return known.kind


@pytest.mark.parametrize(
    ("command", "name", "text", "other"),
    [
        ("oom", "step_trace_time.csv", TORCH_STEPS, "timeline"),
        ("memory", "kernel_details.csv", WAITING, "timeline"),
        ("timeline", "memory_record.csv", TORCH_RECORD, "oom"),
        ("timeline", "npu_module_mem.csv", MODULES_KB, "memory"),
        ("timeline", "static_op_mem.csv", STATIC, "memory"),
        ("timeline", "leaks_dump_1.csv", OLD_DUMP, "oom"),
        ("timeline", "renamed.csv", TORCH_OPERATORS, "memory"),
    ],
)
def test_a_file_for_another_command_names_that_one(
    command: str, name: str, text: str, other: str, tmp_path: Path
) -> None:
    result = invoke(command, profile(tmp_path, {name: text}) / name)
    assert result.exit_code == 2
    assert f"`swapconf {other}`" in result.output


def test_the_blocks_of_a_trace_are_no_table_for_memory(tmp_path: Path) -> None:
    result = invoke("memory", TRACES / "llama_l2_none" / "memory_block.csv")
    assert result.exit_code == 2
    assert "give the folder that it is in" in result.output


@pytest.mark.parametrize("command", ["oom", "memory", "timeline"])
def test_a_table_that_nobody_knows_says_so(command: str, tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    result = invoke(command, tmp_path / "notes.csv")
    assert result.exit_code == 2
    assert "no file of a profiler or of msMemScope that is known here" in " ".join(result.output.split())


def test_a_profile_without_memory_says_how_to_get_it(tmp_path: Path) -> None:
    profile(tmp_path, {"kernel_details.csv": WAITING})
    for command in ("memory", "oom"):
        result = invoke(command, tmp_path)
        assert result.exit_code == 2
        assert "only kernel_details" in result.output
        assert "profile_memory=True" in result.output


def test_what_is_compressed_is_told_and_not_taken_for_missing(tmp_path: Path) -> None:
    (tmp_path / "memory_record.csv.xz").write_bytes(lzma.compress(TORCH_RECORD.encode()))
    result = invoke("memory", tmp_path)
    assert result.exit_code == 2
    assert "memory_record.csv.xz: compressed, and not read" in result.output
    profile(tmp_path, {"operator_memory.csv": TORCH_OPERATORS})
    assert "memory_record.csv.xz is compressed and was not read" in invoke("memory", tmp_path).output


def test_a_file_is_told_by_its_columns_whatever_it_is_called(tmp_path: Path) -> None:
    known = of_file(profile(tmp_path, {"a.csv": OPERATORS}) / "a.csv")
    assert known is not None
    assert known.kind is FileKind.OPERATORS


def test_the_manual_has_every_file_with_the_command_that_reads_it() -> None:
    page = (ROOT / "docs" / "how-to" / "read-a-profile.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:] for line in page.splitlines() if line.startswith("| `")]
    commands = {name: row[2] for row in rows for name in re.findall(r"`[*.]*([a-z]+(?:_[a-z]+)*)", row[0])}
    for known in KNOWN:
        assert all(f"`{command}`" in commands[known.kind.value] for command in known.commands), known.kind


def test_each_known_file_is_read_by_a_command_or_says_what_to_give_instead() -> None:
    for known in KNOWN:
        assert known.commands or known.instead, known.kind
        assert known.columns or of_name(f"{known.kind.value}.json") or known.kind is FileKind.DATABASE
