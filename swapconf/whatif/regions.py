"""BASELINE + COPIES -> POSITIONS: what runs again, among the gradient kernels that wait for it.

What runs again in one connected part of a pass (a *region*) starts where the gradient arrives that the first of its
readers needs. From there to its last reader, kernels are launched in the order that `order` finds; all other kernels
keep their place. Where a step has several micro-batches, what needs nothing else that runs again, such as the casts of
weights, runs right behind the kernel that makes the gradient, before the views and the communication of that gradient
(measured with MindSpore 2.9.0). What reads a gradient that another stage of a pipeline sends waits no longer than the
rest, as all of the region waits for it. Passes of equal layers have equal regions, so each pattern is ordered once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.launch_order import UNKNOWN, Region, order
from swapconf.whatif.region_parts import RegionPart, parts
from swapconf.whatif.slots import AGAIN, TURN
from swapconf.whatif.ungated import places

NEAR = 8  # views and communication in a row that may bring a gradient, whatever else is launched between them


def positions(
    baseline: Baseline,
    again: Flags,
    flagged: Flags,
    wanted: Ints,
    rows: Ints,
    kept: Flags,
    free: Flags | None = None,
    root: Ints | None = None,
) -> tuple[Ints, Ints]:
    """(positions of nodes that run again, positions of all kernels). ``rows``: reads by gradients of what runs again,
    ``wanted``: the node that each of them reads. ``kept``: [blocks] not made again, although their maker runs again;
    ``free``: [kernels] belongs to no region, see `ungated`; ``root``: [kernels] see `Covered`."""
    place = np.zeros(len(baseline.kernels), dtype=np.int64)
    where = np.arange(len(baseline.kernels)) * TICKS
    if free is not None and free.any():
        place[free] = places(baseline, np.flatnonzero(free).tolist())
        again, gated = again & ~free, ~free[wanted]
        wanted, rows = wanted[gated], rows[gated]
    redirected = np.zeros(len(baseline.reads.block), dtype=np.bool_)
    redirected[rows] = True
    ranks: dict[bytes, tuple[Ints, Flags]] = {}
    label = _connected(baseline, flagged, kept)
    if root is not None:
        label = _of_cells(baseline, label, again, root)
    for part in parts(baseline, again, label, wanted, baseline.reads.kernel[rows]):
        pattern = baseline.codes[np.concatenate([part.copies, part.kernels])].tobytes()
        pattern += (part.first - part.start).tobytes()
        key = len(part.copies).to_bytes(4, "little") + pattern
        if key not in ranks:
            ranks[key] = _ranked(baseline, part, redirected, kept)
        rank, first = ranks[key]
        begin = np.where(first, _arrival(baseline, part.start), part.start - 1)
        spot = begin * TICKS + AGAIN + TURN * rank
        place[part.copies], where[part.kernels] = spot[: len(part.copies)], spot[len(part.copies) :]
    twins = np.flatnonzero(again & (baseline.twin >= 0))
    where[baseline.twin[twins]] = place[twins]
    return place, where


def _connected(baseline: Baseline, flagged: Flags, kept: Flags) -> Ints:
    """A label for each node, equal for flagged nodes of one pass that are connected."""
    reader, face = baseline.edges
    inside = flagged[reader] & flagged[face] & ~kept[baseline.edge_blocks]
    reader, face = reader[inside], face[inside]
    label = np.arange(len(flagged))
    while True:
        lowest = np.minimum(label[reader], label[face])
        before = label.copy()
        np.minimum.at(label, reader, lowest)
        np.minimum.at(label, face, lowest)
        label = np.asarray(label[label])
        if np.array_equal(before, label):
            return label


def _of_cells(baseline: Baseline, label: Ints, again: Flags, root: Ints) -> Ints:
    """The labels, where all that runs again of one cell has one, connected or not: the whole cell is tied to the
    gradient of its output. ``root``: see `Covered`."""
    inside = np.flatnonzero(again & (root >= 0) & (baseline.kernels.passing >= 0))
    _, cell = np.unique(
        baseline.kernels.passing[inside] * (int(root.max(initial=0)) + 1) + root[inside], return_inverse=True
    )
    while True:
        lowest = np.full(len(inside), len(label), dtype=np.int64)
        np.minimum.at(lowest, cell, label[inside])
        joined = np.arange(len(label))
        np.minimum.at(joined, label[inside], lowest[cell])
        before, label = label, np.asarray(joined[label])
        if np.array_equal(before, label):
            return label


def _ranked(baseline: Baseline, part: RegionPart, redirected: Flags, kept: Flags) -> tuple[Ints, Flags]:
    """The place of each item in the order of launches, and as in `_region`; known of the same part of any strategy."""
    read, gated = baseline.all_rows_of(part.kernels), baseline.reads.block[baseline.all_rows_of(part.copies)]
    columns = part.copies, part.first, part.kernels, redirected[read], kept[gated]
    key = b"".join([np.array([len(part.copies), part.start]).tobytes(), *(column.tobytes() for column in columns)])
    if key not in baseline.orders:
        region, first = _region(baseline, part, redirected, kept)
        launched = order(region)
        rank = np.empty(len(launched), dtype=np.int64)
        rank[launched] = np.arange(len(rank))
        baseline.orders[key] = rank, first
    return baseline.orders[key]


def _region(baseline: Baseline, part: RegionPart, redirected: Flags, kept: Flags) -> tuple[Region, Flags]:
    """Also which items are launched right behind the kernel that makes the gradient."""
    copies, launched = part.copies.tolist(), part.kernels.tolist()
    items = _Items(baseline, part, redirected, kept)
    needs = [items.needed_again(node, first) for node, first in zip(copies, part.first.tolist(), strict=True)]
    needs += [items.needed(kernel) for kernel in launched]
    first = np.zeros(len(needs), dtype=np.bool_)
    if (baseline.upfront >= 0).any():
        first[: len(copies)] = [not given for given in needs[: len(copies)]]
        first[: len(copies)] &= baseline.twin[part.copies] < 0
    talks = baseline.kernels.stream[[*copies, *launched]] != 0
    outputs = items.outputs
    needs, shown = [*needs, *outputs.needs], len(outputs.needs)
    return Region(
        needs=needs,
        late=frozenset(
            item for item, kernel in enumerate(launched, len(copies)) if items.waits_for_communication(kernel)
        ),
        num_real=outputs.num_makers,
        ahead=frozenset(np.flatnonzero(first & talks).tolist()),
        talks=[*talks.tolist(), *[False] * shown],
        depth=[*[UNKNOWN] * len(copies), *baseline.depth[launched].tolist(), *[UNKNOWN] * shown],
        single=_single(baseline, needs, len(copies), launched),
    ), first


class _Items:
    """The items of a region: first what runs again, then the kernels that wait for it."""

    def __init__(self, baseline: Baseline, part: RegionPart, redirected: Flags, kept: Flags) -> None:
        self._baseline, self._reads, self._part = baseline, baseline.reads, part
        self._redirected, self._kept = redirected, kept
        copies, launched = part.copies.tolist(), part.kernels.tolist()
        self._copy = {node: item for item, node in enumerate(copies)}
        self._copy_of = self._copy | {
            int(baseline.twin[node]): item for node, item in self._copy.items() if baseline.twin[node] >= 0
        }
        self._item_of = {kernel: len(copies) + item for item, kernel in enumerate(launched)}
        self._begin = min(_arrival(baseline, part.start), part.start - NEAR - 1)
        self._arrival = {first: _arrival(baseline, first) for first in np.unique(part.first).tolist()}
        self.outputs = _Outputs(baseline.num_made[[*copies, *launched]].tolist())

    def needed_again(self, node: int, first: int) -> list[int]:
        """What a node that runs again needs. One that needs nothing waits for the gradient of its own region."""
        block, face = self._reads.block, self._reads.face
        sources = [
            self.outputs.of(self._copy[int(face[row])], int(block[row]))
            for row in self._baseline.rows_of(node)
            if not self._kept[block[row]] and int(face[row]) in self._copy
        ]
        gate = self._item_of.get(self._arrival[first], -1)
        return list(dict.fromkeys(sources)) or [gate] * (gate >= 0)

    def needed(self, kernel: int) -> list[int]:
        """What a kernel that waits needs of the region."""
        items = [item for row in self._baseline.rows_of(kernel) for item in self._read_by(row)]
        return [item for item in dict.fromkeys(items) if item >= 0]

    def _read_by(self, row: int) -> tuple[int, ...]:
        face, block, view = int(self._reads.face[row]), int(self._reads.block[row]), self._view(row)
        if self._redirected[row]:
            source = self._copy.get(face, self._copy.get(int(self._baseline.below[face]), -1))
            return self.outputs.of(source, block), view
        if view >= 0:
            return (view,)
        return (self.outputs.of(self._item(face), block),) if self._item(face) >= 0 else ()

    def _item(self, node: int) -> int:
        return self._item_of.get(node, self._copy_of.get(node, -1))

    def _view(self, row: int) -> int:
        """The view that a gradient makes for this one, -1 for none."""
        face, via = int(self._reads.face[row]), int(self._reads.via[row])
        return self._item(via) if via != face else -1

    def waits_for_communication(self, kernel: int) -> bool:
        """Whether it reads what communication has made shortly before the region."""
        return any(self._is_communicated(row) for row in self._baseline.rows_of(kernel))

    def _is_communicated(self, row: int) -> bool:
        face, kernels = int(self._reads.face[row]), self._baseline.kernels
        if self._redirected[row] or self._view(row) >= 0 or self._item(face) >= 0:
            return False
        is_before = self._begin < face < self._part.start
        return bool(is_before and kernels.stream[face] != 0 and kernels.primitives[face] != "Receive")


class _Outputs:
    """The outputs of kernels that make several, as items behind those of the kernels."""

    def __init__(self, num_made: Sequence[int]) -> None:
        self._num_made, self._outputs = num_made, dict[tuple[int, int], int]()
        self.needs: list[list[int]] = []

    @property
    def num_makers(self) -> int:
        return len(self._num_made)

    def of(self, item: int, block: int) -> int:
        """What shows a block that an item makes: the item, where it makes nothing else."""
        if item < 0 or self._num_made[item] < 2:
            return item
        if (item, block) not in self._outputs:
            self._outputs[item, block] = self.num_makers + len(self.needs)
            self.needs.append([item])
        return self._outputs[item, block]


def _arrival(baseline: Baseline, reader: int) -> int:
    """The kernel that makes the gradient which a kernel reads, looked for through views and communication; the kernel
    before the reader where there is none."""
    kernels, at = baseline.kernels, reader
    for _ in range(NEAR):
        faces = [face for face in _faces(baseline, at) if 0 <= face < at and kernels.backward[face]]
        if not faces:
            break
        at = max(faces)
        if kernels.stream[at] == 0 and kernels.primitive[at] not in VIEWS:
            return at
    return reader - 1


def _faces(baseline: Baseline, kernel: int) -> list[int]:
    return list(dict.fromkeys(int(baseline.reads.face[row]) for row in baseline.rows_of(kernel)))


def _single(baseline: Baseline, needs: list[list[int]], num_copies: int, launched: list[int]) -> list[bool]:
    """Which items have one reader in all: a copy, and an output, within the region, a kernel anywhere."""
    needed = np.array([item for given in needs for item in given], dtype=np.int64)
    single: list[bool] = (np.bincount(needed, minlength=len(needs)) == 1).tolist()
    single[num_copies : num_copies + len(launched)] = (baseline.num_readers[launched] == 1).tolist()
    return single
