"""JUDGE -> FACTS: what one layer of a layout holds, computes and takes, as its dry run without a strategy shows.

The least of all layers that were run, so that what is concluded for other layouts is never too much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import numpy as np

from swapconf.layout.layout import Layout
from swapconf.memory.trace_lifetimes import layer_of, lifetimes
from swapconf.plan.judge import Judge
from swapconf.timing.cost import Machine
from swapconf.timing.costing import Signature, products_us
from swapconf.timing.schedule import micro_end
from swapconf.timing.timing import COLLECTIVE, COMPUTE
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.trace.trace import POINT_TO_POINT, Trace
from swapconf.trace.work import size_bytes
from swapconf.upstream.scopes import GRADIENTS
from swapconf.whatif.evaluation import RankStep


@dataclass(frozen=True, order=True, kw_only=True, slots=True)
class Exchange:
    """A collective of the forward pass that computing waits for from its start to its end, whatever else is done: it
    needs what was computed last, and what is computed next needs it. ``whole_bytes``: see `collective_us`."""

    primitive: str
    whole_bytes: int
    cards: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Of one decoder layer on one card.

    Attributes:
        shared_bytes: Weights and the state of the optimizer, which the parallel optimizer cuts, too.
        gradient_bytes: Gradients that are kept to be added up; 0 with one micro-batch.
        micro_us: What a micro-batch computes forward and backward, and how long it waits for ``exchanges``.
        products_us: Of that, what its products of matrices take by their operations alone.
        exchanges: How often a micro-batch makes each. Nothing where a profile tells what collectives take.
    """

    layout: Layout
    shared_bytes: int
    gradient_bytes: int
    micro_us: float
    products_us: float
    exchanges: Mapping[Exchange, int] = field(default_factory=dict)


def facts_of(layout: Layout, judge: Judge) -> Facts:
    held = [item for trace in judge.evaluator.traces for item in _held(trace)]
    machine = judge.evaluator.machine
    took = [
        item
        for step in judge.evaluator.steps
        for item in _took(step, machine, step.micro_batches or layout.micro_batches)
    ]
    return Facts(
        layout=layout,
        shared_bytes=min((item.shared for item in held), default=0),
        gradient_bytes=min((item.gradients for item in held), default=0),
        micro_us=min((item.us for item in took), default=0.0),
        products_us=min((item.products_us for item in took), default=0.0),
        exchanges=_in_all(item.exchanges for item in took) if machine.measured is None else {},
    )


def _in_all(each: Iterable[Counter[Exchange]]) -> Counter[Exchange]:
    counted = list(each)
    return reduce(lambda one, other: one & other, counted) if counted else Counter()


class _Held(NamedTuple):
    shared: int
    gradients: int


class _Took(NamedTuple):
    us: float
    products_us: float
    exchanges: Counter[Exchange]


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


def _took(step: RankStep, machine: Machine, micro_batches: int) -> list[_Took]:
    """By layer of the trace, of one micro-batch."""
    program = step.program
    layer = _layers(program.names)
    is_micro = np.arange(len(program)) <= micro_end(program)
    computes = (program.kind == COMPUTE) & is_micro
    products = products_us(step.load, machine)
    waits = _waits(step)
    found = []
    for number in sorted(set(layer[layer >= 0].tolist())):
        mine, waited = computes & (layer == number), [kernel for kernel in waits if layer[kernel] == number]
        us = step.duration_us[mine].sum() + step.duration_us[waited].sum()
        made = Counter(_exchange(step.load.signatures[step.load.index[kernel]]) for kernel in waited)
        found.append(
            _Took(
                float(us) / micro_batches,
                float(products[mine].sum()) / micro_batches,
                Counter({item: times // micro_batches for item, times in made.items()}),
            )
        )
    return found


def _waits(step: RankStep) -> list[int]:
    """Collectives of the forward pass that the main stream waits for from start to end: they wait for what runs there
    last before, and it for them before it does anything more."""
    program = step.program
    is_main = program.stream == program.main_stream
    busy = np.flatnonzero(is_main & (step.duration_us > 0))
    found = []
    for kernel in np.flatnonzero((program.kind == COLLECTIVE) & ~is_main).tolist():
        before = int(np.searchsorted(busy, kernel)) - 1
        if before < 0 or before + 1 == len(busy) or _is_other(step, kernel):
            continue
        last, following = int(busy[before]), int(busy[before + 1])
        waits_for_last = any(awaited >= last and is_main[awaited] for awaited in program.waits[kernel])
        if waits_for_last and any(kernel in program.waits[item] for item in range(kernel + 1, following + 1)):
            found.append(kernel)
    return found


def _is_other(step: RankStep, kernel: int) -> bool:
    """Of the backward pass, where a strategy may put what runs again, or between stages."""
    primitive = step.load.signatures[step.load.index[kernel]].primitive
    return primitive in POINT_TO_POINT or step.program.names[kernel].startswith(GRADIENTS)


def _exchange(signature: Signature) -> Exchange:
    whole_bytes = max(size_bytes(signature.inputs), size_bytes(signature.outputs))
    return Exchange(primitive=signature.primitive, whole_bytes=whole_bytes, cards=len(signature.ranks))


def _layers(names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([layer_of(name) for name in names], dtype=np.int64)
