"""BASELINE + FLAGS -> PROGRAM: which nodes run again in the backward pass, where, and who uses which block then.

Rules of MindSpore 2.9.0, as its traces show: a flagged node runs again when a gradient, or another node that runs
again, reads it; all that runs again in one pass waits for the gradient that the first of its readers needs, and then
stands in front of that reader. What the model itself computes again anyway is not computed twice, only earlier.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from swapconf.simulate.baseline import HALF, Baseline, Flags, Ints
from swapconf.simulate.sites import VIEWS
from swapconf.simulation import TICKS


@dataclass(frozen=True, kw_only=True)
class Program:
    """The baseline with what runs again.

    ``block``, ``position``, ``until``, ``face``, ``site``: every use of a block that kernels made, as in Reads, with
    positions for kernels; ``site`` owns a use by the backward pass, -1 for the others. Blocks beyond those of the
    baseline are new: ``origin``: the row they are a copy of, ``born``: position of the node that makes them.
    ``earlier``: rows of blocks that are made at another position than in the baseline.
    ``copies``: the nodes that run again, ``inserted``: their positions.
    """

    block: Ints
    position: Ints
    until: Ints
    face: Ints
    site: Ints
    origin: Ints
    born: Ints
    earlier: dict[int, int]
    copies: Ints
    inserted: Ints


def recompute(baseline: Baseline, of_read: Ints, flagged: Flags, flagged_read: Flags, of_node: Ints) -> Program:
    """``flagged``: [kernels] nodes to run again; ``flagged_read``: [reads] reads whose owner runs again."""
    reads = baseline.reads
    plan = _Plan(baseline, flagged)
    rows = np.flatnonzero(flagged_read).tolist()
    for row in rows:
        plan.want(row)
    plan.close()
    site = np.where(baseline.kernels.backward[reads.kernel], of_read, -1)
    keep, uses = plan.uses(rows, of_node)
    columns = [np.array(column, dtype=np.int64) for column in zip(*uses, strict=True)] if uses else [
        np.empty(0, dtype=np.int64)] * 5
    old = (reads.block, reads.kernel * TICKS, reads.until * TICKS, reads.face, site)
    block, position, until, face, owner = (np.concatenate([column[keep], new])
                                           for column, new in zip(old, columns, strict=True))
    return Program(block=block, position=position, until=until, face=face, site=owner,
                   origin=np.array(plan.origin, dtype=np.int64), born=np.array(plan.born, dtype=np.int64),
                   earlier=plan.earlier, copies=np.array(list(plan.place), dtype=np.int64),
                   inserted=np.array(list(plan.place.values()), dtype=np.int64))


class _Plan:
    def __init__(self, baseline: Baseline, flagged: Flags) -> None:
        self._baseline, self._flagged = baseline, flagged
        self._wanted: dict[int, set[int]] = {}
        self._first: dict[int, int] = {}
        self._twins = _twins(baseline)
        self._copied: dict[int, int] = {}     # row of a block -> row of what is made again
        self._moved: set[int] = set()         # kernels of the baseline that run earlier
        self.place: dict[int, int] = {}       # node -> position
        self.origin: list[int] = []
        self.born: list[int] = []
        self.earlier: dict[int, int] = {}

    def want(self, row: int) -> None:
        """A gradient reads what runs again."""
        reads, kernels = self._baseline.reads, self._baseline.kernels
        face, reader = int(reads.face[row]), int(reads.kernel[row])
        node = self._resolve(face)
        if node is not None:
            passing = int(kernels.passing[face])
            self._wanted.setdefault(passing, set()).add(node)
            self._first[passing] = min(self._first.get(passing, reader), reader)

    def _resolve(self, face: int) -> int | None:
        """The node to run again for a face; a view that only survived for another cell is looked through."""
        if self._flagged[face]:
            return face
        if self._baseline.kernels.primitive[face] in VIEWS:
            for row in self._baseline.reads_of.get(face, ()):
                below = int(self._baseline.reads.face[row])
                if self._flagged[below]:
                    return below
        return None

    def close(self) -> None:
        """Adds what they read themselves, and gives each its position and its blocks."""
        reads, kernels = self._baseline.reads, self._baseline.kernels
        for passing, nodes in self._wanted.items():
            todo = list(nodes)
            while todo:
                for row in self._baseline.reads_of.get(todo.pop(), ()):
                    face = int(reads.face[row])
                    if self._flagged[face] and kernels.passing[face] == passing and face not in nodes:
                        nodes.add(face)
                        todo.append(face)
            start = (self._first[passing] - 1) * TICKS + HALF + HALF // 2
            for order, node in enumerate(sorted(nodes)):
                self._put(node, start + 2 * order)

    def _put(self, node: int, position: int) -> None:
        twin = self._twins.get(node)
        if twin is not None:
            self._moved.add(twin)
            for row, copy in zip(self._baseline.made.get(node, ()), self._baseline.made.get(twin, ()), strict=True):
                self._copied[row] = copy
                self.earlier[copy] = position
        else:
            for row in self._baseline.made.get(node, ()):
                self._copied[row] = len(self._baseline.maker) + len(self.origin)
                self.origin.append(row)
                self.born.append(position)
        self.place[node] = position

    def uses(self, rows: list[int], of_node: Ints) -> tuple[Flags, list[tuple[int, int, int, int, int]]]:
        """Which reads stay, and the new ones."""
        reads = self._baseline.reads
        keep = np.ones(len(reads.block), dtype=np.bool_)
        added: list[tuple[int, int, int, int, int]] = []
        for row in rows:
            block, face = int(reads.block[row]), int(reads.face[row])
            if block in self._copied and self._resolve(face) in self.place:
                keep[row] = False
                added.append((self._copied[block], int(reads.kernel[row]) * TICKS, int(reads.until[row]) * TICKS, -1, -1))
        for kernel in self._moved:
            keep[self._baseline.reads_of.get(kernel, [])] = False
        for node, position in self.place.items():
            for row in self._baseline.reads_of.get(node, ()):
                block, face = int(reads.block[row]), int(reads.face[row])
                if face in self.place and block in self._copied:
                    added.append((self._copied[block], position, position, -1, -1))
                else:
                    added.append((block, position, position, face, int(of_node[face])))
        return keep, added


def _twins(baseline: Baseline) -> dict[int, int]:
    """Nodes that the model itself computes again -> the kernels that do."""
    kernels, reads = baseline.kernels, baseline.reads
    again = np.flatnonzero(kernels.backward & (kernels.layer >= 0)).tolist()
    found: dict[int, int] = {}
    for kernel in again:
        if kernels.name[kernel].startswith("Gradients") or kernels.primitive[kernel] in VIEWS:
            continue
        for row in baseline.reads_of.get(kernel, ()):
            block = int(reads.block[row])
            low, high = np.searchsorted(reads.block, [block, block + 1])
            for other in reads.kernel[low:high].tolist():
                if kernels.primitive[other] == kernels.primitive[kernel] and kernels.passing[other] >= 0:
                    found[other] = kernel
    return found


def descends(path: str, roots: Set[str]) -> bool:
    """A path stands at or below one of these operators; "" is the layer."""
    return any(root == "" or path == root or path.startswith(f"{root}.") for root in roots)
