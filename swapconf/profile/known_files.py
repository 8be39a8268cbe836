"""FILE -> KIND: what the profilers and the leak tool of Ascend leave behind, by their columns and names, as data.

A file is told by the columns of its first line, else by its name, which may bear the number of a slice and a time
(``operator_memory_slice_1_20260102030405.csv``). Units stand in the columns: a KB is 1024 bytes; a MB is 1024 KB in
files of torch_npu, and 1000 KB in those of MindSpore.

Sources:
- MindSpore: mindspore.profiler 2.9.0 (AscendMemoryViewer, AscendOpMemoryViewer, AscendStepTraceTimeViewer,
  AscendIntegrateViewer). npu_module_mem.csv there is msprof's own, in KB.
- torch_npu at 9e73e708 (2026-08-21): torch_npu/profiler/analysis, prof_view/_memory_view_parser.py,
  prof_view/_trace_step_time_parser.py, prof_bean/_npu_module_mem_bean.py (in MB), prof_bean/_npu_mem_bean.py.
- msprof at 66c00af8 (2026-07-09): analysis/msconfig/msprof_export_data_config.py:258-298, analysis/common_func/
  file_slice_helper.py; the same columns in the manuals of CANN 8.0 to 9.1 (npu_module_mem, static_op_mem: -1 is an
  amount of which only releases were seen; 4294967295 is the end of the graph).
- msMemScope, before CANN 9.0 msLeaks, at 7807ecf (2026-08-21): its page output_file_spec.md,
  csrc/framework/config_info.h:32-42; dumps of 2025-04 have the same columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from swapconf.files.opening import read_bytes
from swapconf.words.phrases import mark

_HEADER_BYTES = 4096
_UNIT = re.compile(r"\(\w+\)$")
_NAME = re.compile(r"(?P<name>[A-Za-z_]+?)(?:_slice_\d+)?(?:_\d[\d_]*)?\.(?P<ending>csv|json|db|txt)")


class FileKind(Enum):
    """By the name that all tools share."""

    BLOCKS = "memory_block"
    OPERATORS = "operator_memory"
    RECORD = "memory_record"
    DEVICE = "npu_mem"
    MODULES = "npu_module_mem"
    STATIC = "static_op_mem"
    DUMP = "memscope_dump"
    COMPARED = "memory_compare"
    PYTHON_TRACE = "python_trace"
    STEPS = "step_trace_time"
    KERNELS = "kernel_details"
    SUMMARY = "op_summary"
    STATISTIC = "op_statistic"
    VIEW = "trace_view"
    HOST_TIMES = "operator_details"
    CALLS = "api_statistic"
    TASKS = "task_time"
    LINKS = "communication"
    MATRIX = "communication_matrix"
    HOST = "sys_mem"
    DATABASE = "db"


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFile:
    """``columns``: of the first line, without units; none where the name alone tells it. ``names``: other names than
    that of the kind. ``what``: in words. ``commands``: those that read it; ``instead``: what to give where none does.
    """

    kind: FileKind
    what: str
    columns: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    instead: str = ""


_MEMORY = ("oom", "memory")
_TIMES = ("timeline", "calibrate")
KNOWN: Sequence[KnownFile] = (
    KnownFile(
        kind=FileKind.BLOCKS,
        columns=frozenset({"start_time_stamp"}),
        what=mark("every block of MindSpore's memory tracker"),
        commands=("oom",),
        instead=mark("give the folder that it is in: the other files of the run are needed with it"),
    ),
    KnownFile(
        kind=FileKind.OPERATORS,
        columns=frozenset({"Name", "Size", "Allocation Time"}),
        what=mark("what each operator held of a pool"),
        commands=_MEMORY,
    ),
    KnownFile(
        kind=FileKind.RECORD,
        columns=frozenset({"Component", "Timestamp", "Total Allocated", "Total Reserved"}),
        what=mark("the pools, and what the driver counts for the process, over time"),
        commands=_MEMORY,
    ),
    KnownFile(
        kind=FileKind.DEVICE,
        columns=frozenset({"event", "hbm", "memory", "timestamp"}),
        what=mark("what the driver counts for the process and the card, over time"),
        commands=_MEMORY,
    ),
    KnownFile(
        kind=FileKind.MODULES,
        columns=frozenset({"Component", "Timestamp", "Total Reserved"}),
        what=mark("what each module of CANN holds of the card, over time"),
        commands=_MEMORY,
    ),
    KnownFile(
        kind=FileKind.STATIC,
        columns=frozenset({"Op Name", "Graph ID", "Node Index Start", "Node Index End", "Size"}),
        what=mark("what each operator of a graph compiled by GE gets, from when until when"),
        commands=_MEMORY,
    ),
    KnownFile(
        kind=FileKind.DUMP,
        columns=frozenset({"ID", "Event", "Event Type", "Timestamp", "Attr"}),
        names=("leaks_dump",),
        what=mark("every allocation, of pools and of the driver, as msMemScope (msLeaks) saw it"),
        commands=_MEMORY,
    ),
    KnownFile(
        kind=FileKind.COMPARED,
        columns=frozenset({"Base", "Compare"}),
        what=mark("the difference of two steps that msMemScope (msLeaks) compared"),
        instead=mark("a difference tells no peak: give memscope_dump_*.csv (leaks_dump_*.csv) of either of them"),
    ),
    KnownFile(
        kind=FileKind.PYTHON_TRACE,
        columns=frozenset({"FuncInfo", "StartTime", "EndTime"}),
        what=mark("when Python called what, as msMemScope (msLeaks) saw it"),
        instead=mark("it tells no memory: give memscope_dump_*.csv (leaks_dump_*.csv) beside it"),
    ),
    KnownFile(
        kind=FileKind.STEPS,
        columns=frozenset({"Step", "Computing", "Free", "Bubble"}),
        what=mark("how long each step computed, communicated and waited"),
        commands=("timeline",),
    ),
    KnownFile(
        kind=FileKind.KERNELS,
        columns=frozenset({"Name", "Type", "Start Time", "Duration"}),
        what=mark("each kernel with its time"),
        commands=_TIMES,
    ),
    KnownFile(
        kind=FileKind.SUMMARY,
        columns=frozenset({"Op Name", "OP Type", "Task Duration"}),
        what=mark("each kernel with its time"),
        commands=_TIMES,
    ),
    KnownFile(
        kind=FileKind.STATISTIC,
        columns=frozenset({"OP Type", "Count", "Total Time"}),
        what=mark("how long the kernels of each type took together"),
        instead=mark("give the folder that it is in to --measured; or kernel_details.csv, which tells each kernel"),
    ),
    KnownFile(
        kind=FileKind.HOST_TIMES,
        columns=frozenset({"Name", "Host Self Duration", "Device Self Duration"}),
        what=mark("how long operators took on the host and on the card"),
        instead=mark("give kernel_details.csv, which tells each kernel"),
    ),
    KnownFile(
        kind=FileKind.CALLS,
        columns=frozenset({"API Name", "Count"}),
        what=mark("how long calls of the host into CANN took"),
        instead=mark("give kernel_details.csv, which tells each kernel"),
    ),
    KnownFile(
        kind=FileKind.TASKS,
        columns=frozenset({"kernel_name", "kernel_type", "task_time"}),
        what=mark("how long tasks took, without shapes"),
        instead=mark("give kernel_details.csv or op_summary_*.csv, which tells each kernel"),
    ),
    KnownFile(
        kind=FileKind.VIEW,
        names=("msprof",),
        what=mark("the step as a picture"),
        instead=mark("give the folder that it is in to --measured; or open it in Perfetto or MindStudio Insight"),
    ),
    KnownFile(
        kind=FileKind.LINKS,
        what=mark("how long each collective took and waited"),
        instead=mark("give kernel_details.csv, which tells each kernel, collectives too"),
    ),
    KnownFile(
        kind=FileKind.MATRIX,
        what=mark("what went over each link"),
        instead=mark("give kernel_details.csv, which tells each kernel, collectives too"),
    ),
    KnownFile(
        kind=FileKind.HOST,
        what=mark("the memory of the host"),
        instead=mark("give memory_record.csv, which tells the memory of the card"),
    ),
    KnownFile(
        kind=FileKind.DATABASE,
        what=mark("a database of the profiler or of msMemScope"),
        instead=mark("let the tool write csv: export type Text of the profiler, --data-format=csv of msMemScope"),
    ),
)
_BY_NAME = {name: known for known in KNOWN for name in (known.kind.value, *known.names)}
_DATABASE = next(known for known in KNOWN if known.kind is FileKind.DATABASE)


def of_file(path: Path) -> KnownFile | None:
    """Of any file; None where it is none of these. Raises OSError where it cannot be read."""
    if (named := of_name(path.name)) is not None and not named.columns:
        return named
    first = read_bytes(path, _HEADER_BYTES).partition(b"\n")[0].decode("utf-8-sig", "replace")
    cells = {_UNIT.sub("", cell.strip().strip('"')).strip() for cell in first.split(",")}
    return next((known for known in KNOWN if known.columns and known.columns <= cells), None)


def of_name(name: str) -> KnownFile | None:
    """By its name alone."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    if match["ending"] == "db":
        return _DATABASE
    return _BY_NAME.get(match["name"])
