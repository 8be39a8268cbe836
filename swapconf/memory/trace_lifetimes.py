"""TRACE -> LIFETIMES: the device blocks of a trace as columns, with what each holds and the layer it belongs to.

What a block holds follows from its kind and from the launch that made it:

- kind ``Weight``: optimizer state or accumulated gradients where its name is a prefix before the name of another
  parameter (``adam_m.model.norm_out.weight``, ``accu_grads.``...), else a weight. ``ConstantValue`` and
  ``PyNativeInput``: a constant. ``WorkSpace``: workspace.
- the launch copies from the host (``MoveTo``): a swap buffer. It is a collective or sends: communication.
- its phase (see ``phases``): forward activation, recomputed, gradient, or a temporary of the optimizer.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

import numpy as np

from swapconf.memory.marked_lifetimes import marked_lifetimes
from swapconf.trace.blocks import coded
from swapconf.trace.lifetimes import CATEGORIES, OF_KIND, Category, Lifetimes
from swapconf.trace.phases import Phase, phases
from swapconf.trace.trace import Trace
from swapconf.trace.work import COLLECTIVES

_LAYER = re.compile(r"[./](?:\w+-\w+/)?layers(?:-CellList/|\.)(\d+)[-.]")
_EXTRA_LAYER = re.compile(r"(?:^|[./])mtp(?:-\w+)?[./]")
OF_PHASE = {
    Phase.FORWARD: Category.ACTIVATION,
    Phase.RECOMPUTED: Category.RECOMPUTED,
    Phase.BACKWARD: Category.GRADIENT,
    Phase.OPTIMIZER: Category.TEMPORARY,
}
_WEIGHT, _ACCUMULATED = "Weight", "accu_grads"


def lifetimes(trace: Trace) -> Lifetimes:
    """The device blocks of a trace, [n]. What a fused kernel makes is named after the operator in it. Without the
    tracker's graph (memory_optimize_level O1) activations, gradients and temporaries cannot be told apart; all are
    temporaries then. A run in PyNative mode has marks for it."""
    if trace.marks:
        return marked_lifetimes(trace)
    blocks, chosen = trace.blocks, np.flatnonzero(~trace.blocks.on_host)
    starts = blocks.start[chosen].tolist()
    nodes = [blocks.nodes[node] for node in blocks.node[chosen].tolist()]
    kinds = [blocks.kinds[kind] for kind in blocks.kind[chosen].tolist()]
    makers = trace.opened.makers
    name, names = coded(makers.get(start, node) for start, node in zip(starts, nodes, strict=True))
    parameters = {node for node, kind in zip(nodes, kinds, strict=True) if kind == _WEIGHT}
    phase = phases(trace)
    category = [
        CATEGORIES.index(_category(start, kind, node, parameters, phase))
        for start, kind, node in zip(starts, kinds, nodes, strict=True)
    ]
    return Lifetimes(
        start=blocks.start[chosen],
        end=blocks.end[chosen],
        size_bytes=blocks.size_bytes[chosen],
        is_persistent=blocks.is_persistent[chosen],
        category=np.array(category, dtype=np.uint8),
        layer=np.array([layer_of(text) for text in names], dtype=np.int32)[name],
        name=name,
        names=names,
    )


def scope_of_layer(name: str) -> str:
    """The cells in the name of a kernel, or of a parameter, up to its decoder layer, or one for multi-token
    prediction; "" outside of them."""
    found = _LAYER.search(name)
    if found is None:
        return ""
    return name[: name.find("/", found.end())] if "/" in name else name[: found.end() - 1]


def layer_of(name: str) -> int:
    """The decoder layer in the name of a kernel or a parameter; -1 outside of them, and in extra prediction layers."""
    found = _LAYER.search(name)
    return -1 if found is None or _EXTRA_LAYER.search(name) else int(found[1])


def _category(start: int, kind: str, node: str, parameters: Container[str], phase: Mapping[int, Phase]) -> Category:
    if kind == _WEIGHT:
        return of_parameter(node, parameters)
    if kind in OF_KIND:
        return OF_KIND[kind]
    primitive = node.rpartition("/")[2].partition("-op")[0]
    if primitive == "MoveTo":
        return Category.SWAP
    if primitive in COLLECTIVES:
        return Category.COMMUNICATION
    return OF_PHASE[phase.get(start, Phase.OPTIMIZER)]


def of_parameter(name: str, parameters: Container[str]) -> Category:
    """What a parameter is, among the names of all."""
    prefix, _, rest = name.partition(".")
    if rest not in parameters:
        return Category.WEIGHT
    return Category.GRADIENT if prefix == _ACCUMULATED else Category.OPTIMIZER
