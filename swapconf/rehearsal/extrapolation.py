"""SAMPLES -> SAMPLE: the memory of a model with many equal layers, from two dry runs of it with fewer.

What is in use grows by the same amount with every equal layer, at each place of the step. Which place is the highest
can change, though: with few layers often the optimizer, with many the end of the forward pass. So the line is drawn for
each place by itself, and the highest one taken. A place is a layer, counted from the nearer end of its run, or a part
of the model outside of the layers, in the forward pass or in the backward pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from swapconf.dryrun.effect import Effect, Held, Launch, Move, Place, place_of
from swapconf.phrases import phrase
from swapconf.rehearsal.folding import SMALLEST, Fold, Run
from swapconf.trace import Trace

Label: TypeAlias = tuple[str, str]
Placed = TypeVar("Placed", Move, Launch)
_TOLERANCE = 0.001  # of the peak, between a prediction and the run that checks it
_NUMBER = re.compile(r"^\d+_")  # a task's name starts with its event
_OUTSIDE_PARTS = 4  # names that tell one part of the model from another


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One dry run with ``size`` layers left of the run. ``highest``: most bytes in use at each place.

    ``kernels_per_layer``: launches of one equal layer in a step, forward and backward, over all micro-batches.
    """

    size: int
    highest: Mapping[Label, int]
    used_peak_bytes: int
    with_fragments_peak_bytes: int
    effect: Effect
    kernels_per_layer: int = 0

    @property
    def top(self) -> Label:
        return max(self.highest, key=self.highest.__getitem__)


def sample(trace: Trace, effect: Effect, fold: Fold, size: int) -> Sample:
    """What a folded run shows, told in the layers of the whole model."""
    kept = fold.kept(size)
    anchors = _anchors(fold, kept)
    labels: dict[str, Label | None] = {}
    highest: dict[Label, int] = {}
    for block in trace.blocks:
        scope = _NUMBER.sub("", block.task_name.rpartition("/")[0])
        if scope not in labels:
            labels[scope] = _label(scope, anchors)
        label = labels[scope]
        if label is not None and not block.on_host:
            highest[label] = max(highest.get(label, 0), block.used_bytes)
    inner = str(kept.index(_template_layer(fold.runs[0], kept)))
    count = sum(place_of(kernel.scope, len(kept)).layer == inner for kernel in trace.step if not kernel.is_event)
    again = effect.recomputed
    whole = replace(effect, launched=None, moves=tuple(_renamed(move, kept) for move in effect.moves),
                    recomputed=None if again is None else tuple(_renamed(launch, kept) for launch in again),
                    held=frozenset(_held(tensor, kept) for tensor in effect.held),
                    layers=frozenset(_whole_name(layer, kept) for layer in effect.layers))
    return Sample(size=size, highest=highest, used_peak_bytes=trace.used_peak_bytes, effect=whole,
                  with_fragments_peak_bytes=trace.with_fragments_peak_bytes, kernels_per_layer=count)


def extrapolated(small: Sample, big: Sample, fold: Fold, size: int) -> Sample:
    """The run with ``size`` layers left (``fold.own``: the whole model). Fragments follow no line: theirs is an
    estimate, on the line but never below what a run had."""
    steps = (size - small.size) / (big.size - small.size)
    highest = {label: _line(small.highest[label], big.highest[label], steps)
               for label in small.highest.keys() & big.highest.keys()}
    used = max(highest.values())
    gap = max(_fragments(small), _fragments(big), _line(_fragments(small), _fragments(big), steps))
    return Sample(size=size, highest=highest, used_peak_bytes=used, with_fragments_peak_bytes=used + gap,
                  effect=_effect(small, big, fold, size, steps), kernels_per_layer=big.kernels_per_layer)


def doubt(small: Sample, big: Sample, whole: Sample, longest_prefetch: int) -> str:
    """Why the premise needs a third run; empty where it does not."""
    if small.top != big.top or big.top != whole.top:
        return phrase("the peak moves to another place of the step")
    if 4 * longest_prefetch > big.kernels_per_layer:
        return phrase("a prefetch reaches over several layers")
    if any(max(run.highest.values()) < run.used_peak_bytes for run in (small, big)):
        return phrase("the peak lies in the middle of the model")
    if small.highest.keys() != big.highest.keys():
        return phrase("the two runs do not have the same places")
    return ""


def holds(predicted: Sample, measured: Sample) -> bool:
    """Whether a third run is where the first two say."""
    off = abs(predicted.used_peak_bytes - measured.used_peak_bytes)
    moves = predicted.effect.total.num_tensors == measured.effect.total.num_tensors
    again = predicted.effect.recomputed_by_layer == measured.effect.recomputed_by_layer
    return moves and again and off <= _TOLERANCE * measured.used_peak_bytes


def _effect(small: Sample, big: Sample, fold: Fold, size: int, steps: float) -> Effect:
    """Layers that no run had move and recompute what a layer in the middle of the run does."""
    present, wanted = fold.kept(big.size), fold.kept(size)
    moves, layers = list(big.effect.moves), set(big.effect.layers)
    again, held = list(big.effect.recomputed or ()), set(big.effect.held)
    for run in fold.runs:
        template = str(_template_layer(run, present))
        added = [str(index) for index in wanted if index in run.indices and index not in present]
        if template in layers:
            layers.update(added)
            moves += _again_in(added, [move for move in big.effect.moves if move.place.layer == template])
            again += _again_in(added, [item for item in big.effect.recomputed or () if item.place.layer == template])
            held |= {_in_layer(tensor, template, name) for tensor in big.effect.held
                     if tensor.place.layer == template for name in added}
    order = {str(index): index for index in range(fold.num_layers)}
    moves.sort(key=lambda move: order.get(move.place.layer, fold.num_layers))
    host = _line(small.effect.host_peak_bytes, big.effect.host_peak_bytes, steps)
    return replace(big.effect, moves=tuple(moves), layers=frozenset(layers), host_peak_bytes=host,
                   recomputed=None if big.effect.recomputed is None else tuple(again), held=frozenset(held))


def _again_in(names: Iterable[str], items: Sequence[Placed]) -> list[Placed]:
    return [replace(item, place=replace(item.place, layer=name)) for name in names for item in items]


def _in_layer(tensor: Held, template: str, name: str) -> Held:
    """The same in another layer; of readers in the next one it is only known that they are outside of it."""
    return Held(replace(tensor.place, layer=name), tensor.primitive, frozenset(
        replace(reader, place=replace(reader.place, layer=name)) if reader.place.layer == template else reader
        for reader in tensor.readers))


def _anchors(fold: Fold, kept: Sequence[int]) -> tuple[str | None, ...]:
    """A name for each layer that is there, the same in every size; None in the middle of a run, where the sizes differ
    and nothing is highest, because the line is."""
    names: list[str | None] = [str(index) for index in kept]
    for number, run in enumerate(fold.runs):
        inside = [position for position, index in enumerate(kept) if index in run.indices]
        near = min(SMALLEST, len(inside)) // 2
        for step, position in enumerate(inside):
            left = len(inside) - step
            names[position] = f"run {number} + {step}" if step < near else f"run {number} - {left}" \
                if left <= near else None
    return tuple(names)


def _label(scope: str, anchors: Sequence[str | None]) -> Label | None:
    phase = scope.partition("/")[0]
    layer = place_of(scope, len(anchors)).layer
    if layer.isdigit():
        anchor = anchors[int(layer)]
        return None if anchor is None else (phase, anchor)
    return phase, layer or "/".join(scope.split("/")[1:_OUTSIDE_PARTS])


def _template_layer(run: Run, kept: Sequence[int]) -> int:
    inside = [index for index in kept if index in run.indices]
    return inside[(len(inside) - 1) // 2]


def _renamed(item: Placed, kept: Sequence[int]) -> Placed:
    return replace(item, place=_whole_place(item.place, kept))


def _held(tensor: Held, kept: Sequence[int]) -> Held:
    return Held(_whole_place(tensor.place, kept), tensor.primitive,
                frozenset(_renamed(reader, kept) for reader in tensor.readers))


def _whole_place(place: Place, kept: Sequence[int]) -> Place:
    return replace(place, layer=_whole_name(place.layer, kept))


def _whole_name(layer: str, kept: Sequence[int]) -> str:
    return str(kept[int(layer)]) if layer.isdigit() else layer


def _fragments(run: Sample) -> int:
    return run.with_fragments_peak_bytes - run.used_peak_bytes


def _line(low: int, high: int, steps: float) -> int:
    return round(low + (high - low) * steps)
