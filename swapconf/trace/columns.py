"""COLUMNS of a run: its kernels, and what they read, as equally long arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
FUSED = "/GraphKernel_"


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """Columns of length n.

    Attributes:
        layer: A row of `LayerRows`, -1 outside the layers.
        cell: Dotted path from the layer.
        passing: Number of the pass that a node belongs to, else -1.
        before: [n + 1] the event of the first allocation from kernel i on.
        backward: Computes gradients, or again for them what the model itself recomputes.
    """

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

    @cached_property
    def primitives(self) -> NDArray[np.str_]:
        """``primitive`` as a column, to be compared as a whole."""
        return np.array(self.primitive)

    @cached_property
    def is_fused(self) -> Flags:
        """[n] several operators in one kernel (``jit_level: O1``), which has no scope."""
        return np.array([FUSED in name for name in self.name], dtype=np.bool_)

    @cached_property
    def is_lost(self) -> Flags:
        """[n] MindSpore put it in, or merged it for several cells, so that it has no scope of its own."""
        return np.array([name.count("/") == 1 for name in self.name], dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class LayerRows:
    """The layers of the model, as `Kernels.layer` counts them: a decoder layer by its number, behind these the layers
    of multi-token prediction, which are ``is_extra``. ``names``: what the network calls them."""

    names: tuple[str, ...]
    is_extra: Flags

    def name(self, row: int) -> str:
        """Also for the row of what is outside of layers, which is -1: "" ."""
        return self.names[row] if row >= 0 else ""


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Columns of equal length, by block, then kernel.

    Attributes:
        until: The kernel after which this use ends; later than the kernel itself where another stream reads.
        face: A kernel, -1 where none made the block.
        via: The view that a gradient makes for the reader, else as ``face``.
    """

    block: Ints
    kernel: Ints
    until: Ints
    face: Ints
    via: Ints
