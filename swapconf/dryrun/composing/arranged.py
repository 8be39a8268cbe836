"""PASSES + another number of micro-batches, in all and in flight -> ARRANGED: the step with those, place by place.

The passes stand in the order of 1F1B. Each is one of the run (`repeated.py`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swapconf.dryrun.composing.passes import NONE, Passes, launches_alike, order, round_of
from swapconf.dryrun.composing.repeated import LAST, repeated
from swapconf.dryrun.growing.steps import Steps
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.trace import without_number
from swapconf.upstream.primitives import MOVE

_WEIGHT = "Weight"  # the kind of a block
_CUT = re.compile(r"(?<=/)(\d+)(?=-_MicroBatch/)")  # of the list of cells that cut the batch of a step


def cut_of(name: str) -> int:
    """Of a launch that cuts a micro-batch out of the batch of the step: which one; NONE of any other."""
    found = _CUT.search(name)
    return int(found[1]) if found else NONE


def with_cut(name: str, micro_batch: int) -> str:
    """The name of the same launch for another micro-batch."""
    return _CUT.sub(str(micro_batch), name, count=1) if micro_batch >= 0 else name


@dataclass(frozen=True, kw_only=True)
class Arranged:
    """The step of another number of micro-batches.

    Attributes:
        passes: Of the run.
        chosen: [new passes] which of those each is; they are in the order of 1F1B.
        source: [new places] the place of the run that each is made from.
        number: [new places] the new pass, NONE in head and tail.
        at_once: [places] the micro-batch that is cut out of the batch there, with all others one after another; NONE
            elsewhere.
        cut: [new places] the micro-batch that is cut out of the batch there, at once or before its own pass; NONE
            elsewhere.
    """

    steps: Steps
    passes: Passes
    in_flight: int
    micro_batches: int
    chosen: Sequence[int]
    source: Ints
    number: Ints
    at_once: Sequence[int]
    cut: Ints

    @cached_property
    def round(self) -> Ints:
        """[new places] that of the pass that each is of, NONE in head and tail."""
        apart = self.passes.round - self.passes.rounds[self.passes.number]
        return np.where(self.number >= 0, self.rounds[self.number] + apart[self.source], NONE)

    @cached_property
    def rounds(self) -> Ints:
        """[new passes]"""
        return np.array([round_of(side, number, self.in_flight) for side, number in self.order])

    @cached_property
    def is_backward(self) -> Flags:
        """[places] whether each is of a backward pass."""
        sides = np.array([one.is_backward for one in self.passes.rows])
        return np.asarray(sides[self.passes.owner] & (self.passes.owner >= 0))

    @cached_property
    def order(self) -> list[tuple[bool, int]]:
        """[new passes] whether it goes backward, and its micro-batch."""
        return order(self.in_flight, self.micro_batches)

    @cached_property
    def copy(self) -> Ints:
        """[new places] how often the place that it is made from is there before."""
        seen: defaultdict[int, int] = defaultdict(int)
        found = []
        for source in self.source.tolist():
            found.append(seen[source])
            seen[source] += 1
        return np.array(found, dtype=np.int64)


def arranged(steps: Steps, passes: Passes, in_flight: int, micro_batches: int, last_pairs: int = LAST) -> Arranged:
    """``last_pairs``: see `repeated`. Raises CannotCompose where the run has too few passes to repeat."""
    chosen = repeated(passes.in_flight, passes.micro_batches, in_flight, micro_batches, last_pairs)
    cuts = _at_once(steps, passes)
    last = {cut_key(kernel.name): place for place, kernel in enumerate(steps.kernels) if cuts[place] != NONE}
    source, number, cut = [], [], []
    once = _once(steps, passes)
    parts: list[tuple[int, Sequence[int]]] = [(NONE, range(passes.rows[0].start))]
    for new, old in enumerate(chosen):
        own = range(passes.rows[old].start, passes.rows[old].stop)
        is_there = new == len(chosen) - 2
        kept = [place for place in own if is_there or place not in once]
        parts.append((new, [*kept, *(place for place in once if is_there and place not in own)]))
    parts.append((NONE, range(passes.rows[-1].stop, steps.length)))
    for new, places in parts:
        for place in places:
            turns = [cuts[place]] if cuts[place] < micro_batches else []
            if last.get(cut_key(steps.kernels[place].name)) == place:
                turns += range(passes.micro_batches, micro_batches)
            source += [place] * len(turns)
            number += [new] * len(turns)
            cut += turns
    return Arranged(
        steps=steps,
        passes=passes,
        in_flight=in_flight,
        micro_batches=micro_batches,
        chosen=chosen,
        source=np.array(source, dtype=np.int64),
        number=np.array(number, dtype=np.int64),
        at_once=cuts,
        cut=np.array(cut, dtype=np.int64),
    )


def _once(steps: Steps, passes: Passes) -> list[int]:
    """What is launched in front of the last pass and of no other, as a sum of something of all micro-batches is."""
    before = passes.rows[-2]
    alone = {places[0] for places in launches_alike(steps).values() if len(places) == 1}
    return [place for place in range(before.ends, before.stop) if place in alone]


def _at_once(steps: Steps, passes: Passes) -> list[int]:
    """See `Arranged.at_once`."""
    cuts = [cut_of(kernel.name) for kernel in steps.kernels]
    count = Counter(cut_key(kernel.name) for kernel in steps.kernels)  # one for all has the name of a micro-batch, too
    together = {
        cut_key(kernel.name)
        for kernel, cut, at in zip(steps.kernels, cuts, passes.round.tolist(), strict=True)
        if cut > 0 and cut != at and count[cut_key(kernel.name)] > 1
    }
    return [cut if cut_key(kernel.name) in together else NONE for kernel, cut in zip(steps.kernels, cuts, strict=True)]


def cut_key(name: str) -> str:
    """The same for all micro-batches, one for each input."""
    return with_cut(name, 0)


def place_keys(steps: Steps) -> list[Hashable]:
    """[places] what makes launches of two passes alike. Events are so before like launches; copies of parameters, whose
    order differs from pass to pass, are of the same one."""
    found: list[Hashable] = []
    behind: tuple[str, str] = "", ""
    apart = 0
    for place, (kernel, form) in reversed([*enumerate(zip(steps.kernels, steps.forms, strict=True))]):
        if kernel.is_event:
            apart += 1
        else:
            behind, apart = (without_number(cut_key(kernel.name)), copied_parameter(steps, place)), 0
        found.append((behind, apart, form))
    return found[::-1]


def copied_parameter(steps: Steps, place: int) -> str:
    """Of a launch that copies a parameter, which one; "" of any other."""
    task = int(steps.task_at[place])
    if steps.kernels[place].primitive != MOVE or task < 0:
        return ""
    blocks = steps.trace.blocks
    for row in np.searchsorted(blocks.start, np.array(steps.trace.tasks[task].inputs, dtype=np.int64)).tolist():
        if blocks.is_persistent[row] and blocks.kinds[blocks.kind[row]] == _WEIGHT:
            return str(blocks.nodes[blocks.node[row]])
    return ""
