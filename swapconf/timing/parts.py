"""JOINT TIMELINE + COSTS -> PARTS: what a step is made of, so that the step of another layout can be held against it.

Kernels of one group are fast or slow together on a card, whatever the layout (`Costs`), so what two layouts have of a
group alike is in neither's favour. That is not sure of kernels of other shapes, which layouts have that cut tensors
otherwise: what each shape takes more or less is in doubt by itself, too.

Real steps hide another part of what is exchanged than a replay does. Gradients that are added up behind the last
backward pass are all waited for here, and in public model cards 60 % and 70 % of that is hidden (the two fits of
docs/evidence/model-cards.md). What runs beside computation is free here; the model cards that were dry-run with one
stage took longer than their replays in four of four cases, by a third to more than all of that. Both shares are the
same for all layouts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.cost import Costs
from swapconf.timing.costing import COMMON_GROUPS, EXCHANGES
from swapconf.timing.schedule import micro_end
from swapconf.timing.timing import COLLECTIVE, TO_DEVICE, TO_HOST, Floats, JointTimeline, RankTimeline
from swapconf.trace.columns import Ints
from swapconf.upstream.device_kernels import is_between_stages

HIDDEN_MOST = 0.7  # of the time for adding up gradients behind all else
# collectives of 2, 4 and 8 cards against each other (scripts/evidence/published/ascend_collectives.csv)
_GROUPS_ALONE = (0.9, 1.2)
EXPOSED_MOST = 1.0  # of what is exchanged beside computation
# what a difference may be in doubt by, beside the common groups of kernels
OWN, GRADIENTS, OVERLAP = "own", "gradients", "overlap"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepParts:
    """One step.

    Attributes:
        of_group_us: [groups] by group of kernels, of the rank that computes longest; in sum the step, as waiting for
            other ranks takes as long as what they compute.
        spread: By group, what kernels take over what is told of them.
        gradients_us: What the main stream waits until gradients are added up, the most of all ranks.
        collectives_us, copies_us, bubble_us: The same for all that is exchanged, for copies, and for other ranks.
        of_shape_us: By group and shape of kernels, of those whose shape is known; as ``of_group_us``.
        beside_us: What is exchanged in groups while the main stream computes, of the rank that computes longest.
    """

    step_us: float
    of_group_us: Floats
    spread: tuple[tuple[float, float], ...]
    gradients_us: float
    collectives_us: float
    copies_us: float
    bubble_us: float
    beside_us: float = 0.0
    of_shape_us: Mapping[tuple[int, Hashable], float] = field(default_factory=dict)

    @property
    def range_us(self) -> tuple[float, float]:
        """Of the step."""
        low, high = range_of(self.of_group_us, self.spread, self.gradients_us, self.beside_us)
        return self.step_us + low, self.step_us + high


def difference_us(one: StepParts, other: StepParts) -> tuple[float, float, float]:
    """By how much the step of ``other`` is longer, and the range of that: what both have alike cancels out."""
    more = other.of_group_us - one.of_group_us
    low, high = range_of(more, one.spread, other.gradients_us - one.gradients_us, other.beside_us - one.beside_us)
    below, above = _of_shapes(one, other)
    between = other.step_us - one.step_us
    return between, between - float(np.hypot(low, below)), between + float(np.hypot(high, above))


def _of_shapes(one: StepParts, other: StepParts) -> tuple[float, float]:
    """How far the difference may be below and above what it is, by what each shape takes more or less."""
    shapes = [*{**one.of_shape_us, **other.of_shape_us}]
    more = np.array([other.of_shape_us.get(shape, 0.0) - one.of_shape_us.get(shape, 0.0) for shape in shapes])
    exchanges = COMMON_GROUPS.index(EXCHANGES)
    alone = [_GROUPS_ALONE if group == exchanges else one.spread[group] for group, _ in shapes]
    below, above = _sides(more, alone)
    return float(np.linalg.norm(below)), float(np.linalg.norm(above))


def doubts_us(one: StepParts, other: StepParts) -> dict[str, float]:
    """How wide the range of their difference is by each thing that is not known of it: a group of kernels by its name,
    OWN for those of a hardware file of one's own, GRADIENTS and OVERLAP."""
    fast, slow = np.array(one.spread).T
    wide = np.abs(other.of_group_us - one.of_group_us) * (slow - fast)
    names = [*COMMON_GROUPS[: len(wide)], *[OWN] * (len(wide) - len(COMMON_GROUPS))]
    found = dict.fromkeys((*names, GRADIENTS, OVERLAP), 0.0)
    for name, us in zip(names, wide.tolist(), strict=True):
        found[name] += us
    found[GRADIENTS] = HIDDEN_MOST * abs(other.gradients_us - one.gradients_us)
    found[OVERLAP] = EXPOSED_MOST * abs(other.beside_us - one.beside_us)
    return found


def range_of(
    us: Floats, spread: Sequence[tuple[float, float]], gradients_us: float, beside_us: float = 0.0
) -> tuple[float, float]:
    """How far a time may be below and above what it is made of, [groups]; some of a difference are below zero. Groups
    are fast or slow each by itself, so that their deviations add up as squares."""
    below, above = _sides(us, spread)
    shares = np.array([-HIDDEN_MOST * gradients_us, EXPOSED_MOST * beside_us])
    return (
        -float(np.linalg.norm([*below, *np.minimum(shares, 0.0)])),
        float(np.linalg.norm([*above, *np.maximum(shares, 0.0)])),
    )


def _sides(us: Floats, spread: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """How far each time may be below and above what is told of it; some of a difference are below zero."""
    fast, slow = np.array(spread, dtype=np.float64).reshape(-1, 2).T - 1
    return np.minimum(us * fast, us * slow), np.maximum(us * fast, us * slow)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shapes:
    """``index`` int64 [n] into ``known``: what kernels that take equally long have in common; -1 where that is not
    known."""

    index: Ints
    known: Sequence[Hashable]


def parts(
    joint: JointTimeline, costs: Sequence[Costs], times: Sequence[Floats], shapes: Sequence[Shapes], step_us: float
) -> StepParts:
    """``costs``, ``times``, ``shapes``: by rank, of the kernels of its program: what each takes, how often it runs in a
    step, as a program may have fewer micro-batches than that, and of which shape it is."""
    longest = max(range(len(costs)), key=lambda index: float(costs[index].duration_us.sum()))
    line, group = joint.ranks[longest], costs[longest].group
    us = _counting(line, costs[longest], times[longest])
    us *= step_us / max(float(us.sum()), 1e-9)
    waits = [_waits(line, often) for line, often in zip(joint.ranks, times, strict=True)]
    gradients, collectives, copies = (max(item) for item in zip(*waits, strict=True))
    return StepParts(
        step_us=step_us,
        of_group_us=np.bincount(group, weights=us, minlength=len(costs[longest].spread)).astype(np.float64),
        spread=costs[longest].spread,
        gradients_us=gradients,
        collectives_us=collectives,
        copies_us=copies,
        bubble_us=max(line.bubble_us for line in joint.ranks),
        beside_us=_beside(line, times[longest]),
        of_shape_us=of_shapes(us, group, shapes[longest]),
    )


def of_shapes(us: Floats, group: NDArray[np.uint8], shapes: Shapes) -> dict[tuple[int, Hashable], float]:
    """The sum of ``us`` [n] by group and shape."""
    found: defaultdict[tuple[int, Hashable], float] = defaultdict(float)
    for kernel in np.flatnonzero((shapes.index >= 0) & (us > 0)).tolist():
        found[int(group[kernel]), shapes.known[shapes.index[kernel]]] += float(us[kernel])
    return dict(found)


def _counting(line: RankTimeline, costs: Costs, times: Floats) -> Floats:
    """[n] what the main stream is busy with, and what of other streams it waits for."""
    program = line.timeline.program
    on_main = program.stream == program.main_stream
    us: Floats = np.where(on_main, costs.duration_us, line.timeline.exposed_us) * times
    return us


def _waits(line: RankTimeline, times: Floats) -> tuple[float, float, float]:
    """(for gradients, for all collectives, for copies)"""
    timeline = line.timeline
    kind, us = timeline.program.kind, timeline.exposed_us * times
    late = (kind == COLLECTIVE) & (np.arange(len(timeline.program)) > micro_end(timeline.program))
    return (
        float(us[late].sum()),
        float(us[kind == COLLECTIVE].sum()),
        float(us[(kind == TO_HOST) | (kind == TO_DEVICE)].sum()),
    )


def _beside(line: RankTimeline, times: Floats) -> float:
    """What of exchanges in groups no kernel waits for. A message ends when its other side comes, however long that
    is."""
    timeline = line.timeline
    program = timeline.program
    groups = (program.kind == COLLECTIVE) & (program.stream != program.main_stream)
    groups &= np.array([not is_between_stages(name) for name in program.names], dtype=np.bool_)
    us = (timeline.end_us - timeline.start_us - timeline.exposed_us) * times
    return float(np.maximum(us[groups], 0.0).sum())
