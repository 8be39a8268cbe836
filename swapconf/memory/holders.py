"""TRACE -> PEAK: who holds the memory at the peak, and at the highest moment when layers keep no activations.

Categories are those of `trace_lifetimes`. What is a layer's, and what the head's and the loss's, is told by the cells'
names. Kernels that MindSpore inserts or fuses have no cells (``Default/Cast-op0`` of the logits,
``Default/GraphKernel_Mul_fusion-op30``): what follows from the head is of the loss, what follows from a layer is of the
layers. A slice of the logits by the model itself follows from the head, too.

The highest moment without activations of layers is a bound: of 130 random strategies on 27 shapes (MindSpore 2.9.0)
none had a used peak below that of the same model without swap and recompute; the nearest were 0.02 % above.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.categories import alive
from swapconf.memory.marked_holders import marked_parts, marked_phases
from swapconf.memory.peak import Peak, PeakPart, is_given_back, moment_of
from swapconf.memory.trace_lifetimes import layer_of, lifetimes
from swapconf.trace.lifetimes import CATEGORIES, CONSTANT_VALUE, Category, Lifetimes, usage
from swapconf.trace.phases import Phase, phases
from swapconf.trace.trace import Task, Trace
from swapconf.upstream.scopes import in_layer

# the cells of all families of mindformers 1.5.0 to 1.9.0
_HEAD = re.compile(r"/(?:lm_head|head|output_layer|loss|compute_language_model_loss)-\w+(?:/|$)")
_BY_CATEGORY = {
    Category.WEIGHT: PeakPart.WEIGHTS,
    Category.OPTIMIZER: PeakPart.OPTIMIZER,
    Category.GRADIENT: PeakPart.GRADIENTS,
    Category.ACTIVATION: PeakPart.OUTSIDE,
    Category.RECOMPUTED: PeakPart.RECOMPUTED,
    Category.SWAP: PeakPart.SWAP,
    Category.COMMUNICATION: PeakPart.COMMUNICATION,
    Category.WORKSPACE: PeakPart.WORKSPACE,
    Category.CONSTANT: PeakPart.CONSTANTS,
    Category.TEMPORARY: PeakPart.TEMPORARY,
}
_OF_FORWARD = (Category.ACTIVATION, Category.COMMUNICATION)
_OF_LOSS = frozenset({PeakPart.GRADIENTS, PeakPart.RECOMPUTED, PeakPart.COMMUNICATION, PeakPart.OUTSIDE})
_WHEN = {
    Phase.FORWARD: "forward",
    Phase.RECOMPUTED: "backward",
    Phase.BACKWARD: "backward",
    Phase.OPTIMIZER: "optimizer",
}
_PARTS = tuple(PeakPart)


class _Region(IntEnum):
    OUTSIDE = 0
    LAYERS = 1
    LOSS = 2


def peak(trace: Trace) -> Peak:
    """The peak of a recorded run, to the byte. Without the tracker's graph what the passes make are temporaries, and
    nothing is known to be given back."""
    live = lifetimes(trace)
    if trace.marks:
        phase = marked_phases(trace, live)
        part, is_layers = marked_parts(trace, live, _BY_CATEGORY, _PARTS)
    else:
        phase = phases(trace)
        part, is_layers = _parts(trace, live, phase)
    kept = ~(np.array([is_given_back(item) for item in _PARTS])[part] & is_layers)
    times = np.array(sorted(phase), dtype=np.int64)
    passes = [_WHEN[phase[time]] for time in times.tolist()]
    rest = usage(live.start[kept], live.end[kept], live.size_bytes[kept])
    moments = []
    for time, chosen in ((live.used.peak_time, np.ones(len(live), dtype=np.bool_)), (rest.peak_time, kept)):
        there = alive(live, time) & chosen
        before = int(np.searchsorted(times, time, side="right")) - 1
        when = passes[max(before, 0)] if passes else ""
        sizes = _sums(live, part, there)
        moments.append(moment_of(when, sizes, _in_layers(live, part, there & is_layers, when, sizes)))
    host = trace.lasting_host_bytes
    return Peak(at=moments[0], rest=moments[1], host_optimizer_bytes=host, is_native=bool(trace.marks))


def _in_layers(
    live: Lifetimes, part: NDArray[np.uint8], chosen: NDArray[np.bool_], when: str, size_bytes: Mapping[PeakPart, int]
) -> Mapping[PeakPart, int]:
    """What of a moment every layer holds for itself. Gradients come and go with the backward pass of one layer, if they
    are not added up; the optimizer has those of all layers, and temporaries for each weight."""
    if when != "optimizer":
        return _sums(live, part, chosen & ((live.category != CATEGORIES.index(Category.GRADIENT)) | live.is_persistent))
    inside = dict(_sums(live, part, chosen))
    if size_bytes[PeakPart.WEIGHTS]:
        share = inside[PeakPart.WEIGHTS] / size_bytes[PeakPart.WEIGHTS]
        inside[PeakPart.TEMPORARY] = round(size_bytes[PeakPart.TEMPORARY] * share)
    return inside


def _sums(live: Lifetimes, part: NDArray[np.uint8], chosen: NDArray[np.bool_]) -> Mapping[PeakPart, int]:
    sums = np.bincount(part[chosen], weights=live.size_bytes[chosen], minlength=len(_PARTS))
    return {item: int(size) for item, size in zip(_PARTS, sums, strict=True)}


def _parts(trace: Trace, live: Lifetimes, phase: Mapping[int, Phase]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """For each block the index of its part, and whether it is of a layer, one of multi-token prediction among them."""
    region = _regions(trace)
    named = [layer_of(name) >= 0 or in_layer(name.rpartition("/")[0]) is not None for name in live.names]
    found, inside = [], []
    for start, category, name, is_lasting in zip(
        live.start.tolist(), live.category.tolist(), live.name.tolist(), live.is_persistent.tolist(), strict=True
    ):
        kind, where = CATEGORIES[category], region.get(start, _Region.OUTSIDE)
        is_layers = where is not _Region.LOSS and (named[name] or where is _Region.LAYERS)
        part = _BY_CATEGORY[kind]
        if is_layers and kind in _OF_FORWARD and phase.get(start) is Phase.FORWARD:
            part = PeakPart.LAYERS
        elif where is _Region.LOSS and part in _OF_LOSS and not is_lasting:
            part = PeakPart.LOSS
        found.append(_PARTS.index(part))
        inside.append(is_layers)
    return np.array(found, dtype=np.uint8), np.array(inside, dtype=np.bool_)


def _regions(trace: Trace) -> dict[int, _Region]:
    """Of the tensors that kernels in layers, or of the head and the loss, make."""
    found: dict[int, _Region] = {}
    lasting = trace.blocks.starts("Weight", CONSTANT_VALUE)
    scopes: dict[str, _Region | None] = {}
    for task in trace.tasks:
        if not task.is_kernel:
            continue
        scope = task.scope
        if scope not in scopes:
            scopes[scope] = _named(scope)
        region = scopes[scope]
        if region is None:
            region = _followed(task, found)
        if region is not _Region.OUTSIDE:
            for made in task.outputs:
                if made not in lasting:
                    found.setdefault(made, region)
    return found


def _named(scope: str) -> _Region | None:
    """None where the name does not tell."""
    if _HEAD.search(scope):
        return _Region.LOSS
    return _Region.LAYERS if in_layer(scope) is not None else None


def _followed(task: Task, found: Mapping[int, _Region]) -> _Region:
    """Where a kernel belongs by what it reads."""
    read = max((found.get(tensor, _Region.OUTSIDE) for tensor in task.inputs), default=_Region.OUTSIDE)
    has_cells = "-" in task.scope
    return _Region.OUTSIDE if has_cells and read is _Region.LAYERS else read
