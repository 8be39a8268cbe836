"""MEMORY PROFILE: device memory as the profiler of MindSpore or torch_npu saw it on a real card.

Unlike a trace, a profile counts nanoseconds, begins and ends in the middle of a run, and knows no tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.lifetimes import NEVER

BEFORE = -1
UNKNOWN = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorMemory:
    """Allocations as columns of equal length n, in the order of the file.

    Attributes:
        start_ns, end_ns: Int64 [n], times of birth and release; BEFORE where the profile began later, NEVER where it
            ended earlier.
        size_bytes: Int64 [n].
        allocated_bytes, reserved_bytes: Int64 [n], what the allocator had given out, and had taken from the device,
            right after the birth; UNKNOWN where the file does not tell.
        name, stream, device: Int32 [n], index into the tuple of texts in the plural ("" is not told).
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    allocated_bytes: NDArray[np.int64]
    reserved_bytes: NDArray[np.int64]
    name: NDArray[np.int32]
    names: tuple[str, ...]
    stream: NDArray[np.int32]
    streams: tuple[str, ...]
    device: NDArray[np.int32]
    devices: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def is_alive_at_end(self) -> NDArray[np.bool_]:
        """bool [n]: not released while the profiler ran."""
        return np.equal(self.end_ns, NEVER)


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Memory of one component (``MindSpore``, ``PTA``, ``GE``, ``APP``, ...) on one device.

    ``time_ns``: int64 [m], ascending. ``allocated_bytes``, ``reserved_bytes``, ``active_bytes``: int64 [m], from then
    on; UNKNOWN where the file does not tell, as with ``active_bytes`` of the graph engine (``GE``).
    """

    component: str
    device: str
    time_ns: NDArray[np.int64]
    allocated_bytes: NDArray[np.int64]
    reserved_bytes: NDArray[np.int64]
    active_bytes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def allocated_peak_bytes(self) -> int:
        return int(self.allocated_bytes.max(initial=0))

    @property
    def reserved_peak_bytes(self) -> int:
        return int(self.reserved_bytes.max(initial=0))
