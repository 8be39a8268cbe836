"""BASELINE + SITES -> NODES that never run again without ``mp_comm_recompute``: those that change a layout.

`Cell.recompute(mp_comm_recompute=False)` marks the primitives that a cell has as attributes, and parallelism hands the
mark on to what it puts in for them: the communication of a product, all steps of a change of layout between two of
them, and the Reshape by which it replaces one (MindSpore 2.9.0, ``step_parallel``: its graph has ``recompute: False``
on these and on no other). It replaces none that a Morph of the model has, whose nodes lose their scope, and none that
is not an attribute, and what a Transpose shows is no Reshape. In a stage of one device it replaces nothing (measured:
legacy Llama, GLM, TeleChat3).
"""

from __future__ import annotations

import numpy as np

from swapconf.models.cells import ACTIVATION, DENSE, NORM, ROUTER
from swapconf.models.network import Network
from swapconf.trace.columns import Flags
from swapconf.trace.trace import POINT_TO_POINT
from swapconf.upstream.primitives import RESHAPE
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.laid_out import SPLITS
from swapconf.whatif.merged_views import merged_views, morphs
from swapconf.whatif.sites import Sites

_STEPS = ("Concat", "StridedSlice", *SPLITS)  # of a change of layout, with communication and views
_OF_ROUTER = ("AllGather", "Cast")  # what the Reshape reads that a router has itself, or that parallelism puts in
_ACTIVATION, _BEHIND_FLASH = f".{ACTIVATION}", f".{DENSE}"
_FLASH = "FlashAttentionScore"
_MIRROR, _SHARDED = "_Mirror", "StepAllGather"  # adds up gradients, also for the parallel optimizer
_LARGE = 16  # times a norm
_EMBEDDINGS = 2  # with the output layer


def changes_layout(baseline: Baseline, sites: Sites) -> Flags:
    """[kernels] steps of a change, views aside, and all other communication."""
    kernels = baseline.kernels
    return np.asarray(np.isin(kernels.primitives, _STEPS) & (sites.of_node < 0) | (kernels.stream != 0))


def redistributed(baseline: Baseline, sites: Sites, network: Network) -> Flags:
    """[kernels]"""
    kernels = baseline.kernels
    if _is_one_device(baseline):
        return np.zeros(len(kernels.name), dtype=np.bool_)
    changed = changes_layout(baseline, sites) & ~kernels.is_lost
    changed |= (kernels.primitives == RESHAPE) & (kernels.passing >= 0)
    changed &= ~_in_morph(baseline, sites, network)
    changed[list(baseline.turned)] = False
    functions = set[int]()
    if not _is_split(baseline):  # then no layout changes in these steps: they are slices of a rotary table, or of heads
        changed &= ~np.isin(kernels.primitives, _STEPS)
    for reader, face in sorted(zip(*(side.tolist() for side in baseline.edges), strict=True)):
        if baseline.views[face] and is_function(baseline, face, reader):
            functions.add(face)
        if changed[reader] and kernels.cell[reader].rpartition(".")[2] == ROUTER:
            is_own = kernels.primitive[face] in _OF_ROUTER or not baseline.views[reader]
            if face in functions or not is_own:
                functions.add(reader)
    changed[list(functions)] = False
    return np.asarray(changed if _is_data_parallel(baseline) else changed & ~_again_alone(baseline))


def _is_one_device(baseline: Baseline) -> bool:
    """The stage is one device, which sends gradients and activations to other stages alone."""
    kernels = baseline.kernels
    shared = (kernels.stream != 0) & ~np.isin(kernels.primitives, list(POINT_TO_POINT))
    names = (kernels.name[index] for index in np.flatnonzero(shared).tolist())
    return not (shared & (kernels.passing >= 0)).any() and not any(
        _MIRROR in name or _SHARDED in name for name in names
    )


def _is_data_parallel(baseline: Baseline) -> bool:
    """Ranks add up the gradients of products, and not those of norms and embeddings alone."""
    kernels, size_bytes = baseline.kernels, baseline.blocks.size_bytes
    sent = [(index, kernels.name[index]) for index in np.flatnonzero(kernels.stream != 0).tolist()]
    summed = [
        int(size_bytes[block]) for index, name in sent if _MIRROR in name for block in baseline.made.get(index, ())
    ]
    norm = min(summed, default=0)
    large = sum(size > _LARGE * norm for size in summed)
    return large > _EMBEDDINGS * baseline.steps or any(_SHARDED in name for _, name in sent)


def _is_split(baseline: Baseline) -> bool:
    """Products are parts of sums over ranks, as with tensor parallelism."""
    reader, face = baseline.edges
    kernels = baseline.kernels
    adds_up = (kernels.stream[reader] != 0) & ~kernels.backward[reader] & (kernels.primitives[face] == "MatMul")
    return bool(adds_up.any())


def _again_alone(baseline: Baseline) -> Flags:
    """[kernels] views of what flash attention or communication made, and of a Cast that a product reads: without data
    parallelism these run again (measured with MindSpore 2.9.0: legacy Llama and GLM)."""
    kernels, below = baseline.kernels, baseline.below
    source, is_view = kernels.primitives[below], baseline.views & (below >= 0)
    of_cast = (source == "Cast") & baseline.read_by((kernels.primitives == "MatMul") & ~kernels.backward)
    return np.asarray(is_view & ((source == _FLASH) | (kernels.stream[below] != 0) | of_cast))


def _in_morph(baseline: Baseline, sites: Sites, network: Network) -> Flags:
    """[kernels] views of the function that a Morph has for its cell: of all Linears of mcore, and of its experts. One
    without a scope is none where it is a Reshape of another cell, which the model has marked to run again by itself, or
    merged with such a one, as in front of and behind the activation of an MLP with interleaved weights (measured:
    Qwen3)."""
    homes, with_morph = sites.homes(baseline), morphs(network)
    of_morph = baseline.views & baseline.kernels.is_lost & (sites.of_node < 0)
    for view in np.flatnonzero(baseline.views & (baseline.kernels.passing >= 0)).tolist():
        of_morph[view] |= (baseline.layer_of(view), homes[view]) in with_morph
        below = int(baseline.below[view])
        of_morph[view] &= below < 0 or not baseline.kernels.cell[below].endswith(_ACTIVATION)
    of_morph[list(merged_views(baseline, sites, network))] = False
    return np.asarray(of_morph)


def is_function(baseline: Baseline, view: int, reader: int) -> bool:
    """A Reshape that the model calls as a function: in front of a norm of its query or key (mindformers 1.9.0,
    training_graph/transformer/attention.py), and of flash attention behind a Transpose (GLM, modules/layers.py); or one
    that MindSpore has merged with such a one, behind flash attention (GLM)."""
    kernels, below = baseline.kernels, int(baseline.below[view])
    cell, source = kernels.cell[view], kernels.primitive[below] if below >= 0 else ""
    if kernels.primitive[reader] == _FLASH or source == _FLASH:
        return source == "Transpose" or cell.endswith(_BEHIND_FLASH)
    return is_in_front_of_norm(baseline, view, reader)


def is_in_front_of_norm(baseline: Baseline, view: int, reader: int) -> bool:
    """Whether a view is a function that the model calls in front of a norm of its query or key."""
    cell, read_in = baseline.kernels.cell[view], baseline.kernels.cell[reader]
    return bool(cell) and read_in.startswith(f"{cell}.") and read_in.endswith(NORM)
