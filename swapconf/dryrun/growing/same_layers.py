"""PERIODS + LAYERS -> PERIODS of which the copied one has the same layers in each, as far as each reaches.

A tensor of the forward pass of a layer is released in the backward pass of that layer, so both have to be copied
together. In which layers a window of one period stands is told by the mean of the layers in its names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from swapconf.dryrun.growing.periods import Period


def same_layers(periods: Sequence[Period], layers: Sequence[int]) -> tuple[Period, ...]:
    """``layers``: [places] the layer of each, -1 where it is not known. What tells no layer stays as it is."""
    layer = np.asarray(layers, dtype=np.int64)
    means = [_means(period, layer) for period in periods]
    told = [mean for mean in means if len(mean)]
    if not told:
        return tuple(periods)
    middle = (max(mean.min() for mean in told) + min(mean.max() for mean in told)) / 2
    return tuple(
        replace(period, start=period.low + int(np.abs(mean - middle).argmin())) if len(mean) else period
        for period, mean in zip(periods, means, strict=True)
    )


def _means(period: Period, layer: NDArray[np.int64]) -> NDArray[np.float64]:
    """By start, from ``low`` on: the mean layer of a window of one period, by the names that are another layer's one
    period later; empty where there are none."""
    low, high, length = period.low, period.high, period.length
    here = layer[low:high]
    moves = np.zeros(len(here), dtype=np.bool_)
    differs = (here[:-length] >= 0) & (here[length:] >= 0) & (here[:-length] != here[length:])
    moves[:-length] |= differs
    moves[length:] |= differs
    sums, counts = (np.concatenate([[0], np.cumsum(values)]) for values in (np.where(moves, here, 0), moves))
    counted = counts[length:] - counts[:-length]
    if not counted.all():
        return np.zeros(0)
    return np.asarray((sums[length:] - sums[:-length]) / counted)
