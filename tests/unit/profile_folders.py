"""Folders as profilers leave them, small. Columns and units are those of the tools (`known_files`); the figures of
TORCH_* are a few rows of a public profile (Ascend/msinsight, test/st/level2, rank 0: torch_npu 2.7.1, CANN 8.3.RC1, two
stages), written anew."""

from __future__ import annotations

from pathlib import Path

TORCH_RECORD = """\
Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type
APP,1764246877082702.440\t,,11925.015625,,,NPU:0
APP,1764246877862779.440\t,,11925.015625,,,NPU:0
PTA,1764246877074330.300\t,4304.95751953125,10372.0,4304.95751953125,2,NPU:0
PTA+GE,1764246877074330.300\t,4304.95751953125,10372.0,4304.95751953125,2,NPU:0
PTA,1764246877400000.000\t,10282.7490234375,10372.0,10282.7490234375,2,NPU:0
PTA+GE,1764246877400000.000\t,10282.7490234375,10372.0,10282.7490234375,2,NPU:0
"""
OPERATORS = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type\n"
)
TORCH_OPERATORS = f"""{OPERATORS}\
aten::matmul,49152.5,1764246877077300.010\t,1764246877750204.070\t,,,,4352.9580078125,10372.0,,4312.9580078125,10372.0,,2,NPU:0
npu::npu_fusion_attention_grad,170112.5,1764246877400000.000\t,1764246877410000.000\t,,,,10282.7490234375,10372.0,,4312.9,\
10372.0,,2,NPU:0
aten::index,2.5,1764246877750300.000\t,,,,,4304.96,10372.0,,,,,2,NPU:0
"""
_KERNELS = (
    "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes,"
    "Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats,Context ID"
)
_STEPS = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing"
)
TORCH_STEPS = f"{_STEPS}\n0,13,30.0,420.0,0.0,420.0,50.0,500.0,0,420.0,206.25\n"
MODULES_KB = """\
Device_id,Component,Timestamp(us),Total Reserved(KB),Device
0,APP,1700.0\t,2097152,NPU:0
0,HCCL,1700.0\t,819200,NPU:0
0,RUNTIME,1700.0\t,51200,NPU:0
0,TDT,1700.0\t,-1,NPU:0
0,HCCL,1900.0\t,409600,NPU:0
0,RUNTIME,1900.0\t,102400,NPU:0
"""


def kernels(*rows: tuple[str, str, float, float], step: str = "13", device: str = "0") -> str:
    """(type, core, start, duration), in microseconds, of one step; a kernel is called after its type."""
    lines = [
        f'{step},{device},aclnn{kind},{kind},{core},{1764246877000000 + start:.3f}\t,{took:.3f},0,40,"""1""",FLOAT,ND,'
        '"""1""",FLOAT,ND,N/A'
        for kind, core, start, took in rows
    ]
    return "\n".join([_KERNELS, *lines]) + "\n"


# a step of 500: 30 compute, 420 communicate, of which 320 between stages, and nothing runs for 50
WAITING = kernels(
    ("FlashAttentionScore", "MIX_AIC", 0, 10),
    ("hcom_batchSendRecv_", "COMMUNICATION", 10, 20),
    ("hcom_batchSendRecv_", "COMMUNICATION", 30, 300),
    ("FlashAttentionScoreGrad", "MIX_AIC", 330, 20),
    ("hcom_reduceScatter_", "COMMUNICATION", 400, 100),
)


def profile(folder: Path, files: dict[str, str]) -> Path:
    """A folder with these files, whose lines end as Python's csv ends them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_bytes(text.replace("\n", "\r\n").encode())
    return folder


def ranks(parent: Path, ending: str, files: dict[int, dict[str, str]]) -> Path:
    """A folder of each rank, as the profilers of MindSpore (``ms``) and torch_npu (``pt``) name them."""
    for rank, of_rank in files.items():
        worker = parent / f"node_{4711 + rank}_20260102030405678_ascend_{ending}"
        profile(worker / "ASCEND_PROFILER_OUTPUT", of_rank)
        (worker / f"profiler_info_{rank}.json").write_text("{}")
    return parent
