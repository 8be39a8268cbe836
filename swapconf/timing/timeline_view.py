"""TIMELINE VIEW: all that a picture of one step shows, of one rank or of several on one clock, whatever draws it.

Times are microseconds from the start of the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.timing import Floats, KernelKind


@dataclass(frozen=True, kw_only=True, eq=False)
class Lane:
    """What runs of one kind.

    Attributes:
        start_us, end_us: Float64 [n], ``start_us`` ascending.
        name: Int32 [n], index into the ``names`` of the rank.
        exposed_us: Float64 [n], how long the main stream stood still for it.
    """

    kind: KernelKind
    start_us: Floats
    end_us: Floats
    name: NDArray[np.int32]
    exposed_us: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class RankLanes:
    """``lanes``: of the kinds that occur. ``stalls_us``: float64 [s, 2], when the main stream stands still because of
    the kernel ``staller``: int32 [s], index into ``names``, of the kind ``staller_kind``: uint8 [s], index into KINDS.
    ``bubbles_us``: float64 [k, 2], when it waits for other ranks. ``memory_us``: float64 [m], ``memory_bytes``: int64
    [m], device memory in use from then on."""

    rank: int
    stage: int
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    stalls_us: Floats
    staller: NDArray[np.int32]
    staller_kind: NDArray[np.uint8]
    bubbles_us: Floats
    memory_us: Floats
    memory_bytes: NDArray[np.int64]

    @property
    def bubble_us(self) -> float:
        return float((self.bubbles_us[:, 1] - self.bubbles_us[:, 0]).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class TimelineView:
    """``origin``: how the times are known. ``notes``: what a reader should know of them."""

    title: str
    origin: str
    step_us: float
    ranks: tuple[RankLanes, ...]
    notes: tuple[str, ...] = ()

    @property
    def peak_bytes(self) -> int:
        return max((int(rank.memory_bytes.max(initial=0)) for rank in self.ranks), default=0)
