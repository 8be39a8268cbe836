"""BASELINE: a run without swap and recompute, laid out for what-if.

Kernels are counted in launch order, without the kernels that only order streams. A *node* is a forward kernel inside
a layer; a view is one, too. A *read* is one kernel using one block; its *face* is the node through which it sees the
block, the kernel that made it or a view of it. A *pass* is one layer computed for one micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from swapconf.simulation import TICKS, Lifetimes

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
HALF = TICKS // 2


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """Columns of length n. ``layer``: -1 outside the layers. ``cell``: dotted path from the layer. ``passing``: number
    of the pass that a node belongs to, else -1. ``before``: [n + 1] the event of the first allocation from kernel i
    on. ``backward``: computes gradients, or again for them what the model itself recomputes."""

    name: tuple[str, ...]
    layer: Ints
    cell: tuple[str, ...]
    primitive: tuple[str, ...]
    stream: Ints
    backward: Flags
    passing: Ints
    before: Ints

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Columns of equal length, by block, then kernel. ``until``: the kernel after which this use ends; later than the
    kernel itself where another stream reads. ``face``: a kernel, -1 where none made the block."""

    block: Ints
    kernel: Ints
    until: Ints
    face: Ints


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """``blocks``: all device blocks of the trace. ``maker``: [blocks] the kernel that made each, -1 for none.
    ``host_bytes``: [blocks] what a copy of each takes on the host. ``steps``: how often the training step is run."""

    blocks: Lifetimes
    maker: Ints
    host_bytes: Ints
    kernels: Kernels
    reads: Reads
    steps: int

    @cached_property
    def made(self) -> dict[int, list[int]]:
        """Kernel -> rows of the blocks that it makes."""
        found: dict[int, list[int]] = {}
        for row in np.flatnonzero(self.maker >= 0).tolist():
            found.setdefault(int(self.maker[row]), []).append(row)
        return found

    @cached_property
    def reads_of(self) -> dict[int, list[int]]:
        """Kernel -> rows of its reads."""
        found: dict[int, list[int]] = {}
        for row, kernel in enumerate(self.reads.kernel.tolist()):
            found.setdefault(kernel, []).append(row)
        return found


# A *position* tells where something happens: kernel i stands at i * TICKS, what is inserted before it in the
# HALF below. Positions order what happens; the functions below turn them into times of Lifetimes.

def born_at(baseline: Baseline, position: Ints) -> Ints:
    """When a block is allocated by what stands at a position."""
    kernel, part = np.divmod(position, TICKS)
    before = baseline.kernels.before
    return np.where(part == 0, before[kernel] * TICKS,
                    (before[np.minimum(kernel + 1, len(before) - 1)] - 1) * TICKS + part)


def freed_after(baseline: Baseline, position: Ints) -> Ints:
    """When a block is released whose last use stands at a position."""
    kernel, part = np.divmod(position, TICKS)
    before = baseline.kernels.before
    return (before[np.minimum(kernel + 1, len(before) - 1)] - 1) * TICKS + np.where(part == 0, 1, part + 1)
