"""FACTS + LAYOUT -> BOUNDS: what no strategy of a layout gets below, in memory and in time, before it is run.

A part that is cut further holds and computes a share of what it was at the least, one that is cut less no less than
before. So from each layout that was run something is known of all others, and most of those that cut tensors, sequences
and micro-batches alike: their layers are the same (docs/how-to/layout.md, *How layouts are left out*).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from swapconf.layout.facts import Exchange, Facts, Part
from swapconf.layout.layout import Layout
from swapconf.timing.collectives import collective_us
from swapconf.timing.cost import Hardware

# of what a kernel takes that is no product, what is left at the least where its data comes from the cache
_IN_CACHE = 0.5


def kind(layout: Layout) -> Hashable:
    """Layouts of one kind have the same layers."""
    return (layout.tensors, layout.contexts, layout.experts, layout.is_sequence, _shards(layout), layout.batch)


def likeness(layout: Layout) -> Hashable:
    """Of layouts that are alike in this, one tells what others compute and wait for at the least."""
    return layout.is_sequence, layout.tensors > 1, layout.contexts, layout.experts


def tells(layout: Layout) -> tuple[Hashable, ...]:
    """Ascending by how much a layout tells of those that are alike: what is cut less and has fewer sequences takes no
    less for each of them, and what shards its optimizer no more than what does not."""
    return _shards(layout), layout.tensors, layout.batch, layout


def ending(layout: Layout) -> Hashable:
    """Layouts of one kind that are alike in this, too, add up gradients alike, and among as many cards."""
    return kind(layout), layout.stages > 1, layout.micro_batches > 1, layout.data


def told_apart(
    waiting: Sequence[Layout], known: Sequence[Layout], facts: Sequence[Facts], hardware: Hardware
) -> list[Layout]:
    """One of each kind that none of what is ``known`` is of, in the order of `tells`; where there is none, one of each
    `ending`, the most promising first."""
    telling = sorted(waiting, key=lambda one: (*tells(one)[:-1], one.stages, one.micro_batches, one))
    return of_others(telling, kind, known) or of_others(fastest(waiting, facts, hardware), ending, known)


def fastest(layouts: Iterable[Layout], facts: Sequence[Facts], hardware: Hardware) -> list[Layout]:
    """What could be, first."""
    return sorted(layouts, key=lambda one: (least_us(one, facts, hardware), one.stages, one))


def of_others(layouts: Iterable[Layout], alike: Callable[[Layout], Hashable], known: Iterable[Layout]) -> list[Layout]:
    """The first of all that are ``alike``, where none of them is known."""
    found, chosen = {alike(layout) for layout in known}, []
    for layout in layouts:
        if alike(layout) not in found:
            found.add(alike(layout))
            chosen.append(layout)
    return chosen


def least_bytes(layout: Layout, known: Iterable[Facts]) -> int:
    """What the fullest card holds of its layers all the time."""
    return max((_layer_bytes(layout, facts) * max(layout.layers_behind(facts.unlike)) for facts in known), default=0)


def least_us(layout: Layout, known: Iterable[Facts], hardware: Hardware) -> float:
    """What a step takes: each stage works through all its micro-batches, and those before it once before that and once
    after; then the first one adds up its gradients and updates its weights. What a step waits for once, as for weights
    that the parallel optimizer gathers, a stage may wait for while those before it work."""
    facts = list(known)
    same = [item for item in facts if _steps_alike(item.layout, layout)]
    each_us = [(_layer_us(layout, item, hardware), item.unlike) for item in facts]
    layer_us = max((us for us, _ in each_us), default=0.0)
    every_us = max((us for us, unlike in each_us if not unlike), default=0.0)
    alike = layout.layers_behind(max((item.unlike for item in facts), default=0))
    ends = (_part_us(layout, item.layout, item.outside, hardware) for item in facts if _ends_alike(item.layout, layout))
    micro_us = [
        own * layer_us + (layers - own) * every_us for layers, own in zip(layout.layers_of_stage, alike, strict=True)
    ]
    micro_us[-1] += max(ends, default=0.0)
    once_us = max((item.whole.micro_us - item.layout.micro_batches * layer_us for item in same), default=0.0)
    behind_us = max((_behind_us(item) for item in same), default=0.0)
    at_least = []
    for stage, (layers, own) in enumerate(zip(alike, micro_us, strict=True)):
        before_us = sum(micro_us[:stage]) if layout.interleaves == 1 else 0.0
        at_least.append(layout.micro_batches * own + max(before_us, layers * once_us))
    return alike[0] * behind_us + max(at_least)


def _behind_us(facts: Facts) -> float:
    """What a layer adds behind the last backward pass. Names tell where that ends, and some kernels have none, as those
    of Qwen3-MoE without the parallel optimizer, so it is no more than the micro-batches leave of the step."""
    whole = facts.whole
    micro_us = facts.layout.micro_batches * max(facts.layer.us, whole.round_us)
    return max(0.0, min(whole.behind_us, whole.micro_us + whole.behind_us - micro_us))


def _layer_us(layout: Layout, facts: Facts, hardware: Hardware) -> float:
    """What a layer takes at the least, of a micro-batch."""
    round_us = facts.whole.round_us if _steps_alike(facts.layout, layout) else 0.0
    return max(_part_us(layout, facts.layout, facts.layer, hardware), round_us)


def _steps_alike(before: Layout, after: Layout) -> bool:
    """Whether a layer of the one adds to a step what it does in the other, but for further micro-batches."""
    return ending(before) == ending(after) and before.micro_batches <= after.micro_batches


def _layer_bytes(layout: Layout, facts: Facts) -> int:
    before = facts.layout
    shared = facts.shared_bytes * _share(_optimizer_parts(before), _optimizer_parts(layout))
    adds_up = layout.micro_batches > 1 and before.micro_batches > 1
    gradients = facts.gradient_bytes * _share(_weight_parts(before), _weight_parts(layout)) if adds_up else 0.0
    return int(shared + gradients)


def _part_us(after: Layout, before: Layout, part: Part, hardware: Hardware) -> float:
    """Of one micro-batch."""
    if kind(before) == kind(after):
        return part.us
    cut = _share([before.tensors, before.contexts, before.experts], [after.tensors, after.contexts, after.experts])
    us = part.products_us * cut * after.batch / before.batch
    if not _computes_alike(before, after):
        return us
    us += part.rest_us * cut * min(1.0, after.batch / before.batch) * _IN_CACHE
    if min(before.tensors, after.tensors) == 1 or after.contexts * after.experts > 1:
        return us
    return us + sum(
        times * _exchange_us(exchange, after, after.batch / before.batch, hardware)
        for exchange, times in part.exchanges.items()
    )


def _computes_alike(before: Layout, after: Layout) -> bool:
    """Whether both compute the same but for the size of what is cut. With the parallel optimizer a card casts its share
    of the weights alone."""
    same = [(one.is_sequence, one.contexts, one.experts) for one in (before, after)]
    return same[0] == same[1] and _shards(after) <= _shards(before)


def _ends_alike(before: Layout, after: Layout) -> bool:
    """Whether the last stage of the one has no more beside layers than that of the other. How it is cut depends on the
    size of the vocabulary."""
    same = [(one.tensors, one.contexts, one.experts, one.is_sequence) for one in (before, after)]
    return same[0] == same[1] and (after.stages == 1 or before.stages > 1)


def _exchange_us(exchange: Exchange, layout: Layout, times: float, hardware: Hardware) -> float:
    """Between cards that cut tensors, which are neighbours: whole activations, however many cards it are."""
    return collective_us(exchange.primitive, exchange.whole_bytes * times, range(layout.tensors), hardware)


def _shards(layout: Layout) -> bool:
    return layout.shards_optimizer and layout.data > 1


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
