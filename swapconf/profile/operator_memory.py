"""OPERATOR_MEMORY.CSV -> ALLOCATIONS: which operator held how much device memory from when to when.

Written by the profiler of MindSpore (columns and units: ``mindspore.profiler``, AscendOpMemoryViewer of 2.9.0), by the
Ascend PyTorch Profiler (table *operator_memory* of its manual; older versions lack the columns ``Active ...`` and
``Stream Ptr``) and, as operator_memory_*.csv, by CANN's msprof (sizes in KB, ``Duration`` but no ``Release Time``).

An empty release means that the memory was still held when the profiler stopped. A negative size is a release whose
allocation happened before the profiler started (manual of msprof, *negative and empty values*); the only time in such
a row is that of the release.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swapconf.profile.memory_profile import BEFORE, UNKNOWN, OperatorMemory
from swapconf.profile.profiler_csv import Header, each
from swapconf.trace.lifetimes import NEVER
from swapconf.words.phrases import phrase

NEEDED = ("Name", "Size", "Allocation Time")
_ENDS = ("Release Time", "Duration")


def read(*paths: str | Path) -> OperatorMemory:
    """The allocations of the slices of a file. Raises SwapconfError, with a finding for each line that is wrong."""
    table = _Table()
    for _ in each(paths, NEEDED, table.filler):
        pass
    return table.done()


class _Table:
    def __init__(self) -> None:
        self._numbers = {
            name: array("q") for name in ("start_ns", "end_ns", "size_bytes", "allocated_bytes", "reserved_bytes")
        }
        self._codes = {name: array("i") for name in ("name", "stream", "device")}
        self._texts: dict[str, dict[str, int]] = {name: {} for name in self._codes}

    def filler(self, header: Header) -> Callable[[Sequence[str]], None]:
        """What adds a row of a file with this header. It raises ValueError with what is wrong with a row."""
        if not any(name in header for name in _ENDS):
            raise ValueError(phrase("no column {one} or {other}", one=_ENDS[0], other=_ENDS[1]))
        texts = {
            "name": header.text("Name"),
            "stream": header.text("Stream Ptr"),
            "device": header.text("Device Type", "Device"),
        }
        size = header.size_bytes("Size")
        start, end = header.time_ns("Allocation Time"), header.time_ns("Release Time")
        active_end, duration = header.time_ns("Active Release Time"), header.time_ns("Duration")
        totals = {
            "allocated_bytes": header.size_bytes("Allocation Total Allocated"),
            "reserved_bytes": header.size_bytes("Allocation Total Reserved"),
        }

        def fill(row: Sequence[str]) -> None:
            size_bytes = size(row)
            if size_bytes is None:
                raise ValueError(phrase("{column} is empty", column="Size"))
            numbers = {"size_bytes": abs(size_bytes)}
            numbers["start_ns"], numbers["end_ns"] = _lifetime(
                start(row), _first(end(row), active_end(row)), duration(row), size_bytes < 0
            )
            for name, read_total in totals.items():
                total = read_total(row)
                numbers[name] = UNKNOWN if total is None else total
            for name, number in numbers.items():
                self._numbers[name].append(number)
            for name, read_text in texts.items():
                self._codes[name].append(self._texts[name].setdefault(read_text(row), len(self._texts[name])))

        return fill

    def done(self) -> OperatorMemory:
        numbers: dict[str, NDArray[np.int64]] = {
            name: np.array(column, dtype=np.int64) for name, column in self._numbers.items()
        }
        codes: dict[str, NDArray[np.int32]] = {
            name: np.array(column, dtype=np.int32) for name, column in self._codes.items()
        }
        return OperatorMemory(
            start_ns=numbers["start_ns"],
            end_ns=numbers["end_ns"],
            size_bytes=numbers["size_bytes"],
            allocated_bytes=numbers["allocated_bytes"],
            reserved_bytes=numbers["reserved_bytes"],
            name=codes["name"],
            names=tuple(self._texts["name"]),
            stream=codes["stream"],
            streams=tuple(self._texts["stream"]),
            device=codes["device"],
            devices=tuple(self._texts["device"]),
        )


def _lifetime(start: int | None, end: int | None, duration: int | None, is_release: bool) -> tuple[int, int]:
    """(birth, release). Raises ValueError where they contradict each other."""
    if is_release:
        released = _first(end, start)
        if released is None:
            raise ValueError(phrase("a release has no time"))
        return BEFORE, released
    if start is None or start < 0:
        raise ValueError(
            phrase("{column} is empty", column="Allocation Time")
            if start is None
            else phrase("{column} is {value}", column="Allocation Time", value=start)
        )
    if end is None and duration is not None:
        end = start + duration
    if end is not None and end < start:
        raise ValueError(phrase("released {time} ns before it is allocated", time=start - end))
    return start, NEVER if end is None else end


def _first(one: int | None, other: int | None) -> int | None:
    return other if one is None else one
