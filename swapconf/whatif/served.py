"""BASELINE -> CELLS: which ones a node may belong to or serves, by those that read it and what it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

import numpy as np

from swapconf.memory.trace_lifetimes import scope_of_layer
from swapconf.whatif.baseline import Baseline


def near(baseline: Baseline, node: int, readers: Set[tuple[str, str]], known: Mapping[int, str]) -> Iterator[str]:
    """Other cells for a node whose own MindSpore has lost: those of the weight that it reads, of its readers, and of
    what it reads."""
    kernels, reads = baseline.kernels, baseline.reads
    if bool(kernels.is_lost[node]):
        for face in reads.face[baseline.rows_of(node)].tolist():
            if face in baseline.weights:
                yield _cell_of_weight(baseline, face)
        for block in baseline.made.get(node, ()):
            low, high = np.searchsorted(reads.block, [block, block + 1])
            yield from (known[reader] for reader in reads.kernel[low:high].tolist() if reader in known)
        yield from sorted(cell for cell, _ in readers)
        yield from (
            kernels.cell[face] for face in reads.face[baseline.rows_of(node)].tolist() if kernels.passing[face] >= 0
        )


def reader_cells(baseline: Baseline) -> dict[int, frozenset[tuple[str, str]]]:
    """(cell, primitive) of the nodes that read each node, by its face."""
    kernels, reads = baseline.kernels, baseline.reads
    found: dict[int, set[tuple[str, str]]] = {}
    inside = (kernels.passing[reads.face] >= 0) & (kernels.passing[reads.kernel] >= 0)
    for face, reader in zip(reads.face[inside].tolist(), reads.kernel[inside].tolist(), strict=True):
        found.setdefault(face, set()).add((kernels.cell[reader], kernels.primitive[reader]))
    return {face: frozenset(cells) for face, cells in found.items()}


def _cell_of_weight(baseline: Baseline, kernel: int) -> str:
    """The cell whose weight a kernel reads."""
    weight: str = baseline.blocks.names[baseline.blocks.name[baseline.weights[kernel]]]
    return weight.removeprefix(scope_of_layer(weight)).strip(".").rpartition(".")[0]


def cell_of(baseline: Baseline, reader: int, passing: int, cells: Set[str]) -> str | None:
    """Which cell of a pass a kernel serves. MindSpore names many gradient kernels after another cell; the two gradients
    of a Linear read the same gradient of its output, and one of them reads the cast of its weight, or what is gathered
    of that once for all micro-batches. Else its name counts, if that is one of ``cells``."""
    kernels, reads = baseline.kernels, baseline.reads
    named: str = kernels.cell[reader]
    if not kernels.backward[reader]:
        return named
    for row in baseline.rows_of(reader):
        if kernels.backward[baseline.maker[reads.block[row]]]:
            low, high = np.searchsorted(reads.block, [reads.block[row], reads.block[row] + 1])
            for other in reads.kernel[low:high].tolist():
                for face in reads.face[baseline.rows_of(other)].tolist():
                    if baseline.rootless[face] and kernels.passing[face] == passing:
                        cell: str = kernels.cell[face]
                        return cell
                    if kernels.passing[face] < 0 and face in baseline.weights and not kernels.backward[face]:
                        own = _cell_of_weight(baseline, face)
                        if own in cells:
                            return own
    return named if named in cells else None


def shown_and_sent(baseline: Baseline, node: int) -> str:
    """The view whose output communication sends, or what a node itself is."""
    kernels, reads = baseline.kernels, baseline.reads
    sent = reads.face[baseline.rows_of(node)].tolist() if kernels.stream[node] else []
    return next((kernels.primitive[one] for one in sent if baseline.views[one]), kernels.primitive[node])
