"""CSV -> HELD: a table of memory, told by its header."""

from __future__ import annotations

from pathlib import Path

from swapconf.files.table_lines import HEADER, NOT_FOUND
from swapconf.postmortem import block_table, operator_table
from swapconf.postmortem.held import HeldAtPeak
from swapconf.profile.known_files import FileKind, of_file
from swapconf.profile.profiler_csv import profiler_damage
from swapconf.words.phrases import phrase


def read(path: Path) -> HeldAtPeak:
    """Raises SwapconfError, also for a file that is no such table."""
    damage = profiler_damage(path)
    try:
        known = of_file(path)
    except OSError as error:
        known = None
        damage.add(NOT_FOUND, phrase("cannot be read ({reason})", reason=error.strerror or error))
    damage.refuse()
    kind = None if known is None else known.kind
    if kind is FileKind.BLOCKS:
        return block_table.read(path)
    if kind is FileKind.OPERATORS:
        return operator_table.read(path)
    damage.add(HEADER, phrase("this is neither memory_block.csv nor operator_memory.csv"), 1)
    damage.refuse()
    raise AssertionError
