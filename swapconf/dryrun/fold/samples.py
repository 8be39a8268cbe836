"""TRACE + FOLD -> SAMPLE: what one folded run shows, told in the layers of the whole model.

A *place* of the step is a layer, counted from the nearer end of its row, or a cell outside of the layers, in the
forward pass or in the backward pass; a kernel that MindSpore fused out of several cells, and that so belongs to none,
is one by its name. Runs of several sizes have the same places. The finer they are, the less of what grows faster is
hidden in a small run behind what is higher there and grows slower.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from swapconf.dryrun.effect.effect import Effect, Held, Launch, Move
from swapconf.dryrun.fold.folding import SMALLEST, Fold, Size
from swapconf.trace.trace import Trace
from swapconf.upstream.scopes import Place, place_of

Label: TypeAlias = tuple[str, str]
Placed = TypeVar("Placed", Move, Launch, Held)
_NUMBER = re.compile(r"^\d+_")  # a task's name starts with its event
_ITEM = re.compile(r"(?<=/)\d+(?=-)")  # of a list of cells, one for each micro-batch
_OPERATOR = re.compile(r"-op\d+$")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One dry run of a size. ``highest``: most bytes in use at each place.

    ``kernels_per_layer``: launches of one layer of a folded row for one micro-batch, forward and backward; None where
    a run has all of them.
    """

    size: Size
    highest: Mapping[Label, int]
    used_peak_bytes: int
    with_fragments_peak_bytes: int
    effect: Effect
    kernels_per_layer: int | None = None

    @property
    def top(self) -> Label:
        return max(self.highest, key=lambda place: (self.highest[place], place))  # of two alike always the same

    @property
    def fragments_bytes(self) -> int:
        return self.with_fragments_peak_bytes - self.used_peak_bytes


def sample(trace: Trace, effect: Effect, fold: Fold, size: Size) -> Sample:
    """``effect``: of the same trace, in the numbers of its own layers."""
    kept = fold.kept(size) if fold.rows else None
    return Sample(
        size=size,
        highest=_highest(trace, fold, kept),
        used_peak_bytes=trace.used_peak_bytes,
        effect=replace(_whole(effect, kept), launched=None),
        kernels_per_layer=_kernels(trace, fold, size),
        with_fragments_peak_bytes=trace.with_fragments_peak_bytes,
    )


def template_layer(fold: Fold, size: Size, row: int) -> int:
    """The layer that stands for the others of a row, from its middle."""
    inside = [index for index in fold.kept(size) if index in fold.rows[row].indices]
    return inside[(len(inside) - 1) // 2]


def _highest(trace: Trace, fold: Fold, kept: Sequence[int] | None) -> dict[Label, int]:
    anchors = _anchors(fold, kept) if kept is not None else None
    labels: dict[str, Label | None] = {}
    highest: dict[Label, int] = defaultdict(int)
    for block in trace.blocks:
        task = _OPERATOR.sub("", _NUMBER.sub("", block.task_name))
        scope = task.rpartition("/")[0]
        where = task if scope and "/" not in scope else scope
        if where not in labels:
            labels[where] = _label(where, anchors)
        label = labels[where]
        if label is not None and not block.on_host:
            highest[label] = max(highest[label], block.used_bytes)
    return dict(highest)


def _anchors(fold: Fold, kept: Sequence[int]) -> tuple[str | None, ...]:
    """A name for each layer that is there, the same in every size; None in the middle of a folded row, where the sizes
    differ and nothing is highest, because the line is."""
    names: dict[int, str | None] = {index: str(index) for index in kept}
    for number in fold.folded_rows:
        inside = [index for index in kept if index in fold.rows[number].indices]
        near = min(SMALLEST, fold.small.layers[number]) // 2
        for step, index in enumerate(inside):
            left = len(inside) - step
            names[index] = (
                f"row {number} + {step}" if step < near else f"row {number} - {left}" if left <= near else None
            )
    return tuple(names.values())


def _label(scope: str, anchors: Sequence[str | None] | None) -> Label | None:
    phase = scope.partition("/")[0]
    layer = place_of(scope, _MOST_LAYERS if anchors is None else len(anchors)).layer
    if layer.isdigit() and anchors is not None:
        anchor = anchors[int(layer)]
        return None if anchor is None else (phase, anchor)
    return phase, layer or _ITEM.sub("", scope)


_MOST_LAYERS = 1 << 20  # where layers are not counted


def _kernels(trace: Trace, fold: Fold, size: Size) -> int | None:
    if not fold.is_on_line_of_layers:
        return None
    kept = fold.kept(size)
    inner = {str(kept.index(template_layer(fold, size, row))): 0 for row in fold.folded_rows}
    for kernel in trace.step:
        layer = "" if kernel.is_event else place_of(kernel.scope, len(kept)).layer
        if layer in inner:
            inner[layer] += 1
    return min(inner.values()) // size.micro_batches


def _whole(effect: Effect, kept: Sequence[int] | None) -> Effect:
    if kept is None:
        return effect
    again = effect.recomputed
    return replace(
        effect,
        moves=tuple(_renamed(move, kept) for move in effect.moves),
        recomputed=None if again is None else tuple(_renamed(launch, kept) for launch in again),
        held=frozenset(_held(tensor, kept) for tensor in effect.held),
        layers=frozenset(_whole_name(layer, kept) for layer in effect.layers),
    )


def _renamed(item: Placed, kept: Sequence[int]) -> Placed:
    return replace(item, place=_whole_place(item.place, kept))


def _held(tensor: Held, kept: Sequence[int]) -> Held:
    return replace(_renamed(tensor, kept), readers=frozenset(_renamed(reader, kept) for reader in tensor.readers))


def _whole_place(place: Place, kept: Sequence[int]) -> Place:
    return replace(place, layer=_whole_name(place.layer, kept))


def _whole_name(layer: str, kept: Sequence[int]) -> str:
    return str(kept[int(layer)]) if layer.isdigit() else layer
