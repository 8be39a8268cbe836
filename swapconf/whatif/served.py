"""BASELINE -> CELLS: which ones a node may belong to or serves, by those that read it and what it reads; and which node
of a layer is no site, although an operator of the catalog would fit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from swapconf.memory.trace_lifetimes import scope_of_layer
from swapconf.trace.columns import Flags, Ints
from swapconf.upstream.primitives import CAST, NORM
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.laid_out import ADD_AND_NORM, DISPATCH, SUM

_SUM = "ReduceSum"


def near(
    baseline: Baseline, node: int, readers: Set[tuple[str, str]], cell_of_reader: Mapping[int, str]
) -> Iterator[str]:
    """Other cells for a node whose own MindSpore has lost: those of the weight that it reads, of its readers, and of
    what it reads."""
    kernels, reads = baseline.kernels, baseline.reads
    if bool(kernels.is_lost[node]):
        for face in reads.face[baseline.rows_of(node)].tolist():
            if face in baseline.weights:
                yield _cell_of_weight(baseline, face)
        for block in baseline.made.get(node, ()):
            low, high = np.searchsorted(reads.block, [block, block + 1])
            yield from (
                cell_of_reader[reader] for reader in reads.kernel[low:high].tolist() if reader in cell_of_reader
            )
        yield from sorted(cell for cell, _ in readers)
        yield from (
            kernels.cell[face] for face in reads.face[baseline.rows_of(node)].tolist() if kernels.passing[face] >= 0
        )


def reader_cells(baseline: Baseline) -> dict[int, frozenset[tuple[str, str]]]:
    """(cell, primitive) of the nodes that read each node, by its face."""
    kernels, reads = baseline.kernels, baseline.reads
    cells_of: dict[int, set[tuple[str, str]]] = {}
    inside = (kernels.passing[reads.face] >= 0) & (kernels.passing[reads.kernel] >= 0)
    for face, reader in zip(reads.face[inside].tolist(), reads.kernel[inside].tolist(), strict=True):
        cells_of.setdefault(face, set()).add((kernels.cell[reader], kernels.primitive[reader]))
    return {face: frozenset(cells) for face, cells in cells_of.items()}


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
            for sibling in reads.kernel[low:high].tolist():
                for face in reads.face[baseline.rows_of(sibling)].tolist():
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
    return next((kernels.primitive[face] for face in sent if baseline.views[face]), kernels.primitive[node])


# --- what is no site --------------------------------------------------------------------------------------------------


def of_strangers(baseline: Baseline, is_known: Flags) -> Flags:
    """Views without a cell of their own of what is no site, or for such alone, such as the dispatch of tokens to
    experts; also behind its communication, which is not that of a sharded primitive."""
    below, kernels, (reader, face) = baseline.below, baseline.kernels, baseline.edges
    dispatched = (kernels.stream[below] == 0) | (kernels.primitives[below] == DISPATCH)
    nodes, is_lost = np.arange(len(below)), kernels.is_lost
    stranger = ~is_known & is_lost & ~baseline.views & ~kernels.is_fused & (kernels.stream == 0)
    for_strangers = np.isin(nodes, face) & ~np.isin(nodes, face[~stranger[reader]])
    return np.asarray((below >= 0) & is_lost & ((~is_known[below] & dispatched) | for_strangers))


def like_misnamed(baseline: Baseline, readers: Mapping[int, frozenset[tuple[str, str]]]) -> Flags:
    """Nodes that MindSpore names after the first layer wherever they stand: parallelism has put them in. Those of the
    first layer itself are told by their likes."""
    kernels = baseline.kernels
    kinds = {node: (kernels.cell[node], kernels.primitive[node], read_by) for node, read_by in readers.items()}
    wanted = {kinds[node] for node in baseline.misnamed if node in kinds}
    misnamed = np.zeros(len(kernels), dtype=np.bool_)
    misnamed[[*baseline.misnamed, *(node for node, kind in kinds.items() if kind in wanted)]] = True
    return misnamed


# --- sums of a fused Add and norm -------------------------------------------------------------------------------------


def sums_read(baseline: Baseline) -> Iterator[tuple[int, int]]:
    """Reads by gradients of the sum that a fused Add and norm leaves, with the number of the layer whose Add that is:
    the one that made what is added, also for the first norm of the next layer and the one behind all layers."""
    kernels, reads = baseline.kernels, baseline.reads
    for kernel in (index for index, primitive in enumerate(kernels.primitive) if primitive == ADD_AND_NORM):
        made = baseline.made.get(kernel, [])
        makers = baseline.added(kernel)
        if len(made) > SUM and makers:
            low, high = np.searchsorted(reads.block, [made[SUM], made[SUM] + 1])
            layer = int(kernels.layer[max(makers)])
            yield from ((row, layer) for row in range(low, high) if kernels.backward[reads.kernel[row]])


# --- layer and cell of each node --------------------------------------------------------------------------------------


def places_of(
    baseline: Baseline, of_node: Ints, names: Sequence[tuple[str, str]]
) -> tuple[Ints, tuple[tuple[str, str], ...]]:
    """[kernels] the row of its layer and cell among all of them, -1 outside of layers. ``of_node``: [kernels] the site
    of each, as row of ``names``, or -1."""
    kernels = baseline.kernels
    places: dict[tuple[str, str], int] = {}
    of_place = np.full(len(kernels), -1, dtype=np.int64)
    cells = _of_norms(baseline) | _of_lost_views(baseline, of_node, names)
    for node in np.flatnonzero(kernels.passing >= 0).tolist():
        place = baseline.layer_of(node), cells.get(node, kernels.cell[node])
        of_place[node] = places.setdefault(place, len(places))
    return of_place, tuple(places)


def _of_norms(baseline: Baseline) -> dict[int, str]:
    """The cell of the norm for which parallelism slices what the first layer is given: each reader changes the layout
    for itself, and the layer has given its name to what both are then (measured with MindSpore 2.9.0: with sequence
    parallelism `input_layernorm` of GLM, recomputed alone, slices once more)."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    sliced = (kernels.primitives[face] == "StridedSlice") & (kernels.passing[face] == kernels.passing[reader])
    sliced &= (kernels.primitives == NORM)[reader]
    pairs = zip(face[sliced].tolist(), reader[sliced].tolist(), strict=True)
    return {node: kernels.cell[norm] for node, norm in pairs if not kernels.cell[node]}


def _of_lost_views(baseline: Baseline, of_node: Ints, names: Sequence[tuple[str, str]]) -> dict[int, str]:
    """The cell of the operator that a view is, where its name told none and that of what it shows was taken for it (the
    Reshape with which a Linear begins, behind a norm)."""
    kernels, below = baseline.kernels, baseline.below
    views = np.flatnonzero(baseline.views & kernels.is_lost & (of_node >= 0) & (below >= 0)).tolist()
    return {
        view: names[of_node[view]][1].rpartition(".")[0]
        for view in views
        if kernels.cell[view] == kernels.cell[int(below[view])]
    }


def casts_behind_sums(baseline: Baseline) -> Flags:
    """[kernels] casts that are no operators: those around a sum in a fused kernel, which is computed in Float32
    (``convert_bfloat16``, ``raise_reduction_precision`` of graph_fusion), are put in when operators have long been
    marked; a kernel ends with the sum (``graph_kernel_splitter``), so that the cast behind it stands alone."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    sums = kernels.is_fused & (kernels.primitives == _SUM)
    behind = np.zeros(len(kernels), dtype=np.bool_)
    behind[reader[sums[face]]] = True
    return np.asarray(behind & kernels.is_lost & ~kernels.is_fused & (kernels.primitives == CAST))
