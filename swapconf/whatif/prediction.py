"""PREDICTION: what a strategy would do to the memory of one rank, as far as a run without it tells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.lifetimes import Lifetimes, Usage, usage
from swapconf.upstream.launch_orders import Order


@dataclass(frozen=True, kw_only=True)
class Moves:
    """Tensors that are copied to the host and back, as columns of equal length; times as in Lifetimes.

    Attributes:
        site: Index into ``sites``, (layer name, path of the primitive).
        size_bytes: On the device, ``host_bytes``: on the host.
        copied, released: The copy to the host starts, and the device memory becomes free (NEVER: it does not, because
            others read it until their own last use).
        returned, used, end: The copy back starts, is read first, and its device memory becomes free.
        kept: The host memory is given back: where there are several copies back, as of the tables of a rotary embedding
            that all micro-batches read, by the last of them.
        unread: Copied to the host, where the memory is given back at once; these four tell nothing.
        underflows: The prefetch is one that makes MindSpore die while it compiles.
        stranded: It lets the copy back wait for a branch of a condition, on which MindSpore stops; not known without
            the graph.
    """

    sites: tuple[tuple[str, str], ...]
    site: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    host_bytes: NDArray[np.int64]
    prefetch: NDArray[np.int64]
    copied: NDArray[np.int64]
    released: NDArray[np.int64]
    returned: NDArray[np.int64]
    used: NDArray[np.int64]
    end: NDArray[np.int64]
    kept: NDArray[np.int64]
    unread: NDArray[np.bool_]
    underflows: NDArray[np.bool_]
    stranded: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.site)

    @cached_property
    def host(self) -> Usage:
        """Pinned host memory: taken by the copy out, given back by the last copy in."""
        return usage(self.copied, self.kept, self.host_bytes)

    @property
    def twice(self) -> NDArray[np.bool_]:
        """Where the copy back starts before the first copy is released, so that two copies live on the device."""
        return np.asarray((self.returned < self.released) & ~self.unread)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """``device``: every device block. ``recomputed``: how many kernels each training step runs again, views aside.
    ``steps``: how many training steps the timeline holds. ``order``: in which kernels are launched on it.
    ``is_circular``: nodes of the graph would wait for each other in a circle, on which MindSpore stops.
    ``lasting_host_bytes``: what the host holds under any strategy, as the state of an optimizer with `swap`."""

    device: Lifetimes
    moves: Moves
    recomputed: int
    steps: int
    order: Order = Order.RUN
    is_circular: bool = False
    lasting_host_bytes: int = 0

    @property
    def crashes(self) -> bool:
        """MindSpore does not compile it."""
        return self.is_circular or bool((self.moves.underflows | self.moves.stranded).any())

    @property
    def used_peak_bytes(self) -> int:
        return self.device.used_peak_bytes

    @property
    def host_peak_bytes(self) -> int:
        return self.lasting_host_bytes + (self.moves.host.peak_bytes if len(self.moves) else 0)

    @property
    def moved_bytes(self) -> int:
        """What one training step copies to the host; all but what is ``unread`` comes back."""
        return int(self.moves.size_bytes.sum()) // max(self.steps, 1)
