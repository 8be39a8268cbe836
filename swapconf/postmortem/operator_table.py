"""OPERATOR_MEMORY.CSV -> HELD, of the device that held the most."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swapconf.files.table_lines import INCOMPLETE
from swapconf.memory.categories import operator_of
from swapconf.memory.trace_lifetimes import layer_of
from swapconf.postmortem.held import NUM_BLOCKS, HeldAtPeak, HeldBlock
from swapconf.profile import operator_memory
from swapconf.profile.memory_profile import UNKNOWN, OperatorMemory
from swapconf.profile.profiler_csv import profiler_damage
from swapconf.trace.lifetimes import NEVER, usage
from swapconf.trace.phases import phase_of_name
from swapconf.words.phrases import phrase


def read(path: Path) -> HeldAtPeak:
    """Raises SwapconfError."""
    table = operator_memory.read(path)
    if not len(table):
        damage = profiler_damage(path)
        damage.add(INCOMPLETE, phrase("there is no allocation below the header"))
        damage.refuse()
    devices = [_of_device(path, table, code) for code in range(len(table.devices)) if (table.device == code).any()]
    return max(devices, key=lambda held: held.peak_bytes)


def _of_device(path: Path, table: OperatorMemory, device: int) -> HeldAtPeak:
    rows = np.flatnonzero(table.device == device)
    start, end, size = table.start_ns[rows], table.end_ns[rows], table.size_bytes[rows]
    used = usage(start, end, size)
    peak_time = used.peak_time
    at_peak = np.flatnonzero((start <= peak_time) & (end > peak_time))
    largest = at_peak[np.argsort(-size[at_peak], kind="stable")]
    maker = int(at_peak[start[at_peak].argmax()])
    told, reserved = table.allocated_bytes[rows], table.reserved_bytes[rows]
    top = int(told.argmax())  # the allocator's own sum also counts what no row tells
    names = [table.names[code] for code in table.name[rows].tolist()]

    def held(row: int) -> HeldBlock:
        found = phase_of_name(names[row])
        return HeldBlock(
            size_bytes=int(size[row]),
            name=operator_of(names[row]) or names[row],
            layer=layer_of(names[row]),
            phase=found.value if found is not None else "",
        )

    return HeldAtPeak(
        file=str(path),
        kind="operator_memory",
        device=table.devices[device],
        num_devices=len(table.devices),
        peak_bytes=max(used.peak_bytes, int(told[top])),
        pool_bytes=int(reserved[top]) if told[top] != UNKNOWN and reserved[top] != UNKNOWN else None,
        made_by=held(maker if told[top] == UNKNOWN else top),
        last=held(int(start.argmax())),
        by_category=_by_name(names, size, at_peak),
        by_phase=_by_phase(names, start, told),
        blocks=tuple(held(row) for row in largest[:NUM_BLOCKS].tolist()),
        num_blocks=len(at_peak),
        alive_at_end_bytes=int(size[end == NEVER].sum()),
    )


def _by_name(names: list[str], size: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[tuple[str, int], ...]:
    """Bytes at the peak by operator, whatever its layer; the table does not tell what a block holds."""
    sums: dict[str, int] = {}
    for row in rows.tolist():
        operator = operator_of(names[row]) or names[row]
        sums[operator] = sums.get(operator, 0) + int(size[row])
    return tuple(sorted(sums.items(), key=lambda item: -item[1])[:NUM_BLOCKS])


def _by_phase(names: list[str], start: NDArray[np.int64], told: NDArray[np.int64]) -> tuple[tuple[str, int], ...]:
    most: dict[str, int] = {}
    for row in np.argsort(start, kind="stable").tolist():
        found = phase_of_name(names[row])
        if found is not None and told[row] != UNKNOWN:
            most[found.value] = max(most.get(found.value, 0), int(told[row]))
    return tuple(most.items())
