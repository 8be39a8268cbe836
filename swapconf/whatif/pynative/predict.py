"""LAYOUT + PARTS -> PREDICTION of a PyNative run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from swapconf.trace.lifetimes import CATEGORIES, MAIN_STREAM, NEVER, TICKS, Category, Lifetimes, Usage, usage
from swapconf.whatif.pynative.bound import recompute_at_worst, state_twice, swap_at_worst
from swapconf.whatif.pynative.changes import Changes
from swapconf.whatif.pynative.intervals import Interval, Step
from swapconf.whatif.pynative.layout import Layout
from swapconf.whatif.pynative.parts import Parts
from swapconf.whatif.pynative.recompute import recompute
from swapconf.whatif.pynative.swap import swap

_COPYING = MAIN_STREAM + 1  # any other: what a swap brings back is allocated on the stream that copies


@dataclass(frozen=True, kw_only=True)
class NativePrediction:
    """``moved_bytes``, ``kernels``: by layer, of one step. ``host_peak_bytes``: the most on the host at once."""

    device: Lifetimes
    moved_bytes: dict[int, int]
    kernels: dict[int, int]
    host_peak_bytes: int

    @property
    def used_peak_bytes(self) -> int:
        return self.device.used_peak_bytes


def predict(
    layout: Layout, steps: tuple[Step, ...], device: Lifetimes, parts: Parts, num_steps: int
) -> NativePrediction:
    """``device``: the blocks of the trace, in the order of the layout. ``steps``: of each micro-batch, those of
    ``num_steps`` whole ones."""
    return _prediction(layout, num_steps, device, _changes(layout, steps, parts, recompute, swap))


def safe_peak_bytes(layout: Layout, steps: tuple[Step, ...], parts: Parts) -> int:
    """A peak that the true run does not exceed, see `bound`; never below the predicted one."""
    found = 0
    for again, moved in ((recompute, swap), (recompute_at_worst, swap_at_worst)):
        changes = _changes(layout, steps, parts, again, moved)
        if parts.again or parts.moved:
            state_twice(layout, changes, steps)
        found = max(found, _used(layout, changes).peak_bytes)
    return found


def _changes(
    layout: Layout,
    steps: tuple[Step, ...],
    parts: Parts,
    recompute: Callable[[Layout, Changes, Step, Interval], None],
    swap: Callable[[Layout, Changes, Step, Interval, Interval], None],
) -> Changes:
    changes = layout.unchanged()
    own_end = changes.end.copy()
    for step in steps:
        for one in step.passes:
            if (one.layer, one.module) in parts.again:
                recompute(layout, changes, step, one)
        for layer, module, target in parts.moved:
            part, other = step.part(layer, module), step.layer(target)
            if part is not None and other is not None:
                swap(layout, changes, step, part, other)
    shards = layout.of_shards  # gathered once more for what runs again
    changes.end[shards] = np.minimum(changes.end, own_end)[shards]
    changes.end[changes.lost] = NEVER
    return changes


def _used(layout: Layout, changes: Changes) -> Usage:
    again = changes.again
    rows = np.array([*range(len(layout.start)), *(one.row for one in again)], dtype=np.int64)
    start = np.concatenate([layout.start * TICKS, np.array([one.start for one in again], dtype=np.int64)])
    end = np.concatenate([changes.end, np.array([one.end for one in again], dtype=np.int64)])
    return usage(start, end, layout.size_bytes[rows])


def _prediction(layout: Layout, num_steps: int, device: Lifetimes, changes: Changes) -> NativePrediction:
    rows = np.array([*range(len(device)), *(one.row for one in changes.again)], dtype=np.int64)
    start = np.concatenate([device.start * TICKS, np.array([one.start for one in changes.again], dtype=np.int64)])
    end = np.concatenate([changes.end, np.array([one.end for one in changes.again], dtype=np.int64)])
    category = [CATEGORIES.index(one.category) for one in changes.again]
    stream = [_COPYING if one.category is Category.SWAP else MAIN_STREAM for one in changes.again]
    order = np.argsort(start, kind="stable")
    rows = rows[order]
    moved: dict[int, int] = {}
    for move in changes.moves:
        moved[move.layer] = moved.get(move.layer, 0) + int(layout.value_bytes[move.row])
    leaves, returns = (
        np.array([getattr(one, name) for one in changes.moves], np.int64) for name in ("leaves", "returns")
    )
    sizes = layout.value_bytes[[one.row for one in changes.moves]] if changes.moves else np.zeros(0, np.int64)
    return NativePrediction(
        device=Lifetimes(
            start=start[order],
            end=end[order],
            size_bytes=device.size_bytes[rows],
            is_persistent=device.is_persistent[rows],
            category=np.concatenate([device.category, np.array(category, dtype=np.uint8)])[order],
            layer=np.concatenate([device.layer, np.array([one.layer for one in changes.again], dtype=np.int32)])[order],
            name=device.name[rows],
            names=device.names,
            stream=np.concatenate([device.streams, np.array(stream, dtype=np.int64)])[order],
        ),
        moved_bytes={layer: size // num_steps for layer, size in sorted(moved.items())},
        kernels={layer: count // num_steps for layer, count in sorted(changes.kernels.items())},
        host_peak_bytes=usage(leaves, returns, sizes).peak_bytes,
    )
