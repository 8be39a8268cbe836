"""HELD: what filled the memory of a device at the peak that a table of memory recorded.

A table tells no failure: a run that died of memory died at its end, and the table holds what was allocated before.
"""

from __future__ import annotations

from dataclasses import dataclass

from swapconf.words.phrases import mark

NUM_BLOCKS = 10
BEFORE = mark("held before the profiler began")  # among what is held at the peak: in no row of a table


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldBlock:
    """One allocation. ``layer``: -1 outside of layers; ``holds``: a phrase, "" where the table does not tell."""

    size_bytes: int
    name: str
    layer: int
    holds: str = ""
    phase: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldAtPeak:
    """What one device held.

    Attributes:
        file, kind: The table.
        device: Its name in the table, "" where it has none; ``num_devices``: all that the table tells of.
        peak_bytes: The most in use at once.
        pool_bytes: What the pool had taken then; None where it is not told.
        made_by: The allocation that made the peak.
        last: The last allocation of the table.
        by_category: Bytes at the peak, the largest first, by what they hold, or by operator, or BEFORE.
        by_phase: The most in use while a phase ran, in the order of phases.
        blocks: The largest at the peak, at most `NUM_BLOCKS`; ``num_blocks``: of all.
        alive_at_end_bytes: Never released in the table.
    """

    file: str
    kind: str
    device: str
    num_devices: int
    peak_bytes: int
    pool_bytes: int | None
    made_by: HeldBlock
    last: HeldBlock
    by_category: tuple[tuple[str, int], ...]
    by_phase: tuple[tuple[str, int], ...]
    blocks: tuple[HeldBlock, ...]
    num_blocks: int
    alive_at_end_bytes: int

    @property
    def pieces_bytes(self) -> int | None:
        """Of the pool, what nobody held at the peak."""
        return None if self.pool_bytes is None else max(0, self.pool_bytes - self.peak_bytes)
