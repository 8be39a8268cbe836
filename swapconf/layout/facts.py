"""EVALUATOR -> FACTS: what a layer of a layout, and what is beside them, holds, computes and waits for, as its dry run
without a strategy shows.

The least of all layers that were run, so that what is concluded for other layouts is never too much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import NamedTuple

import numpy as np

from swapconf.layout.layout import Layout
from swapconf.memory.trace_lifetimes import layer_of, lifetimes
from swapconf.timing.cost import Machine
from swapconf.timing.costing import Signature, products_us
from swapconf.timing.schedule import micro_end
from swapconf.timing.steady import round_us
from swapconf.timing.timeline import replay
from swapconf.timing.timing import COLLECTIVE, COMPUTE
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.trace.trace import Trace
from swapconf.whatif.evaluate import Evaluator
from swapconf.whatif.evaluation import RankStep

_OUTSIDE = -1  # in place of a layer


@dataclass(frozen=True, order=True, kw_only=True, slots=True)
class Exchange:
    """A collective of the cards that cut tensors or experts, which computing waits for from its start to its end: it
    needs what was computed last, and what is computed next needs it. ``whole_bytes``: see `collective_us`."""

    primitive: str
    whole_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What a part of the model takes for a micro-batch, forward and backward.

    Attributes:
        us: All that it computes, and how long it waits for ``exchanges``. No strategy gets below that: what runs again
            while it waits takes longer than it waits.
        products_us: Of that, what its products of matrices take by their operations alone.
        rest_us: Of that, what else it computes.
        exchanges: How often it makes each. Nothing where a profile tells what collectives take.
    """

    us: float = 0.0
    products_us: float = 0.0
    rest_us: float = 0.0
    exchanges: Counter[Exchange] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """What a layer adds to a step of one card that waits for no other stage.

    Attributes:
        micro_us: Until the last backward pass ends, in all micro-batches.
        round_us: From one micro-batch to the next, 0 where that is not told.
        behind_us: Behind the last backward pass.
    """

    micro_us: float = 0.0
    round_us: float = 0.0
    behind_us: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Of one card.

    Attributes:
        shared_bytes: Of a decoder layer, weights and the state of the optimizer, which the parallel optimizer cuts.
        gradient_bytes: Of a decoder layer, gradients that are kept to be added up; 0 with one micro-batch.
        layer: A decoder layer.
        outside: What the last stage has beside layers.
        whole: Of a decoder layer; nothing where that is not known.
        unlike: So many layers at the start of the model are not meant by "a decoder layer".
    """

    layout: Layout
    shared_bytes: int
    gradient_bytes: int
    layer: Part
    outside: Part = Part()
    whole: Whole = Whole()
    unlike: int = 0


def facts_of(layout: Layout, evaluator: Evaluator) -> Facts:
    """Of the stages that the evaluator has; what stands beside layers is known with the last one."""
    held = _least_held(evaluator)
    layers, outside = [], Part()
    for (_, stage), step in zip(evaluator.ranks, evaluator.steps, strict=True):
        parts = _parts(step, evaluator.machine, layout)
        layers += [part for number, part in parts.items() if number != _OUTSIDE]
        if stage == layout.stages - 1:
            outside = parts.get(_OUTSIDE, outside)
    return Facts(
        layout=layout, shared_bytes=held.shared, gradient_bytes=held.gradients, layer=_least(layers), outside=outside
    )


def facts_of_two(few: Layout, evaluator: Evaluator, more: Layout, of_more: Evaluator, *, unlike: int = 0) -> Facts:
    """Of two models that differ in how many equal layers the last stage has: what the one takes more is the layers', by
    whatever name. MindSpore names much of the backward pass of all layers after the first, the last or none of them.
    ``unlike``: layers at their start that those are not equal to."""
    small, large = (
        reduce(_together, _parts(asked.steps[-1], asked.machine, layout).values())
        for layout, asked in ((few, evaluator), (more, of_more))
    )
    own = few.layers_of_stage[-1]
    layers = more.layers_of_stage[-1] - own
    layer = Part(
        us=max(0.0, large.us - small.us) / layers,
        products_us=max(0.0, large.products_us - small.products_us) / layers,
        rest_us=max(0.0, large.rest_us - small.rest_us) / layers,
        exchanges=Counter({item: times // layers for item, times in (large.exchanges - small.exchanges).items()}),
    )
    held, outside = _least_held(evaluator), Part(us=max(0.0, small.us - own * layer.us))
    return Facts(
        layout=few,
        shared_bytes=held.shared,
        gradient_bytes=held.gradients,
        layer=layer,
        outside=outside,
        whole=_added(
            _whole(evaluator.steps[-1], few.micro_batches), _whole(of_more.steps[-1], more.micro_batches), layers
        ),
        unlike=unlike,
    )


def _whole(step: RankStep, micro_batches: int) -> Whole:
    """Of all layers, and what stands beside them."""
    program = step.program
    line, last = replay(program, step.duration_us), micro_end(program)
    micro_us = float(line.end_us[last]) if last >= 0 else 0.0
    return Whole(
        micro_us=micro_us,
        round_us=round_us(line, step.micro_batches or micro_batches) or 0.0,
        behind_us=line.step_us - micro_us,
    )


def _added(few: Whole, more: Whole, layers: int) -> Whole:
    return Whole(
        micro_us=max(0.0, more.micro_us - few.micro_us) / layers,
        round_us=max(0.0, more.round_us - few.round_us) / layers if few.round_us else 0.0,
        behind_us=max(0.0, more.behind_us - few.behind_us) / layers,
    )


def _together(one: Part, other: Part) -> Part:
    return Part(
        us=one.us + other.us,
        products_us=one.products_us + other.products_us,
        rest_us=one.rest_us + other.rest_us,
        exchanges=one.exchanges + other.exchanges,
    )


def _least(parts: Sequence[Part]) -> Part:
    """What is in each of them."""
    if not parts:
        return Part()
    return Part(
        us=min(part.us for part in parts),
        products_us=min(part.products_us for part in parts),
        rest_us=min(part.rest_us for part in parts),
        exchanges=reduce(and_, (part.exchanges for part in parts)),
    )


class _Held(NamedTuple):
    shared: int
    gradients: int


def _least_held(evaluator: Evaluator) -> _Held:
    held = [item for trace in evaluator.traces for item in _held(trace)]
    return _Held(min((item.shared for item in held), default=0), min((item.gradients for item in held), default=0))


def _held(trace: Trace) -> list[_Held]:
    """By layer of the trace."""
    live = lifetimes(trace)
    found = []
    for layer in sorted(set(live.layer[live.layer >= 0].tolist())):
        mine = live.is_persistent & (live.layer == layer)
        shared, gradients = (
            int(live.size_bytes[mine & np.isin(live.category, [CATEGORIES.index(item) for item in items])].sum())
            for items in ((Category.WEIGHT, Category.OPTIMIZER), (Category.GRADIENT,))
        )
        found.append(_Held(shared, gradients))
    return found


def _parts(step: RankStep, machine: Machine, layout: Layout) -> dict[int, Part]:
    """By layer of the trace."""
    micro_batches = step.micro_batches or layout.micro_batches
    program = step.program
    layer = _layers(program.names)
    is_micro = np.arange(len(program)) <= micro_end(program)
    computes = (program.kind == COMPUTE) & is_micro
    products = products_us(step.load, machine)
    waits = [kernel for kernel in _waits(step, {layout.tensors, layout.experts}) if is_micro[kernel]]
    found = {}
    for number in sorted(set(layer.tolist())):
        mine, waited = computes & (layer == number), [kernel for kernel in waits if layer[kernel] == number]
        computed_us, multiplied_us = float(step.duration_us[mine].sum()), float(products[mine].sum())
        asked = (_signature(step, kernel) for kernel in waited)
        each = Counter(Exchange(primitive=one.primitive, whole_bytes=one.whole_bytes) for one in asked)
        made = Counter({item: times // micro_batches for item, times in each.items()})
        found[number] = Part(
            us=(computed_us + float(step.duration_us[waited].sum())) / micro_batches,
            products_us=multiplied_us / micro_batches,
            rest_us=max(0.0, computed_us - multiplied_us) / micro_batches,
            exchanges=made if machine.measured is None else Counter(),
        )
    return found


def _waits(step: RankStep, degrees: Collection[int]) -> list[int]:
    """Collectives that the main stream waits for from start to end: they wait for what runs there last before, and it
    for them before it does anything more. Of as many neighbours as one of the ``degrees``, as those that cut tensors or
    experts; of others the number differs between layouts that are alike otherwise."""
    program = step.program
    is_main = program.stream == program.main_stream
    busy = np.flatnonzero(is_main & (step.duration_us > 0))
    found = []
    for kernel in np.flatnonzero((program.kind == COLLECTIVE) & ~is_main).tolist():
        before = int(np.searchsorted(busy, kernel)) - 1
        if before < 0 or before + 1 == len(busy) or not _are_neighbours(_signature(step, kernel).ranks, degrees):
            continue
        last, following = int(busy[before]), int(busy[before + 1])
        waits_for_last = any(awaited >= last and is_main[awaited] for awaited in program.waits[kernel])
        if waits_for_last and any(kernel in program.waits[item] for item in range(kernel + 1, following + 1)):
            found.append(kernel)
    return found


def _are_neighbours(ranks: Sequence[int], degrees: Collection[int]) -> bool:
    return len(ranks) > 1 and len(ranks) in degrees and len(ranks) == ranks[-1] - ranks[0] + 1


def _signature(step: RankStep, kernel: int) -> Signature:
    return step.load.signatures[int(step.load.index[kernel])]


def _layers(names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([layer_of(name) for name in names], dtype=np.int64)
