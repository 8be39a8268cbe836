"""FACTS + LAYOUT -> BOUNDS: what no strategy of a layout gets below, in memory and in time, before it is run.

A part that is cut further holds and computes a share of what it was at the least, one that is cut less no less than
before. So from each layout that was run something is known of all others, and most of those that cut tensors, sequences
and micro-batches alike: their layers are the same (docs/how-to/layout.md, *How layouts are left out*).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from swapconf.layout.facts import Exchange, Facts
from swapconf.layout.layout import Layout
from swapconf.timing.collectives import collective_us
from swapconf.timing.cost import Hardware


def kind(layout: Layout) -> Hashable:
    """Layouts of one kind have the same layers."""
    return (
        layout.tensors,
        layout.contexts,
        layout.experts,
        layout.is_sequence,
        layout.shards_optimizer and layout.data > 1,
        layout.batch,
    )


def least_bytes(layout: Layout, known: Iterable[Facts]) -> int:
    """What the fullest card holds of its layers all the time."""
    return max((_layer_bytes(layout, facts) for facts in known), default=0) * max(layout.layers_of_stage)


def least_us(layout: Layout, known: Iterable[Facts], hardware: Hardware) -> float:
    """What a step takes: each stage works through all its micro-batches, and those before it once before that and once
    after."""
    layer_us = max((_layer_us(layout, facts, hardware) for facts in known), default=0.0)
    micro_us = [layers * layer_us for layers in layout.layers_of_stage]
    return max(
        layout.micro_batches * own + (sum(micro_us[:stage]) if layout.interleaves == 1 else 0.0)
        for stage, own in enumerate(micro_us)
    )


def _layer_bytes(layout: Layout, facts: Facts) -> int:
    before = facts.layout
    shared = facts.shared_bytes * _share(_optimizer_parts(before), _optimizer_parts(layout))
    adds_up = layout.micro_batches > 1 and before.micro_batches > 1
    gradients = facts.gradient_bytes * _share(_weight_parts(before), _weight_parts(layout)) if adds_up else 0.0
    return int(shared + gradients)


def _layer_us(layout: Layout, facts: Facts, hardware: Hardware) -> float:
    """Of one micro-batch."""
    before = facts.layout
    if kind(before) == kind(layout):
        return facts.micro_us
    cut = _share([before.tensors, before.contexts, before.experts], [layout.tensors, layout.contexts, layout.experts])
    products_us = facts.products_us * cut * layout.batch / before.batch
    if not _exchanges_alike(before, layout):
        return products_us
    return products_us + sum(
        times * _exchange_us(exchange, layout, layout.batch / before.batch, hardware)
        for exchange, times in facts.exchanges.items()
        if exchange.cards == before.tensors
    )


def _exchanges_alike(before: Layout, after: Layout) -> bool:
    """Whether what is exchanged between cards that cut tensors is the same, but for the batch and the number of cards:
    whole activations, however many cards cut a tensor."""
    same = [(one.tensors > 1, one.is_sequence, one.contexts, one.experts) for one in (before, after)]
    return same[0] == same[1] == (True, after.is_sequence, 1, 1)


def _exchange_us(exchange: Exchange, layout: Layout, times: float, hardware: Hardware) -> float:
    """Cards that cut a tensor are neighbours."""
    return collective_us(exchange.primitive, exchange.whole_bytes * times, range(layout.tensors), hardware)


def _weight_parts(layout: Layout) -> Sequence[int]:
    return layout.tensors, layout.experts


def _optimizer_parts(layout: Layout) -> Sequence[int]:
    return layout.tensors, layout.experts, layout.data * layout.contexts if layout.shards_optimizer else 1


def _share(before: Sequence[int], after: Sequence[int]) -> float:
    """The least that is left of what is cut into other parts."""
    share = 1.0
    for old, new in zip(before, after, strict=True):
        share *= min(1.0, old / new)
    return share
