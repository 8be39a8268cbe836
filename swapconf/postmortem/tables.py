"""CSV -> HELD: a table of memory, told by its header."""

from __future__ import annotations

from pathlib import Path

from swapconf.files.opening import read_bytes
from swapconf.files.table_lines import HEADER, NOT_FOUND
from swapconf.postmortem import block_table, operator_table
from swapconf.postmortem.held import HeldAtPeak
from swapconf.profile.profiler_csv import profiler_damage
from swapconf.words.phrases import phrase

_HEADER_BYTES = 4096


def read(path: Path) -> HeldAtPeak:
    """Raises SwapconfError, also for a file that is no such table."""
    damage = profiler_damage(path)
    try:
        header = read_bytes(path, _HEADER_BYTES).partition(b"\n")[0]
    except OSError as error:
        header = b""
        damage.add(NOT_FOUND, phrase("cannot be read ({reason})", reason=error.strerror or error))
    damage.refuse()
    if b"start_time_stamp" in header:
        return block_table.read(path)
    if b"Allocation Time" in header:
        return operator_table.read(path)
    damage.add(HEADER, phrase("this is neither memory_block.csv nor operator_memory.csv"), 1)
    damage.refuse()
    raise AssertionError
