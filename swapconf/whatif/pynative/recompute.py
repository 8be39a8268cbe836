"""LAYOUT + PART -> CHANGES of a layer or module that is recomputed.

It keeps nothing of what autograd saved in it: such a block dies behind its last forward user, unless something behind
the part saved it, too. When the backward pass asks for the first of them, the part runs once more, up to the operator
that saves the last, and what was saved lives from then to its death in the backward pass. What the part reads is held
until it has let go of all. Source: MindSpore 2.10.0, common/recompute.py, ``use_reentrant=False``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swapconf.trace.lifetimes import NEVER, TICKS, Category
from swapconf.whatif.pynative.changes import Again, Changes, Replay
from swapconf.whatif.pynative.intervals import Interval, Step
from swapconf.whatif.pynative.layout import Layout

_ATTENTION = "attention"  # who is handed mask and angles. Source: mindformers 2.0.0, transformers/transformer_layer.py
_CORE = "core_attention"
_NAMED = ("input_layernorm", "self_attention", "pre_mlp_layernorm", "mlp")
_INNER = "transformer_layer"  # what layers of multi-token prediction have inside
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
    replay, kept, scopes = Replay(part.start, run.turn), Kept(layout, step, part), Scopes(layout, step, part)
    for row in layout.born(part.start, part.end):
        start, end = int(layout.start[row]), int(layout.end[row])
        if layout.is_whole_parameter(row, step):
            continue
        if row in run.packed:
            gone = layout.behind(scopes.end(row, max(start, layout.last_user(row, part.turn))))
            changes.shorten(row, max(gone, kept.first_end(row, part, replay)) if kept.has_told(row) else gone)
            until = kept.until(row, end * TICKS)
            changes.again.append(Again(row, replay.at(start), until, Category.RECOMPUTED, part.layer))
        elif kept.is_made_anew(row):
            changes.shorten(row, kept.first_end(row, part, replay))
            changes.again.append(Again(row, replay.at(start), kept.ticks, Category.RECOMPUTED, part.layer))
        elif start <= run.stop + _OUTPUT:
            gone = replay.at(min(end, run.stop + _OUTPUT + 1))
            changes.again.append(Again(row, replay.at(start), gone, Category.RECOMPUTED, part.layer))
    kept.hold_inputs(changes, part)
    gather_again(layout, changes, step, part, replay)
    hold_inputs(layout, changes, step, part, run.through)
    if not part.module or _ATTENTION in part.module.rpartition(".")[2]:
        hold_unread(layout, changes, step, part, run.through)
    kernels = layout.num_kernels(part.start, run.stop)
    changes.kernels[part.layer] = changes.kernels.get(part.layer, 0) + kernels


def gather_again(layout: Layout, changes: Changes, step: Step, part: Interval, replay: Replay) -> None:
    """Parameters of units in a part are whole from when it runs again on, where they would have been gathered for their
    backward pass only later."""
    for row in layout.touched(part):
        birth = int(layout.start[row])
        if birth not in layout.gathers.births or layout.is_whole_parameter(row, step):
            continue
        later = layout.gathers.once_more(birth, step.backward, step.end)
        first = layout.first_user(row, part.start, part.end)
        if later is None or first is None or later <= replay.turn or (again := layout.row(later)) is None:
            continue
        changes.again.append(Again(again, replay.at(first), later * TICKS, Category.COMMUNICATION, part.layer))


class Scopes:
    """Python's names for what a part makes, which hold it when nothing saves it any more.

    Those of attention's core go when it is through, not with the last reader: queries, keys, values, the maxima of its
    softmax, and its output while the heads are merged; but the sums of the softmax at once, and where ranks share the
    sequence, whose exchange stands around it, the maxima, too. What a layer's norms, attention and experts give has a
    name of its own up to the end of the layer. Sources: mindformers 2.1.0, pynative/layers/flash_attention.py and
    pynative/transformers/transformer_layer.py, ``construct``."""

    def __init__(self, layout: Layout, step: Step, part: Interval) -> None:
        inside = [one for one in step.passes if one.layer == part.layer and part.start <= one.start < part.end]
        ends = {one.module: one.end for one in step.passes if one.layer == part.layer}
        self._layout = layout
        self._cores = [one for one in inside if one.module.rpartition(".")[2] == _CORE]
        self._named = [
            (one, ends[parent])
            for one in inside
            for parent, _, name in [one.module.rpartition(".")]
            if name in _NAMED and parent in ends
        ]

    def end(self, row: int, last: int) -> int:
        """The event behind which the forward pass lets go of a block whose last user there is ``last``."""
        born = int(self._layout.start[row])
        for one, end in self._named:
            if one.start < born <= one.end < last:
                return max(last, end)
        core = next((one for one in self._cores if one.start < born <= one.end), None)
        if core is None or born in self._layout.softmax_sums:
            return last
        if born in self._layout.softmax_maxima and self._layout.first_exchange(born, core.end) is not None:
            return last
        return max(last, core.end)


class Kept:
    """What the dispatch of tokens in a part keeps of it when it has run again. ``ticks``: until then."""

    def __init__(self, layout: Layout, step: Step, part: Interval) -> None:
        self._layout, self._step = layout, step
        self._dispatch = layout.dispatches.of(part)
        self._held = layout.dispatches.held(part)
        until = layout.dispatches.until(part)
        self.ticks = NEVER if until == NEVER else until * TICKS
        following = layout.dispatches.turning(part, until)
        if following is not None and (sent := _sent_again(layout, *following)) is not None:
            self.ticks = sent

    def until(self, row: int, end: int) -> int:
        """The release of what was saved in the part, which would be at ``end``; both in ticks."""
        return max(end, self.ticks) if int(self._layout.start[row]) in self._held else end

    def has_told(self, row: int) -> bool:
        """Whether the dispatch keeps it to put back what comes home."""
        return self._dispatch is not None and int(self._layout.start[row]) in self._dispatch.told

    def is_made_anew(self, row: int) -> bool:
        """Whether it outlives the backward pass because the dispatch has it, or its graph."""
        return int(self._layout.start[row]) in self._held and int(self._layout.end[row]) > self._step.end

    def first_end(self, row: int, part: Interval, replay: Replay) -> int:
        """When that goes which the forward pass made, in ticks: with the next dispatch, which is the part's own when it
        runs again; what only the graph has, before."""
        assert self._dispatch is not None
        if int(self._layout.start[row]) in self._dispatch.told:
            return replay.at(self._dispatch.sent)
        return self._layout.behind(max(int(self._layout.start[row]), self._layout.last_user(row, part.end)))

    def hold_inputs(self, changes: Changes, part: Interval) -> None:
        """What the part was given, and its graph has saved."""
        for birth in self._held:
            row = self._layout.row(birth)
            if row is not None and self._step.start <= birth < part.start and birth not in self._layout.gathers.births:
                changes.lengthen(row, self.ticks)


def _sent_again(layout: Layout, step: Step, part: Interval) -> int | None:
    """When a part that runs again sends tokens, in ticks: not as it begins."""
    run, dispatch = run_again(layout, step, part), layout.dispatches.of(part)
    return None if run is None or dispatch is None else Replay(part.start, run.turn).at(dispatch.sent)


def hold_inputs(layout: Layout, changes: Changes, step: Step, part: Interval, until: int) -> None:
    """What a part reads is held by what it saved. ``until``: the release of the last of it, in ticks."""
    for row in layout.touched(part):
        if step.start <= layout.start[row] < part.start < layout.end[row] < until // TICKS:
            changes.lengthen(row, until)


def hold_unread(layout: Layout, changes: Changes, step: Step, part: Interval, until: int) -> None:
    """What is handed to every layer and read by none, as a mask that the operator does not ask for: Python holds it
    while the layers run, and so does what would run again with it."""
    first, last = min(one.start for one in step.passes), max(one.end for one in step.passes)
    used = (first, step.end)
    extra = {one.layer for one in step.passes if one.module == _INNER}
    if extra and layout.rules.keeps_inputs and part.layer not in extra:  # the decoder lets go of it before these run
        last = max(one.end for one in step.passes if one.layer not in extra)
        used = (part.start, part.end)
    for row in layout.born(step.start, first):
        is_read = layout.is_used(row, *used) or layout.is_used(row, step.backward, step.end)
        if last <= layout.end[row] < until // TICKS and not is_read:
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
    if any(int(layout.start[row]) in layout.sent for row in layout.born(part.start, part.end)):
        turn = min(turn, layout.first_exchange(part.turn, turn) or turn)  # which asks for what it saved, and reads none
    packed = frozenset(
        row
        for row in layout.born(part.start, part.end)
        if layout.is_saved(row, step) and is_packed(layout, row, step, part)
    )
    return Run(
        packed=packed,
        turn=layout.before(turn),
        stop=_stop(layout, part, first, packed),
        through=max(
            *(int(layout.end[row]) * TICKS for row in packed),
            *(layout.behind(layout.last_user(row, part.through)) for row in asked),
            0,
        ),
    )


def _stop(layout: Layout, part: Interval, first: Sequence[int], packed: frozenset[int]) -> int:
    """The event of the last task that runs again. ``first``: rows that the backward pass asks for first."""
    if layout.rules.runs_to_end and not part.module:
        return part.end
    asked = (max(layout.last_user(row, part.end), int(layout.start[row])) for row in first)
    sent = (birth for row in packed if (birth := int(layout.start[row])) in layout.sent)
    return max(*asked, *sent, 0)


def is_packed(layout: Layout, row: int, step: Step, part: Interval) -> bool:
    """Whether something in the part saved a block that was made in it. What the backward pass never reads counts where
    nobody else could have saved it, and where it communicates: such an operator saves what it made."""
    assert part.turn is not None
    return (
        layout.is_used(row, part.turn, step.end)
        or not layout.is_used(row, part.end, part.turn)
        or int(layout.start[row]) in layout.sent
    )
