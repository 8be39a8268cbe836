"""MEMORY_RECORD.CSV -> CURVES: device memory over time, by component and device.

Written by the profiler of MindSpore (``mindspore.profiler``, AscendMemoryViewer of 2.9.0; components ``MindSpore``,
``GE``, ``MindSpore+GE``, ``APP``), by the Ascend PyTorch Profiler (table *memory_record* of its manual; components
``PTA``, ``GE``, ``PTA+GE``, ``WORKSPACE``, ``APP``) and, as memory_record_*.csv, by CANN's msprof (``GE``, in KB).

MindSpore divides KB by 1000 where it writes MB (KB_TO_MB of that viewer), so a MB of a file that names the component
``MindSpore`` is 1000 KB of 1024 bytes; torch_npu divides by 1024.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swapconf.files.table_lines import Damage, chunks
from swapconf.profile.memory_profile import UNKNOWN, Curve
from swapconf.profile.profiler_csv import KIB, MIB, Header, profiler_damage, rows
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import phrase

NEEDED = ("Component", "Timestamp", "Total Allocated", "Total Reserved")
_SUMS = {"allocated_bytes": "Total Allocated", "reserved_bytes": "Total Reserved", "active_bytes": "Total Active"}
_MINDSPORE = b"MindSpore"
_MINDSPORE_MB = 1000 * KIB

Columns = dict[str, "array[int]"]


def read(path: str | Path) -> tuple[Curve, ...]:
    """The curves of a file, in order of first appearance. Raises SwapconfError, with a finding for each wrong line."""
    damage = profiler_damage(path)
    megabyte = _MINDSPORE_MB if _names_mindspore(path) else MIB
    curves: dict[tuple[str, str], Columns] = {}
    add: Callable[[Sequence[str]], None] | None = None
    for line, header, row in rows(path, NEEDED, damage):
        if add is None:
            with damage.at(1):
                add = _adder(header, megabyte, curves)
        if add is None:
            break
        with damage.at(line):
            add(row)
    damage.refuse()
    return tuple(_curve(component, device, columns) for (component, device), columns in curves.items())


def _names_mindspore(path: str | Path) -> bool:
    try:
        return any(_MINDSPORE in data for _, data in chunks(path, Damage(path)))
    except SwapconfError:
        return False  # what is wrong, the reading itself tells


def _adder(header: Header, megabyte: int, curves: dict[tuple[str, str], Columns]) -> Callable[[Sequence[str]], None]:
    """What adds a row of a file with this header. It raises ValueError with what is wrong with a row."""
    component, device = header.text("Component"), header.text("Device Type", "Device")
    time_ns = header.time_ns("Timestamp")
    sums = {name: header.size_bytes(column, megabyte) for name, column in _SUMS.items()}

    def add(row: Sequence[str]) -> None:
        time = time_ns(row)
        if time is None or time < 0:
            raise ValueError(
                phrase("{column} is empty", column="Timestamp")
                if time is None
                else phrase("{column} is {value}", column="Timestamp", value=time)
            )
        if not component(row):
            raise ValueError(phrase("{column} is empty", column="Component"))
        found = {name: read_sum(row) for name, read_sum in sums.items()}
        if any(size is not None and size < 0 for size in found.values()):
            raise ValueError(phrase("a sum of memory is negative"))
        key = component(row), device(row)
        columns = curves.setdefault(key, {})
        for name, number in {"time_ns": time, **found}.items():
            columns.setdefault(name, array("q")).append(UNKNOWN if number is None else number)

    return add


def _curve(component: str, device: str, columns: Columns) -> Curve:
    """The rows of a file are not in order of time: those of ``APP`` stand behind all others."""
    order = np.argsort(np.array(columns["time_ns"], dtype=np.int64), kind="stable")
    sorted_: dict[str, NDArray[np.int64]] = {
        name: np.array(column, dtype=np.int64)[order] for name, column in columns.items()
    }
    return Curve(component=component, device=device, **sorted_)
