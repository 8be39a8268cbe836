"""KERNEL_DETAILS.CSV, OP_SUMMARY.CSV, OP_STATISTIC.CSV -> TIMES: how long kernels took on a real card.

Columns as ``mindspore.profiler`` of 2.9.0 writes them (AscendKernelDetailsViewer) and as the Ascend PyTorch Profiler
documents them (tables *kernel_details* and *op_statistic*). MindSpore names a row after the kernel that it launched,
a slash and the name on the device; level 0 leaves out shapes. Shapes are lists in quotes, ``"4096,512;512,512"``;
a scalar is an empty item, also where it is the only one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path

from swapconf.files.table_lines import DIMENSION, MAX_NUMBER, number, shown
from swapconf.profile.profiler_csv import Header, profiler_damage, rows
from swapconf.timing.measurements import Formats, MeasuredKernel
from swapconf.trace.trace import Tensor
from swapconf.upstream.device_kernels import is_between_stages
from swapconf.words.phrases import phrase

NEEDED = ("Name", "Type", "Duration")
SUMMARY = ("Op Name", "OP Type", "Task Duration")  # the same in op_summary_*.csv of msprof
LARGEST = 2**50  # elements; no card holds more
CORE = ("Accelerator Core", "Task Type")  # the latter in op_summary_*.csv
BLOCKS = ("Block Dim", "Block Num")  # the latter from CANN 8.5 on
# what a kernel of one kind of core was counted on: microseconds and cycles of all of them
COUNTED = {"AI_CORE": ("aicore_time", "aic_total_cycles"), "AI_VECTOR_CORE": ("aiv_time", "aiv_total_cycles")}
# elements that lie one after the other in the order of the axes, whatever these are called
PLAIN_FORMATS = frozenset({"", "ND", "NCHW", "NHWC", "HWCN", "NCL", "NCDHW", "NDHWC", "NULL", "UNDEFINED"})
STATISTIC = ("OP Type", "Count", "Total Time")
_LAUNCHED = re.compile(r"(.+/\w+-op\d+)/([^/]+)")
_TYPES = {
    "FLOAT": "Float32",
    "FLOAT32": "Float32",
    "FLOAT16": "Float16",
    "BF16": "BFloat16",
    "BFLOAT16": "BFloat16",
    "DOUBLE": "Float64",
    "BOOL": "Bool",
    "INT8": "Int8",
    "UINT8": "UInt8",
    "INT16": "Int16",
    "INT32": "Int32",
    "UINT32": "UInt32",
    "INT64": "Int64",
    "UINT64": "UInt64",
}


def read(path: str | Path) -> tuple[MeasuredKernel, ...]:
    """The rows of kernel_details.csv. Raises SwapconfError, with a finding for each line that is wrong."""
    return _kernels(path, NEEDED)


def read_summary(path: str | Path) -> tuple[MeasuredKernel, ...]:
    """The rows of op_summary_*.csv. Raises SwapconfError as `read`."""
    return _kernels(path, SUMMARY)


def _kernels(path: str | Path, columns: tuple[str, str, str]) -> tuple[MeasuredKernel, ...]:
    damage = profiler_damage(path)
    found: list[MeasuredKernel] = []
    parse: Callable[[Sequence[str]], MeasuredKernel] | None = None
    for line, header, row in rows(path, columns, damage):
        if parse is None:
            with damage.at(1):
                parse = _parser(header, columns)
        if parse is None:
            break
        with damage.at(line):
            found.append(parse(row))
    damage.refuse()
    return tuple(found)


def read_statistic(path: str | Path) -> dict[str, float]:
    """Microseconds of one launch on average, by type of operator, from op_statistic.csv; of messages between stages
    the shortest, as the others waited. Raises SwapconfError."""
    damage = profiler_damage(path)
    count: dict[str, int] = {}
    total_ns: dict[str, int] = {}
    least_ns: dict[str, int] = {}
    for line, header, row in rows(path, STATISTIC, damage):
        with damage.at(line):
            name, total = header.text("OP Type")(row), header.time_ns("Total Time")(row)
            if total is None or total < 0:
                raise ValueError(phrase("{column} is empty or negative", column="Total Time"))
            count[name] = count.get(name, 0) + number(header.text("Count")(row), "Count")
            total_ns[name] = total_ns.get(name, 0) + total
            least = header.time_ns("Min Time")(row)
            if least is not None and is_between_stages(name):
                least_ns[name] = min(least_ns.get(name, least), least)
    damage.refuse()
    averages = {name: total_ns[name] / 1000 / times for name, times in count.items() if times}
    return averages | {name: least / 1000 for name, least in least_ns.items()}


def _parser(header: Header, columns: tuple[str, str, str]) -> Callable[[Sequence[str]], MeasuredKernel]:
    name, kind, duration = header.text(columns[0]), header.text(columns[1]), header.time_ns(columns[2])
    core = header.text(*CORE)
    sides = ("Input", "Output")
    shapes = {side: (header.text(f"{side} Shapes"), header.text(f"{side} Data Types")) for side in sides}
    formats = [header.text(f"{side} Formats") for side in sides]
    blocks = header.text(*BLOCKS)
    counted = {kind: tuple(map(header.text, columns)) for kind, columns in COUNTED.items()}

    def parse(row: Sequence[str]) -> MeasuredKernel:
        took = duration(row)
        if took is None or took < 0:
            raise ValueError(phrase("{column} is empty or negative", column=columns[2]))
        launched = _LAUNCHED.fullmatch(name(row))
        inputs, outputs = (_tensors(shape(row), dtype(row)) for shape, dtype in shapes.values())
        on = _count(blocks(row))
        us, cycles = (_count(column(row)) for column in counted.get(core(row), (blocks, blocks)))
        return MeasuredKernel(
            kernel=launched[1] if launched else "",
            type=kind(row),
            inputs=inputs,
            outputs=outputs,
            device_name=launched[2] if launched else name(row),
            duration_us=took / 1000,
            core=core(row),
            formats=_formats([column(row) for column in formats]),
            blocks=round(on),
            clock_mhz=cycles / us / on if core(row) in COUNTED and us and on else 0.0,
        )

    return parse


def _tensors(shapes: str, dtypes: str) -> tuple[Tensor, ...]:
    if not shapes.strip('"') and not dtypes.strip('"'):
        return ()
    listed = shapes.strip('"').split(";")
    types = dtypes.strip('"').split(";")
    if len(types) != len(listed):
        raise ValueError(phrase("{shapes} shapes but {types} data types", shapes=len(listed), types=len(types)))
    return tuple(Tensor(_dtype(dtype), _shape(shape)) for dtype, shape in zip(types, listed, strict=True))


def _formats(told: Sequence[str]) -> Formats:
    """((), ()) where all are plain."""
    names = [tuple(_format(item) for item in side.strip('"').split(";")) for side in told]
    return (names[0], names[1]) if any(map(any, names)) else ((), ())


def _format(text: str) -> str:
    """ "" for a plain one; ``NC1HWC0:1`` tells of groups that no training of a language model has."""
    name = text.strip().removeprefix("FORMAT_")
    return "" if name in PLAIN_FORMATS else name


def _count(text: str) -> float:
    """0 where nothing is told."""
    try:
        found = float(text or 0)
    except ValueError:
        found = -1.0
    if not 0 <= found < MAX_NUMBER:
        raise ValueError(phrase("{text} is not a number", text=shown(text)))
    return found


def _dtype(text: str) -> str:
    name = text.strip().removeprefix("DT_")
    return _TYPES.get(name, name)


def _shape(text: str) -> tuple[int, ...]:
    sizes = text.strip()
    if sizes and not re.fullmatch(r"[0-9, ]+", sizes):
        raise ValueError(phrase("{text} is not a shape", text=shown(text)))
    found = tuple(number(size.strip(), DIMENSION) for size in sizes.split(",")) if sizes else ()
    if prod(found) > LARGEST:
        raise ValueError(phrase("{text} is not a shape", text=shown(text)))
    return found
