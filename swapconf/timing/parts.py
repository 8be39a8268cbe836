"""JOINT TIMELINE + COSTS -> PARTS: what a step is made of, so that the step of another layout can be held against it.

Kernels of one group are fast or slow together on a card, whatever the layout (`Costs`), so what two layouts have of a
group alike is in neither's favour. Gradients are added up over the cards behind the last backward pass; this model lets
nothing run beside that, and real steps hide a part of it: in public model cards 45 % and 70 % (the two fits of
docs/evidence/model-cards.md). That share, too, is the same for all layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swapconf.timing.cost import Costs
from swapconf.timing.costing import COMMON_GROUPS
from swapconf.timing.schedule import micro_end
from swapconf.timing.timing import COLLECTIVE, Floats, JointTimeline, KernelKind, RankTimeline

HIDDEN_MOST = 0.7  # of the time for adding up gradients
OWN, GRADIENTS = "own", "gradients"  # what a difference may be in doubt by, beside the common groups of kernels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepParts:
    """One step.

    Attributes:
        of_group_us: [groups] by group of kernels, of the rank that computes longest; in sum the step, as waiting for
            other ranks takes as long as what they compute.
        spread: By group, what kernels take over what is told of them.
        gradients_us: What the main stream waits until gradients are added up, the most of all ranks.
        collectives_us, copies_us, bubble_us: The same for all that is exchanged, for copies, and for other ranks.
    """

    step_us: float
    of_group_us: Floats
    spread: tuple[tuple[float, float], ...]
    gradients_us: float
    collectives_us: float
    copies_us: float
    bubble_us: float

    @property
    def range_us(self) -> tuple[float, float]:
        """Of the step."""
        low, high = range_of(self.of_group_us, self.spread, self.gradients_us)
        return self.step_us + low, self.step_us + high


def difference_us(one: StepParts, other: StepParts) -> tuple[float, float, float]:
    """By how much the step of ``other`` is longer, and the range of that: what both have alike cancels out."""
    more = other.of_group_us - one.of_group_us
    low, high = range_of(more, one.spread, other.gradients_us - one.gradients_us)
    between = other.step_us - one.step_us
    return between, between + low, between + high


def doubts_us(one: StepParts, other: StepParts) -> dict[str, float]:
    """How wide the range of their difference is by each thing that is not known of it: a group of kernels by its name,
    OWN for those of a hardware file of one's own, and GRADIENTS."""
    fast, slow = np.array(one.spread).T
    wide = np.abs(other.of_group_us - one.of_group_us) * (slow - fast)
    names = [*COMMON_GROUPS[: len(wide)], *[OWN] * (len(wide) - len(COMMON_GROUPS))]
    found = dict.fromkeys((*names, GRADIENTS), 0.0)
    for name, us in zip(names, wide.tolist(), strict=True):
        found[name] += us
    found[GRADIENTS] = HIDDEN_MOST * abs(other.gradients_us - one.gradients_us)
    return found


def range_of(us: Floats, spread: Sequence[tuple[float, float]], gradients_us: float) -> tuple[float, float]:
    """How far a time may be below and above what it is made of, [groups]; some of a difference are below zero. Groups
    are fast or slow each by itself, so that their deviations add up as squares."""
    fast, slow = (np.array(spread)[:, side] - 1 for side in (0, 1))
    below, above = np.minimum(us * fast, us * slow), np.maximum(us * fast, us * slow)
    hidden = -HIDDEN_MOST * gradients_us
    return (
        -float(np.hypot(np.linalg.norm(below), min(hidden, 0.0))),
        float(np.hypot(np.linalg.norm(above), max(hidden, 0.0))),
    )


def parts(joint: JointTimeline, costs: Sequence[Costs], scales: Sequence[float], step_us: float) -> StepParts:
    """``costs``: by rank, of the kernels of its program. ``scales``: by rank, how many micro-batches a step has for
    each that the program has."""
    longest = max(range(len(costs)), key=lambda index: float(costs[index].duration_us.sum()))
    of_group_us = _of_group(joint.ranks[longest], costs[longest])
    waits = [_waits(line, scale) for line, scale in zip(joint.ranks, scales, strict=True)]
    gradients, collectives, copies = (max(item) for item in zip(*waits, strict=True))
    return StepParts(
        step_us=step_us,
        of_group_us=of_group_us * (step_us / max(float(of_group_us.sum()), 1e-9)),
        spread=costs[longest].spread,
        gradients_us=gradients,
        collectives_us=collectives,
        copies_us=copies,
        bubble_us=max(line.bubble_us for line in joint.ranks),
    )


def _of_group(line: RankTimeline, costs: Costs) -> Floats:
    """What the main stream is busy with, and what of other streams it waits for."""
    program = line.timeline.program
    us = np.where(program.stream == program.main_stream, costs.duration_us, line.timeline.exposed_us)
    return np.bincount(costs.group, weights=us, minlength=len(costs.spread)).astype(np.float64)


def _waits(line: RankTimeline, scale: float) -> tuple[float, float, float]:
    """(for gradients, for all collectives, for copies): gradients are added up once, the others go with
    micro-batches."""
    timeline = line.timeline
    late = (timeline.program.kind == COLLECTIVE) & (np.arange(len(timeline.program)) > micro_end(timeline.program))
    gradients = float(timeline.exposed_us[late].sum())
    others = timeline.exposed_of(KernelKind.COLLECTIVE) - gradients
    copies = timeline.exposed_of(KernelKind.TO_HOST) + timeline.exposed_of(KernelKind.TO_DEVICE)
    return gradients, gradients + others * scale, copies * scale
