"""STEP PROFILE -> CSV: kernel_details, operator_memory, memory_record and step_trace_time, as mindspore.profiler 2.9.0
writes them (AscendKernelDetailsViewer, AscendOpMemoryViewer, AscendMemoryViewer, AscendStepTraceTimeViewer).

Sizes in operator_memory.csv are KB of 1024 bytes and MB of 1024 KB; in memory_record.csv a MB is 1000 KB
(``KB_TO_MB`` of that viewer). Numbers have all their digits, so that a reader gets the same bytes and nanoseconds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from decimal import Decimal
from io import StringIO

from swapconf.files.csv_cells import cell
from swapconf.profile.profiler_csv import KIB, MIB
from swapconf.profile.step_profile import StepProfile, length_ns
from swapconf.profile.trace_view_writer import device_name, operator_type, task_type
from swapconf.timing.timing import COLLECTIVE, TO_DEVICE, TO_HOST
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import POINT_TO_POINT, Tensor

KERNEL_DETAILS = (
    "Step ID",
    "Name",
    "Type",
    "Accelerator Core",
    "Start Time(us)",
    "Duration(us)",
    "Wait Time(us)",
    "Block Num",
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
    "Context ID",
)
OPERATOR_MEMORY = (
    "Name",
    "Size(KB)",
    "Allocation Time(us)",
    "Release Time(us)",
    "Active Release Time(us)",
    "Duration(us)",
    "Active Duration(us)",
    "Allocation Total Allocated(MB)",
    "Allocation Total Reserved(MB)",
    "Allocation Total Active(MB)",
    "Release Total Allocated(MB)",
    "Release Total Reserved(MB)",
    "Release Total Active(MB)",
    "Stream Ptr",
    "Device Type",
)
MEMORY_RECORD = (
    "Component",
    "Timestamp(us)",
    "Total Allocated(MB)",
    "Total Reserved(MB)",
    "Total Active(MB)",
    "Device Type",
)
STEP_TRACE_TIME = (
    "Step",
    "Computing",
    "Communication(Not Overlapped)",
    "Overlapped",
    "Communication",
    "Free",
    "Stage",
    "Bubble",
    "Communication(Not Overlapped and Exclude Receive)",
    "Preparing",
)
_RECORD_MB = 1000 * KIB
_TYPES = {
    "Float32": "FLOAT",
    "Float16": "FLOAT16",
    "BFloat16": "DT_BF16",
    "Float64": "DOUBLE",
    "Bool": "BOOL",
    "Int8": "INT8",
    "UInt8": "UINT8",
    "Int16": "INT16",
    "Int32": "INT32",
    "UInt32": "UINT32",
    "Int64": "INT64",
    "UInt64": "UINT64",
}


def kernel_details(profile: StepProfile) -> str:
    """Kernels that take time, without copies, which the profiler tells in trace_view.json only."""
    rows, before = [], 0
    for kernel, (start, end) in enumerate(zip(profile.start_ns.tolist(), profile.end_ns.tolist(), strict=True)):
        kind, task = int(profile.program.kind[kernel]), profile.tasks[kernel]
        if end <= start or kind in (TO_HOST, TO_DEVICE):
            continue
        name = f"{profile.program.names[kernel]}/{device_name(profile, kernel)}"
        rows.append(
            (
                0,
                cell(name),
                cell(operator_type(profile, kernel)),
                task_type(kind),
                _us(start),
                _us(end - start),
                _us(max(start - before, 0)),
                0,
                *_tensors(task.input_tensors),
                *_tensors(task.output_tensors),
                "N/A",
            )
        )
        before = end
    return _table(KERNEL_DETAILS, rows)


def _tensors(tensors: Sequence[Tensor]) -> tuple[str, str, str]:
    """(shapes, types, formats), items apart by ``;``. A list whose shapes are not all known is left out."""
    if any(min(tensor.shape, default=0) < 0 for tensor in tensors) or not tensors:
        return "", "", ""
    shapes = ";".join(",".join(map(str, tensor.shape)) for tensor in tensors)
    return (
        f'"{shapes}"',
        cell(";".join(_TYPES.get(tensor.dtype, tensor.dtype) for tensor in tensors)),
        ";".join(["ND"] * len(tensors)),
    )


def operator_memory(profile: StepProfile) -> str:
    found, reserved, device = profile.allocations, _exact(profile.reserved_bytes, MIB), f"NPU:{profile.rank}"
    rows = []
    for name, size, start, end, born, left in zip(
        found.name,
        *(
            column.tolist()
            for column in (found.size_bytes, found.start_ns, found.end_ns, found.allocated_bytes, found.freed_bytes)
        ),
        strict=True,
    ):
        released = () if end == NEVER else (_us(end), _us(end), _us(end - start), _us(end - start))
        in_use, after = _exact(born, MIB), _exact(left, MIB)
        rows.append(
            (
                cell(name),
                _exact(size, KIB),
                _us(start),
                *(released or ("",) * 4),
                in_use,
                reserved,
                in_use,
                *((after, reserved, after) if released else ("",) * 3),
                "",
                device,
            )
        )
    return _table(OPERATOR_MEMORY, rows)


def memory_record(profile: StepProfile) -> str:
    reserved, device = _exact(profile.reserved_bytes, _RECORD_MB), f"NPU:{profile.rank}"
    return _table(
        MEMORY_RECORD,
        [
            ("MindSpore", _us(time_ns), _exact(used, _RECORD_MB), reserved, _exact(used, _RECORD_MB), device)
            for time_ns, used in zip(profile.memory_ns.tolist(), profile.used_bytes.tolist(), strict=True)
        ],
    )


def step_trace_time(profile: StepProfile) -> str:
    """One row, by the formulas of AscendStepTraceTimeViewer; nothing is prepared on the host."""
    communication, alone = length_ns(profile.communicating), length_ns(profile.only_communicating)
    collectives = [kernel for kernel, kind in enumerate(profile.program.kind.tolist()) if kind == COLLECTIVE]
    bubble = sum(
        int(profile.end_ns[kernel] - profile.start_ns[kernel])
        for kernel in collectives
        if profile.tasks[kernel].primitive in POINT_TO_POINT
    )
    span = 0
    if collectives:
        last = max(collectives, key=lambda kernel: int(profile.start_ns[kernel]))
        span = int(profile.end_ns[last] - profile.start_ns[collectives].min())
    return _table(
        STEP_TRACE_TIME,
        [
            (
                0,
                *map(
                    _us,
                    (
                        length_ns(profile.computing),
                        alone,
                        communication - alone,
                        communication,
                        length_ns(profile.free),
                        span - bubble,
                        bubble,
                        alone - bubble,
                        0,
                    ),
                ),
            )
        ],
    )


def _us(time_ns: int) -> str:
    return f"{Decimal(time_ns) / 1000:.3f}"


def _exact(size_bytes: int, unit: int) -> str:
    """With all digits; every unit is a product of twos and fives."""
    return f"{(Decimal(size_bytes) / unit).normalize():f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = StringIO()
    table = csv.writer(text)
    table.writerow(header)
    table.writerows(rows)
    return text.getvalue()
