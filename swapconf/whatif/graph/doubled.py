"""RECOMPUTED CELLS -> VIEWS that MindSpore keeps apart, though the run without a strategy has one for the two.

What a Linear of mcore returns waits for the state behind its weight, so that the view at its end and the one of who
reads it do not become one. MindSpore 2.9.0 removes that where states follow one another, but not of the first Linear
of the model, and not of the first behind the start or the end of the call of a recomputed cell, which hands a state on
(measured: Qwen3, DeepSeek-V3 and TeleChat3, in the forward pass and where it runs again). Where the cast of its weight
was asked for by itself, nor of the others of its cell, and of the first behind that.

Mirrors where ``reshape_eliminate`` (frontend/optimizer/irpass) does not come: it works inside one func graph, and not
through a ``Depend`` on a monad.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

import numpy as np

from swapconf.whatif.graph.asked import NO_CELL, Asked, Part
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.run_graph import NO_KERNEL
from swapconf.whatif.merged_views import morphs

_PRODUCTS = frozenset({"MatMul", "BatchMatMul"})


def doubled(asked: Asked) -> frozenset[int]:
    """Kernels of the forward pass: of two views that have become one."""
    if not asked.marks.actions.cells:
        return frozenset()
    below, firsts = asked.baseline.below, set(_first_linears(asked))
    passing, homes = asked.baseline.kernels.passing, asked.prepared.sites.homes(asked.baseline)
    merged = (view for view in asked.prepared.merged_views if view < asked.run.count)
    return frozenset(view for view in merged if (int(passing[view]), homes[int(below[view])]) in firsts)


def second_view(
    asked: Asked, nodes: Nodes, second_views: MutableMapping[tuple[int, Part], int], kept: int, key: tuple[int, Part]
) -> int:
    """What a part reads for ``kept``, which the forward pass has left for a node; ``key``: (node, part). A recomputed
    layer has the second of two views that have become one, also where the first is left out of it."""
    node, part = key
    kernel = asked.run.kernel_of.get(node, NO_KERNEL)
    is_second = kernel in asked.prepared.merged_views and asked.is_excluded(kernel)
    if not (is_second and asked.is_whole(part) and asked.run.is_inlined):
        return kept
    if key not in second_views:
        second_views[key] = nodes.add(nodes.primitive[node], (kept,), nodes.name[node])
    return second_views[key]


def _first_linears(asked: Asked) -> Iterator[tuple[int, str]]:
    """(pass, path) of Linears that are the first behind the start or the end of the call of a recomputed cell."""
    baseline, batch_of = asked.baseline, asked.run.batch_of_pass
    kernels, homes, with_morph = baseline.kernels, asked.prepared.sites.homes(baseline), morphs(asked.prepared.network)
    calls, passing = asked.called.tolist(), kernels.passing.tolist()
    here, is_first, alone = dict[int, tuple[int, int]](), dict[int, bool](), dict[int, tuple[int, str]]()
    forward = ~kernels.backward[: asked.run.count] & ~baseline.rootless[: asked.run.count]
    for kernel in np.flatnonzero(forward).tolist():
        batch = batch_of.get(passing[kernel])
        if batch is None:
            continue
        call = passing[kernel] if calls[kernel] != NO_CELL else NO_CELL, calls[kernel]
        if call != here.get(batch):
            here[batch], is_first[batch] = call, True
            alone.pop(batch, None)
        if kernels.primitive[kernel] in _PRODUCTS and (baseline.layer_of(kernel), homes[kernel]) in with_morph:
            if is_first[batch]:
                yield passing[kernel], homes[kernel]
            around = homes[kernel].rpartition(".")[0]
            if is_first[batch] and _casts_alone(asked, kernel):
                alone[batch] = passing[kernel], around
            is_first[batch] &= alone.get(batch) == (passing[kernel], around)


def _casts_alone(asked: Asked, product: int) -> bool:
    """The recompute of the cast of its weight was asked for by itself, so that it reads a copy of that in no state."""
    baseline = asked.baseline
    read = baseline.reads.face[baseline.rows_of(product)].tolist()
    return any(face in baseline.weights and face in asked.again and asked.root[face] == NO_CELL for face in read)
