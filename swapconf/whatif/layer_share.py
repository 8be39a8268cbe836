"""BASELINE -> SHARE: what a layer of a rank holds at the peak and takes of a step, on average over its layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.memory.categories import alive
from swapconf.memory.trace_lifetimes import layer_of
from swapconf.timing.timing import Floats
from swapconf.trace.lifetimes import Lifetimes


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerShare:
    """``busy_us``: all kernels of the rank's step; ``layer_bytes``, ``layer_us``: of one of its layers. Zero for a rank
    without layers."""

    num_layers: int
    layer_bytes: float
    layer_us: float
    busy_us: float


def layer_share(live: Lifetimes, names: tuple[str, ...], duration_us: Floats) -> LayerShare:
    """``names``, ``duration_us``: of the kernels of the step."""
    at_peak = alive(live, live.used.peak_time) & (live.layer >= 0)
    of_kernel = np.array([layer_of(name) for name in names], dtype=np.int64)
    count = len(set(of_kernel[of_kernel >= 0].tolist()))
    return LayerShare(
        num_layers=count,
        layer_bytes=float(live.size_bytes[at_peak].sum()) / max(count, 1),
        layer_us=float(duration_us[of_kernel >= 0].sum()) / max(count, 1),
        busy_us=float(duration_us.sum()),
    )
