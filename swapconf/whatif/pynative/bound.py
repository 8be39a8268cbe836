"""LAYOUT + PARTS -> CHANGES in which no block dies earlier than it might, for a peak that the true run does not exceed.

Operators run in the order of the code, so what a trace without recompute and swap does not tell is only how long Python
holds what autograd no longer does, which operator saved a block, and where a run that stops early stops. At worst:

- What was made in a recomputed part is held until the forward pass of its layer ends, and what is used behind the part
  was saved there, too, and stays.
- The part runs again as soon as its gradient comes, to its end, and holds what it reads until its backward pass is
  through. What runs again is the same code, so what autograd did not save dies as it did the first time.
- Swapped blocks leave when one layer more has ended, and come back one layer earlier; what another layer uses stays,
  and what gets no gradient stays once it is back.
- The gradients that come to a swapped layer, and to the one that says when it comes back, are held until the backward
  pass ends.
- Scalars stay: what hands on an auxiliary loss saves it past autograd's hooks.
- What is recomputed or swapped is a cell in another, and whoever goes through all cells finds both: state that each
  step makes anew for the next, as counts of tokens, is there twice.
"""

from __future__ import annotations

from itertools import pairwise

from swapconf.trace.lifetimes import NEVER, TICKS, Category
from swapconf.trace.marks import NO_LAYER
from swapconf.whatif.pynative.changes import Again, Changes, Move, Replay
from swapconf.whatif.pynative.intervals import Interval, Step
from swapconf.whatif.pynative.layout import Layout
from swapconf.whatif.pynative.recompute import Kept, gather_again, hold_inputs, hold_unread
from swapconf.whatif.pynative.swap import move_gathered, moved_rows

_SCALAR_BYTES = 512  # the smallest block


def recompute_at_worst(layout: Layout, changes: Changes, step: Step, part: Interval) -> None:
    if part.turn is None or part.through is None:
        return
    layer = step.layer(part.layer)
    until, through = (part if layer is None else layer).end * TICKS, part.through * TICKS
    replay, kept = Replay(part.start, part.turn), Kept(layout, step, part)
    for row in layout.born(part.start, part.end):
        if layout.is_whole_parameter(row, step):
            continue
        gone = _ticks(layout, row)
        if layout.is_saved(row, step) and _may_go(layout, row, step, part):
            changes.shorten(row, until)
        if layout.end[row] < step.backward:
            gone = replay.at(min(int(layout.end[row]), part.end))
        else:
            gone = kept.until(row, gone)
        changes.again.append(Again(row, replay.at(int(layout.start[row])), gone, Category.RECOMPUTED, part.layer))
    kept.hold_inputs(changes, part)
    gather_again(layout, changes, step, part, replay)
    hold_inputs(layout, changes, step, part, through)
    hold_unread(layout, changes, step, part, through)


def swap_at_worst(layout: Layout, changes: Changes, step: Step, part: Interval, target: Interval) -> None:
    later = step.layer(target.layer + 1)
    leaves, returns = (step.backward, step.backward) if later is None else (later.end, later.turn)
    if target.turn is None or part.turn is None or returns is None:
        return
    for row in moved_rows(layout, step, part):
        if _may_go(layout, row, step, part):
            move = Move(row, part.layer, leaves * TICKS + 1, returns * TICKS + 1)
            stays = layout.gets_no_gradient(row, part.turn, step.end)
            changes.move(move, NEVER if stays else int(layout.end[row]))
    move_gathered(layout, changes, step, part, leaves * TICKS + 1, returns * TICKS + 1)
    for turn in (part.turn, target.turn):
        for row in layout.born(step.backward, turn):
            if turn < layout.end[row] <= step.end:
                changes.lengthen(row, step.end * TICKS)


def state_twice(layout: Layout, changes: Changes, steps: tuple[Step, ...]) -> None:
    for step, following in pairwise(steps):
        for row in layout.born(step.end, following.start):
            if following.end < layout.end[row] < NEVER:
                start = int(layout.start[row]) * TICKS
                changes.again.append(Again(row, start, _ticks(layout, row), Category.TEMPORARY, NO_LAYER))


def _ticks(layout: Layout, row: int) -> int:
    """The release of a block."""
    end = int(layout.end[row])
    return end if end == NEVER else end * TICKS


def _may_go(layout: Layout, row: int, step: Step, part: Interval) -> bool:
    return layout.size_bytes[row] > _SCALAR_BYTES and not layout.is_used(row, part.end, step.backward)
