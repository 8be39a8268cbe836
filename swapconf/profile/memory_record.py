"""MEMORY_RECORD.CSV, NPU_MEM.CSV, NPU_MODULE_MEM.CSV -> CURVES: device memory over time, by component and device.

The first is written by the profiler of MindSpore (components ``MindSpore``, ``GE``, ``MindSpore+GE``, ``APP``), by that
of torch_npu (``PTA``, ``GE``, ``PTA+GE``, ``WORKSPACE``, ``APP``) and, as memory_record_*.csv, by CANN's msprof
(``GE``, in KB); the others by msprof: ``APP`` and ``Device``, and the modules of CANN by name. See `known_files`.

MindSpore divides KB by 1000 where it writes MB (KB_TO_MB of AscendMemoryViewer), so a MB of a file that names the
component ``MindSpore`` is 1000 KB of 1024 bytes; torch_npu divides by 1024.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swapconf.files.table_lines import Damage, chunks
from swapconf.profile.memory_profile import UNKNOWN, Curve
from swapconf.profile.profiler_csv import KIB, MIB, Header, each
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import phrase

_MINDSPORE = b"MindSpore"
_MINDSPORE_MB = 1000 * KIB

Columns = dict[str, "array[int]"]
Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """The columns of a file. ``sums``: by attribute of a curve; ``has_gaps``: a negative sum is not known."""

    component: str
    time: str
    sums: Mapping[str, str]
    has_gaps: bool = False

    @property
    def needed(self) -> tuple[str, ...]:
        return (self.component, self.time, *(name for name in self.sums.values() if name != "Total Active"))


_RECORD = _Form(
    component="Component",
    time="Timestamp",
    sums={"allocated_bytes": "Total Allocated", "reserved_bytes": "Total Reserved", "active_bytes": "Total Active"},
)
_DEVICE = _Form(component="event", time="timestamp", sums={"reserved_bytes": "memory"})
_MODULES = _Form(component="Component", time="Timestamp", sums={"reserved_bytes": "Total Reserved"}, has_gaps=True)


def read(*paths: str | Path) -> tuple[Curve, ...]:
    """The curves of the slices of a memory_record.csv, in order of first appearance. Raises SwapconfError, with a
    finding for each wrong line."""
    return _curves(paths, _RECORD)


def read_device(*paths: str | Path) -> tuple[Curve, ...]:
    """Of npu_mem.csv: ``APP``, the process, and ``Device``, the card. Raises SwapconfError as `read`."""
    return _curves(paths, _DEVICE)


def read_modules(*paths: str | Path) -> tuple[Curve, ...]:
    """Of npu_module_mem.csv: by module of CANN; -1, where only releases were seen, is UNKNOWN. Raises SwapconfError as
    `read`."""
    return _curves(paths, _MODULES)


def _curves(paths: Sequence[str | Path], form: _Form) -> tuple[Curve, ...]:
    curves: dict[Key, Columns] = {}
    for path in paths:
        megabyte = _MINDSPORE_MB if _names_mindspore(path) else MIB
        read = partial(_adder, form=form, megabyte=megabyte, curves=curves)
        for _ in each((path,), form.needed, read):
            pass
    return tuple(_curve(component, device, columns) for (component, device), columns in curves.items())


def _names_mindspore(path: str | Path) -> bool:
    try:
        return any(_MINDSPORE in data for _, data in chunks(path, Damage(path)))
    except SwapconfError:
        return False  # what is wrong, the reading itself tells


def _adder(header: Header, form: _Form, megabyte: int, curves: dict[Key, Columns]) -> Callable[[Sequence[str]], None]:
    """What adds a row of a file with this header. It raises ValueError with what is wrong with a row."""
    component, device = header.text(form.component), _device(header)
    time_ns = header.time_ns(form.time)
    sums = {name: header.size_bytes(column, megabyte) for name, column in form.sums.items()}
    blank = dict.fromkeys(_RECORD.sums)

    def add(row: Sequence[str]) -> None:
        time = time_ns(row)
        if time is None or time < 0:
            raise ValueError(
                phrase("{column} is empty", column=form.time)
                if time is None
                else phrase("{column} is {value}", column=form.time, value=time)
            )
        if not component(row):
            raise ValueError(phrase("{column} is empty", column=form.component))
        found = {**blank, **{name: read_sum(row) for name, read_sum in sums.items()}}
        if any(size is not None and size < 0 for size in found.values()):
            if not form.has_gaps:
                raise ValueError(phrase("a sum of memory is negative"))
            found = blank
        key = component(row), device(row)
        columns = curves.setdefault(key, {})
        for name, number in {"time_ns": time, **found}.items():
            columns.setdefault(name, array("q")).append(UNKNOWN if number is None else number)

    return add


def _device(header: Header) -> Callable[[Sequence[str]], str]:
    """``NPU:0``, also where only a number stands in a row."""
    named, number = header.text("Device Type", "Device"), header.text("Device_id")

    def read_device(row: Sequence[str]) -> str:
        return named(row) or (f"NPU:{number(row)}" if number(row) else "")

    return read_device


def _curve(component: str, device: str, columns: Columns) -> Curve:
    """The rows of a file are not in order of time: those of ``APP`` stand behind all others."""
    order = np.argsort(np.array(columns["time_ns"], dtype=np.int64), kind="stable")
    sorted_: dict[str, NDArray[np.int64]] = {
        name: np.array(column, dtype=np.int64)[order] for name, column in columns.items()
    }
    return Curve(component=component, device=device, **sorted_)
