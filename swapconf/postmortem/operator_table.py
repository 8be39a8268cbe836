"""OPERATOR_MEMORY.CSV, STATIC_OP_MEM.CSV, a dump of msMemScope -> HELD, of the device that held the most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swapconf.files.table_lines import INCOMPLETE
from swapconf.memory.categories import operator_of
from swapconf.memory.trace_lifetimes import layer_of
from swapconf.postmortem.held import BEFORE, NUM_BLOCKS, HeldAtPeak, HeldBlock
from swapconf.profile import operator_memory, static_memory
from swapconf.profile.known_files import FileKind
from swapconf.profile.memory_profile import UNKNOWN, OperatorMemory
from swapconf.profile.profiler_csv import profiler_damage
from swapconf.trace.lifetimes import NEVER, usage
from swapconf.trace.phases import phase_of_name
from swapconf.words.phrases import phrase


def read(*paths: Path) -> HeldAtPeak:
    """Of the slices of operator_memory.csv. Raises SwapconfError."""
    return held(paths[0], FileKind.OPERATORS, operator_memory.read(*paths))


def read_static(*paths: Path) -> HeldAtPeak:
    """Of static_op_mem.csv. Raises SwapconfError."""
    return held(paths[0], FileKind.STATIC, static_memory.read(*paths))


def held(path: Path, kind: FileKind, table: OperatorMemory) -> HeldAtPeak:
    """Raises SwapconfError where there is no allocation."""
    if not len(table):
        damage = profiler_damage(path)
        damage.add(INCOMPLETE, phrase("there is no allocation below the header"))
        damage.refuse()
    codes = [code for code in range(len(table.devices)) if (table.device == code).any()]
    return max((_of_device(path, kind, table, code) for code in codes), key=lambda one: one.peak_bytes)


def _of_device(path: Path, kind: FileKind, table: OperatorMemory, device: int) -> HeldAtPeak:
    """The allocator's own sum also counts what no row tells: what it had given out before the profiler began."""
    rows = np.flatnonzero(table.device == device)
    start, end, size = table.start_ns[rows], table.end_ns[rows], table.size_bytes[rows]
    told = np.where(start < 0, UNKNOWN, table.allocated_bytes[rows])  # of a release, the birth was before
    reserved = table.reserved_bytes[rows]
    used = usage(start, end, size)
    top, is_told = int(told.argmax()), bool((told != UNKNOWN).any())
    peak_time = int(start[top]) if is_told else used.peak_time
    at_peak = np.flatnonzero((start <= peak_time) & (end > peak_time))
    largest = at_peak[np.argsort(-size[at_peak], kind="stable")]
    maker = top if is_told else int(at_peak[start[at_peak].argmax()])
    peak = max(int(told[top]), int(size[at_peak].sum())) if is_told else used.peak_bytes
    names = [table.names[code] for code in table.name[rows].tolist()]

    def block(row: int) -> HeldBlock:
        found = phase_of_name(names[row])
        return HeldBlock(
            size_bytes=int(size[row]),
            name=operator_of(names[row]) or names[row],
            layer=layer_of(names[row]),
            phase=found.value if found is not None else "",
        )

    return HeldAtPeak(
        file=str(path),
        kind=kind.value,
        device=table.devices[device],
        num_devices=len(table.devices),
        peak_bytes=peak,
        pool_bytes=int(reserved[top]) if is_told and reserved[top] != UNKNOWN else None,
        made_by=block(maker),
        last=block(int(start.argmax())),
        by_category=_by_name(names, size, at_peak, peak - int(size[at_peak].sum())),
        by_phase=_by_phase(names, start, told),
        blocks=tuple(block(row) for row in largest[:NUM_BLOCKS].tolist()),
        num_blocks=len(at_peak),
        alive_at_end_bytes=int(size[end == NEVER].sum()),
    )


def _by_name(
    names: Sequence[str], size: NDArray[np.int64], rows: NDArray[np.int64], before_bytes: int
) -> tuple[tuple[str, int], ...]:
    """Bytes at the peak by operator, whatever its layer; the table does not tell what a block holds."""
    sums: dict[str, int] = {}
    for row in rows.tolist():
        operator = operator_of(names[row]) or names[row]
        sums[operator] = sums.get(operator, 0) + int(size[row])
    if before_bytes > 0:
        sums[BEFORE] = before_bytes
    return tuple(sorted(sums.items(), key=lambda item: -item[1])[:NUM_BLOCKS])


def _by_phase(names: Sequence[str], start: NDArray[np.int64], told: NDArray[np.int64]) -> tuple[tuple[str, int], ...]:
    most: dict[str, int] = {}
    for row in np.argsort(start, kind="stable").tolist():
        found = phase_of_name(names[row])
        if found is not None and told[row] != UNKNOWN:
            most[found.value] = max(most.get(found.value, 0), int(told[row]))
    return tuple(most.items())
