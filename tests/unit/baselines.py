"""Baselines of a few kernels: what they are and what they read, without the blocks of a device."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from swapconf.trace.columns import Ints, Kernels, LayerRows, Reads
from swapconf.trace.lifetimes import Lifetimes
from swapconf.whatif.baseline import Baseline


def of_kernels(kernels: Kernels, uses: Iterable[tuple[int, int]], maker: Ints | None = None) -> Baseline:
    """``uses``: (block, kernel that reads it). ``maker``: [blocks] by default kernel i makes block i."""
    made = np.arange(len(kernels)) if maker is None else maker
    block, kernel = (np.array(column, dtype=np.int64) for column in zip(*sorted(uses), strict=True))
    decoders = 1 + int(kernels.layer.max())
    none = np.zeros(0, dtype=np.int64)
    return Baseline(
        blocks=Lifetimes(
            start=none,
            end=none,
            size_bytes=none,
            is_persistent=none.astype(bool),
            names=(),
            category=none.astype(np.uint8),
            layer=none.astype(np.int32),
            name=none.astype(np.int32),
        ),
        maker=made,
        host_bytes=np.zeros(len(made), dtype=np.int64),
        steps=1,
        kernels=kernels,
        layers=LayerRows(tuple(map(str, range(decoders))), np.zeros(decoders, dtype=np.bool_)),
        reads=Reads(block=block, kernel=kernel, until=kernel, face=made[block], via=made[block]),
    )
