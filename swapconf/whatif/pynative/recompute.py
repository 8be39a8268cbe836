"""LAYOUT + PART -> CHANGES of a layer or module that is recomputed.

It keeps nothing of what autograd saved in it: such a block dies behind its last forward user, unless something behind
the part saved it, too. When the backward pass asks for the first of them, the part runs once more, up to the operator
that saves the last, and what was saved lives from then to its death in the backward pass. What the part reads is held
until it has let go of all. Source: MindSpore 2.10.0, common/recompute.py, ``use_reentrant=False``.
"""

from __future__ import annotations

from dataclasses import dataclass

from swapconf.trace.lifetimes import TICKS, Category
from swapconf.whatif.pynative.changes import Again, Changes, Replay
from swapconf.whatif.pynative.intervals import Interval, Step
from swapconf.whatif.pynative.layout import Layout

_ATTENTION = "attention"  # who is handed mask and angles. Source: mindformers 2.0.0, transformers/transformer_layer.py
_OUTPUT = 2  # an operator's outputs get memory behind it in the tracker's order


@dataclass(frozen=True, slots=True)
class Run:
    """What runs once more. ``packed``: rows of the blocks made and saved in it. ``turn``: the task before which it
    runs, ``stop``: the last of it that does, both events; ``through``: where the last that it saved is let go, in
    ticks."""

    packed: frozenset[int]
    turn: int
    stop: int
    through: int


def recompute(layout: Layout, changes: Changes, step: Step, part: Interval) -> None:
    run = run_again(layout, step, part)
    if run is None or part.turn is None:
        return
    replay = Replay(part.start, run.turn)
    for row in layout.born(part.start, part.end):
        start, end = int(layout.start[row]), int(layout.end[row])
        if layout.is_whole_parameter(row, step):
            continue
        if row in run.packed:
            changes.shorten(row, layout.behind(max(start, layout.last_user(row, part.turn))))
            changes.again.append(Again(row, replay.at(start), end * TICKS, Category.RECOMPUTED, part.layer))
        elif start <= run.stop + _OUTPUT:
            gone = replay.at(min(end, run.stop + _OUTPUT + 1))
            changes.again.append(Again(row, replay.at(start), gone, Category.RECOMPUTED, part.layer))
    hold_inputs(layout, changes, step, part, run.through)
    if not part.module or _ATTENTION in part.module.rpartition(".")[2]:
        hold_unread(layout, changes, step, run.through)
    kernels = layout.num_kernels(part.start, run.stop)
    changes.kernels[part.layer] = changes.kernels.get(part.layer, 0) + kernels


def hold_inputs(layout: Layout, changes: Changes, step: Step, part: Interval, until: int) -> None:
    """What a part reads is held by what it saved. ``until``: the release of the last of it, in ticks."""
    for row in layout.touched(part):
        if step.start <= layout.start[row] < part.start < layout.end[row] < until // TICKS:
            changes.lengthen(row, until)


def hold_unread(layout: Layout, changes: Changes, step: Step, until: int) -> None:
    """What is handed to every layer and read by none, as a mask that the operator does not ask for: Python holds it
    while the layers run, and so does what would run again with it."""
    first, last = min(one.start for one in step.passes), max(one.end for one in step.passes)
    for row in layout.born(step.start, first):
        if last <= layout.end[row] < until // TICKS and not layout.is_used(row, first, step.end):
            changes.lengthen(row, until)


def run_again(layout: Layout, step: Step, part: Interval) -> Run | None:
    """None where the backward pass asks for nothing."""
    if part.turn is None or part.through is None:
        return None
    asked = {
        row: event
        for row in layout.touched(part)
        if (event := layout.first_user(row, part.turn, part.through)) is not None
    }
    if not asked:
        return None
    turn = min(asked.values())
    first = [row for row, event in asked.items() if event == turn]
    packed = frozenset(
        row
        for row in layout.born(part.start, part.end)
        if layout.is_saved(row, step) and is_packed(layout, row, step, part)
    )
    return Run(
        packed=packed,
        turn=layout.before(turn),
        stop=max(max(layout.last_user(row, part.end), int(layout.start[row])) for row in first),
        through=max(
            *(int(layout.end[row]) * TICKS for row in packed),
            *(layout.behind(layout.last_user(row, part.through)) for row in asked),
            0,
        ),
    )


def is_packed(layout: Layout, row: int, step: Step, part: Interval) -> bool:
    """Whether something in the part saved a block that was made in it. What the backward pass never reads counts where
    nobody else could have saved it."""
    assert part.turn is not None
    return layout.is_used(row, part.turn, step.end) or not layout.is_used(row, part.end, part.turn)
