"""LAYOUT + LAYER -> CHANGES of a layer that is swapped.

Its saved blocks leave when the forward pass of the layer that is ``prefetch`` further ends, and come back when its
backward pass begins. Source: hyper_parallel of 2026, core/activation_checkpoint/swap.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swapconf.trace.lifetimes import NEVER, TICKS, Category
from swapconf.whatif.pynative.changes import Again, Changes, Move
from swapconf.whatif.pynative.intervals import Interval, Step
from swapconf.whatif.pynative.layout import Layout


def swap(layout: Layout, changes: Changes, step: Step, part: Interval, target: Interval) -> None:
    """``part``: the layer, or a module in it, whose saved blocks move. ``target``: the layer that says when."""
    if target.turn is None or part.turn is None:
        return
    leaves, returns = target.end * TICKS + 1, target.turn * TICKS + 1
    for row in moved_rows(layout, step, part):
        changes.move(Move(row, part.layer, leaves, returns), end_of_moved(layout, row, step, part))
    move_gathered(layout, changes, step, part, leaves, returns)
    for cell in (step.layer(part.layer), target):
        if cell is not None and cell.turn is not None:
            hold_gradient(layout, changes, step, cell)


def is_given_to_all(layout: Layout, row: int, step: Step) -> bool:
    """Whether it is there before the layers, and several of them read it: hidden states are read by the first alone."""
    whole = [one for one in step.passes if not one.module]
    if layout.start[row] > min((one.start for one in whole), default=step.backward):
        return False
    return sum(layout.is_used(row, one.start, one.end) for one in whole) != 1


def move_gathered(layout: Layout, changes: Changes, step: Step, part: Interval, leaves: int, returns: int) -> None:
    """Views of gathered parameters go, too. Their unit gives them back before the swap does, and takes for the backward
    pass what the swap has brought back."""
    for birth in layout.gathers.viewed(part.start, part.end):
        row = layout.row(birth)
        if row is None:
            continue
        move = Move(row, part.layer, leaves, returns)
        if layout.is_whole_parameter(row, step):
            changes.move(move, int(layout.end[row]))
            continue
        changes.moves.append(move)
        _gathered_between(layout, changes, step, part, move)
        later = layout.gathers.once_more(birth, step.backward, step.end)
        if later is not None and returns < later * TICKS and (again := layout.row(later)) is not None:
            changes.again.append(Again(again, returns, later * TICKS, Category.SWAP, part.layer))


def _gathered_between(layout: Layout, changes: Changes, step: Step, part: Interval, move: Move) -> None:
    """A unit whose parameters the forward pass gathers once more, as that of the embedding does for multi-token
    prediction, does so in the tensor whose storage the swap takes. If that is away by then, what was gathered is lost
    when the swap brings its own back; if it goes later, what was gathered goes with it. What comes back is held for the
    backward pass as what was gathered would have been."""
    between = layout.gathers.once_more(int(layout.start[move.row]), part.end, step.backward)
    row = None if between is None else layout.row(between)
    if row is None:
        return
    if layout.is_saved(row, step):
        changes.again.append(Again(row, move.returns, int(layout.end[row]) * TICKS, Category.SWAP, part.layer))
    if move.leaves < layout.start[row] * TICKS:
        changes.lost.append(row)
    else:
        changes.shorten(row, move.leaves)


def hold_gradient(layout: Layout, changes: Changes, step: Step, cell: Interval) -> None:
    """The gradient that comes to a cell of the chain is handed to its hooks. They hold it until the cell is through, or
    until the backward pass is, where nobody tells them."""
    assert cell.turn is not None
    assert cell.through is not None
    until = cell.through if cell.layer in step.ended else step.end
    for row in reversed(layout.born(step.backward, cell.turn)):
        if layout.end[row] > cell.turn and layout.is_used(row, cell.turn, cell.through):
            if layout.end[row] <= until:
                changes.lengthen(row, until * TICKS)
            return


def end_of_moved(layout: Layout, row: int, step: Step, part: Interval) -> int:
    """What was saved for an operator that gets no gradient is never asked for. MindSpore 2.10.0 keeps what hooks handed
    over for it where the operator saved its own output, as a top-k does its indices: it comes back and stays. Where the
    forward pass lets go of the operator, as of the top-k of which an auxiliary loss counts the load, the swap alone has
    it, up to the end of the layer's backward pass; but where tokens are sent to experts, the graph of that keeps it."""
    assert part.turn is not None
    assert part.through is not None
    if not layout.is_saved(row, step) and not layout.dispatches.has(int(layout.start[row]), part):
        return part.through
    return NEVER if layout.is_never_let_go(row, part.turn, step.end) else int(layout.end[row])


def moved_rows(layout: Layout, step: Step, part: Interval) -> Iterator[int]:
    own, until = part.turn, part.through
    assert own is not None
    assert until is not None
    yield from (row for row in layout.born(step.start, part.end) if _is_moved(layout, row, step, part))
    first, last = np.searchsorted(layout.views[:, 0], [part.start, part.end]).tolist()
    for birth in np.unique(layout.views[first:last, 1]).tolist():
        viewed = layout.row(birth) if birth < layout.first_step else None
        if viewed is None or birth in layout.gathers.parameters:  # that is only copied, as shards are
            continue
        if layout.is_used(viewed, own, until):  # a view of a parameter is no parameter
            yield viewed


def _is_moved(layout: Layout, row: int, step: Step, part: Interval) -> bool:
    assert part.turn is not None
    assert part.through is not None
    birth = int(layout.start[row])
    if birth in layout.masks or layout.is_whole_parameter(row, step):  # parameters never move
        return False
    if not layout.is_saved(row, step):
        is_kept = layout.dispatches.has(birth, part) or (birth > part.start and layout.is_saved_by_its_own(birth))
        return is_kept and layout.is_never_let_go(row, part.turn, step.end)
    if birth > part.start:
        is_own = not layout.is_used(row, part.end, step.backward) or layout.is_used(row, part.turn, part.through)
        return is_own or birth in layout.sent  # what communicates saves what it makes
    return (
        layout.is_used(row, part.start, part.end)
        and layout.is_used(row, part.turn, part.through)
        and not (layout.rules.keeps_inputs and is_given_to_all(layout, row, step))  # last, as it asks all layers
    )
