"""STEP + COSTS -> TIME: how long a step takes under any strategy, from the costs of one without swap and recompute.

What a strategy is asked for again and again, as in a sweep, is the schedule; the table of costs stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.cost import Costs, Known, Machine, StepTime
from swapconf.timing.timeline import replay
from swapconf.timing.timing import COLLECTIVE, TO_DEVICE, TO_HOST, Timeline
from swapconf.trace.columns import Ints
from swapconf.trace.trace import Trace
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.baseline_step import Step, step_of, table
from swapconf.whatif.predict import LaunchPlan
from swapconf.whatif.predicted_program import predicted_program
from swapconf.whatif.prediction import Moves
from swapconf.whatif.sweep import LayerCopies, PointTime

COPIES = (TO_HOST, TO_DEVICE)


@dataclass(frozen=True, kw_only=True)
class Clock:
    """``costs``: a row for each row of `baseline_step.table`."""

    step: Step
    costs: Costs


@dataclass(frozen=True, kw_only=True)
class TimedStep:
    """``costs``: of each kernel of the timeline; ``row``: int64 [n], the kernel of the step without a strategy that it
    is or repeats, where that is below the number of those; ``move``: int64 [n], which of the Moves a copy belongs to,
    else -1."""

    timeline: Timeline
    costs: Costs
    row: Ints
    move: Ints


def clock(trace: Trace, baseline: Baseline, machine: Machine) -> Clock:
    """Once per trace and machine. Raises ValueError where the trace has no graph."""
    step = step_of(trace, baseline)
    return Clock(step=step, costs=table(step, machine.hardware, machine.host, machine.measured))


def baseline_time(clock: Clock) -> TimedStep:
    """The step as the trace has it."""
    count = len(clock.step.program)
    costs = clock.costs.of(np.arange(count))
    return TimedStep(
        timeline=replay(clock.step.program, costs.duration_us),
        costs=costs,
        row=np.arange(count),
        move=np.full(count, -1, dtype=np.int64),
    )


def time(clock: Clock, schedule: LaunchPlan, moves: Moves) -> TimedStep:
    """``moves``: those of the same schedule."""
    found = predicted_program(clock.step, schedule, moves)
    costs = clock.costs.of(found.row)
    return TimedStep(timeline=replay(found.program, costs.duration_us), costs=costs, row=found.row, move=found.move)


def step_time(timed: TimedStep) -> StepTime:
    """What the main stream waits for is a difference: it is least where all else is slow and what it waits for fast."""
    kind = timed.timeline.program.kind

    def exposed(*kinds: int) -> Known:
        mine = np.isin(kind, kinds)
        low_us, high_us = (_exposed_us(timed, mine, side) for side in (0, 1))
        us = float(timed.timeline.exposed_us[mine].sum())
        return Known(us=us, low_us=min(low_us, us), high_us=max(high_us, us), share=timed.costs.of(mine).shares())

    return StepTime(
        step=timed.costs.known(timed.timeline.step_us),
        exposed_copy=exposed(*COPIES),
        exposed_collective=exposed(COLLECTIVE),
    )


def _exposed_us(timed: TimedStep, mine: NDArray[np.bool_], side: int) -> float:
    """``side``: 0 where they are at their fastest and all others at their slowest, 1 the other way round."""
    if not mine.any():
        return 0.0
    lasting = np.where(mine, timed.costs.at(side), timed.costs.at(1 - side))
    return float(replay(timed.timeline.program, lasting).exposed_us[mine].sum())


def point_time(timed: TimedStep, moves: Moves) -> PointTime:
    """A layer is late where one of its copies, either way, lets the main stream stand still."""
    copies = np.flatnonzero(timed.move >= 0)
    late_us = np.bincount(
        moves.site[timed.move[copies]], weights=timed.timeline.exposed_us[copies], minlength=len(moves.sites)
    )
    out = timed.move[(timed.timeline.program.kind == TO_HOST) & (timed.move >= 0)]
    twice = np.bincount(moves.site[out], weights=(moves.size_bytes * moves.twice)[out], minlength=len(moves.sites))
    layers: dict[str, tuple[float, int]] = {}
    for site in np.unique(moves.site[out]).tolist():
        late, held = layers.get(moves.sites[site][0], (0.0, 0))
        layers[moves.sites[site][0]] = late + float(late_us[site]), held + int(twice[site])
    return PointTime(
        step_us=timed.timeline.step_us,
        exposed_copy_us=float(timed.timeline.exposed_us[copies].sum()),
        layers=tuple(
            LayerCopies(layer=layer, late_us=late, twice_bytes=held)
            for layer, (late, held) in sorted(layers.items(), key=lambda item: _layer_order(item[0]))
        ),
    )


def _layer_order(name: str) -> tuple[bool, int, str]:
    """Decoder layers by number, then those of multi-token prediction."""
    return not name.isdecimal(), int(name) if name.isdecimal() else len(name), name
