"""What becomes of the blocks of a trace: let go earlier or later, there once more, or on the host for a while."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.lifetimes import NEVER, TICKS, Category


@dataclass(frozen=True, slots=True)
class Again:
    """A block that is there once more: ``row`` of the trace, from ``start`` to ``end`` in ticks."""

    row: int
    start: int
    end: int
    category: Category
    layer: int


@dataclass(frozen=True, slots=True)
class Move:
    """A block that goes to the host: ``row``, out at ``leaves``, back at ``returns``, in ticks."""

    row: int
    layer: int
    leaves: int
    returns: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Times of what runs once more just before the task ``turn``, in the order of the first time."""

    start: int
    turn: int

    def at(self, event: int) -> int:
        return self.turn * TICKS - TICKS // 2 + min(event - self.start, TICKS // 2 - 1)


@dataclass(slots=True)
class Changes:
    """``end``: int64 [n], in ticks, of each device block; NEVER stays. ``lost``: rows that nobody lets go of."""

    end: NDArray[np.int64]
    lost: list[int] = field(default_factory=list)
    again: list[Again] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    kernels: dict[int, int] = field(default_factory=dict)
    _back: dict[int, int] = field(default_factory=dict)  # row -> which of ``again`` came back last

    def shorten(self, row: int, end: int) -> None:
        self.end[row] = min(int(self.end[row]), end)

    def lengthen(self, row: int, end: int) -> None:
        self.end[row] = max(int(self.end[row]), end)

    def move(self, move: Move, end: int) -> None:
        """``end``: the event of the block's release in the trace. What several layers saved moves with the first."""
        ticks = NEVER if end == NEVER else end * TICKS
        last = self._back.get(move.row)
        if last is not None and self.again[last].start > move.leaves:
            return
        if last is None:
            self.shorten(move.row, move.leaves)
        else:
            self.again[last] = replace(self.again[last], end=move.leaves)
        self._back[move.row] = len(self.again)
        self.again.append(Again(move.row, move.returns, ticks, Category.SWAP, move.layer))
        self.moves.append(move)
