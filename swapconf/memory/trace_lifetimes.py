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
from swapconf.trace.lifetimes import CATEGORIES, NEVER, OF_KIND, Category, Lifetimes
from swapconf.trace.phases import Phase, phases
from swapconf.trace.trace import Block, Trace
from swapconf.trace.work import COLLECTIVES

_LAYER = re.compile(r"[./](?:\w+-\w+/)?layers(?:-CellList/|\.)(\d+)[-.]")
_EXTRA_LAYER = re.compile(r"(?:^|[./])mtp(?:-\w+)?[./]")
OF_PHASE = {
    Phase.FORWARD: Category.ACTIVATION,
    Phase.RECOMPUTED: Category.RECOMPUTED,
    Phase.BACKWARD: Category.GRADIENT,
    Phase.OPTIMIZER: Category.TEMPORARY,
}
_ACCUMULATED = "accu_grads"


def lifetimes(trace: Trace) -> Lifetimes:
    """The device blocks of a trace, [n]. What a fused kernel makes is named after the operator in it. Without the
    tracker's graph (memory_optimize_level O1) activations, gradients and temporaries cannot be told apart; all are
    temporaries then. A run in PyNative mode has marks for it."""
    if trace.marks:
        return marked_lifetimes(trace)
    blocks = [block for block in trace.blocks if not block.on_host]
    makers = trace.opened.makers
    names = [makers.get(block.start, block.node) for block in blocks]
    parameters = {block.node for block in blocks if block.kind == "Weight"}
    phase = phases(trace)
    category = [_category(block, parameters, phase) for block in blocks]
    distinct = {name: index for index, name in enumerate(dict.fromkeys(names))}
    layers = {name: layer_of(name) for name in distinct}
    return Lifetimes(
        start=np.array([block.start for block in blocks], dtype=np.int64),
        end=np.array([NEVER if block.end is None else block.end for block in blocks], dtype=np.int64),
        size_bytes=np.array([block.size_bytes for block in blocks], dtype=np.int64),
        is_persistent=np.array([block.is_persistent for block in blocks], dtype=np.bool_),
        category=np.array([CATEGORIES.index(item) for item in category], dtype=np.uint8),
        layer=np.array([layers[name] for name in names], dtype=np.int32),
        name=np.array([distinct[name] for name in names], dtype=np.int32),
        names=tuple(distinct),
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


def _category(block: Block, parameters: Container[str], phase: Mapping[int, Phase]) -> Category:
    if block.kind == "Weight":
        return of_parameter(block.node, parameters)
    if block.kind in OF_KIND:
        return OF_KIND[block.kind]
    primitive = block.node.rpartition("/")[2].partition("-op")[0]
    if primitive == "MoveTo":
        return Category.SWAP
    if primitive in COLLECTIVES:
        return Category.COMMUNICATION
    return OF_PHASE[phase.get(block.start, Phase.OPTIMIZER)]


def of_parameter(name: str, parameters: Container[str]) -> Category:
    """What a parameter is, among the names of all."""
    prefix, _, rest = name.partition(".")
    if rest not in parameters:
        return Category.WEIGHT
    return Category.GRADIENT if prefix == _ACCUMULATED else Category.OPTIMIZER
