"""ARRANGED + LAUNCH GRAPH of the run -> ORDERED: the step in the order in which MindSpore would launch it.

Which of two launches that do not depend on each other comes first, MindSpore's rules decide from the end of the graph
on (`trace/launch_order.py`): the slices of the batch, and the copies of small weights, come in another order with other
micro-batches. They are played on the graph of the new step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from swapconf.dryrun.composing.arranged import Arranged
from swapconf.dryrun.composing.counterparts import Counterparts
from swapconf.dryrun.composing.graph import StepGraph, as_printed
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.growing.layers import Operators
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.launch_order import launched
from swapconf.trace.lifetimes import MAIN_STREAM
from swapconf.trace.trace import Kernel
from swapconf.words.phrases import phrase

_SEND = "StreamSend"


@dataclass(frozen=True, kw_only=True, eq=False)
class Ordered:
    """``made``: the step. ``graph``: of it, with the names of the run; ``launches``: its nodes that are launched in the
    step, in that order."""

    made: Arranged
    graph: LaunchGraph
    launches: Sequence[int]

    def named(self, step: Sequence[Kernel]) -> LaunchGraph:
        """``step``: the kernels of the new step, events among them. No other node has the name of one of them."""
        ran = [kernel.name for kernel in step if not kernel.is_event]
        known = dict(zip(self.launches, ran, strict=False))  # what is launched behind the graph is in none
        others = Operators(set(ran))
        names = (known.get(node) or others.own(name) for node, name in enumerate(self.graph.name))
        return as_printed(replace(self.graph, name=tuple(names)))


def ordered(made: Arranged, graph: LaunchGraph) -> Ordered:
    """Raises CannotCompose where MindSpore would launch it in an order that it cannot be brought into."""
    try:
        step = StepGraph(graph, Counterparts(made))
        found = step.graph()
        launches = [node for node in launched(found) if step.place[node] != NONE]
    except ValueError as error:  # also CannotCompose
        raise (
            error
            if isinstance(error, CannotCompose)
            else CannotCompose(phrase("nodes of the repeated graph read from each other in a circle"))
        ) from error
    turns = np.array(_turns(made, _with_others(made, [step.place[node] for node in launches])), dtype=np.int64)
    again = replace(made, source=made.source[turns], number=made.number[turns], cut=made.cut[turns])
    return Ordered(made=again, graph=found, launches=launches)


def _with_others(made: Arranged, order: Sequence[int]) -> list[int]:
    """The places of all launches: behind those of the graph, in ``order``, those of others (`whatif.graph.behind`)."""
    kernels, known = made.steps.kernels, frozenset(order)
    places = (place for place, source in enumerate(made.source.tolist()) if not kernels[source].is_event)
    return [*order, *(place for place in places if place not in known)]


def _turns(made: Arranged, order: Sequence[int]) -> list[int]:
    """[new places] the launch that stands there in ``order``. Between two events launches change places; where one goes
    past an event, each event of the launches around goes with its own. Raises CannotCompose."""
    units, turns = _units(made), list[int]()
    natural = [*units]
    start = 0
    while start < len(natural):
        stop = _closed(natural, order, start)
        if stop - start == natural[stop - 1] - natural[start] + 1:
            turns += [*units[natural[start]].before, *order[start:stop], *units[natural[stop - 1]].behind]
        elif _passes_apart(made, natural[start:stop]) > 1:
            raise _in_another_order(start)
        else:
            turns += [place for one in order[start:stop] for place in (*units[one].before, one, *units[one].behind)]
        start = stop
    turns += range(len(turns), len(made.source))
    early = _early(made, turns)
    if len(early) > len(_early(made, range(len(turns)))):
        raise _in_another_order(early[0])
    return turns


def _passes_apart(made: Arranged, places: Sequence[int]) -> int:
    numbers = made.number[np.array(places)]
    return int(numbers.max() - numbers.min())


def _in_another_order(launch: int) -> CannotCompose:
    return CannotCompose(
        phrase("MindSpore would launch the repeated graph in another order (launch {launch})", launch=launch + 1)
    )


@dataclass(kw_only=True, slots=True)
class _Unit:
    """The events in front of a launch, which make streams wait for it and it for them, and those behind that tell other
    streams that it is done: places."""

    before: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)


def _units(made: Arranged) -> dict[int, _Unit]:
    """By place of a launch, in order."""
    kernels = made.steps.kernels
    units: dict[int, _Unit] = {}
    before: list[int] = []
    last = _Unit()
    stream = MAIN_STREAM
    for place, source in enumerate(made.source.tolist()):
        kernel = kernels[source]
        if not kernel.is_event:
            last = units[place] = _Unit(before=before)
            before, stream = [], kernel.stream
        elif kernel.primitive == _SEND and not before and kernel.stream == stream != MAIN_STREAM:
            last.behind.append(place)
        else:
            before.append(place)
    return units


def _closed(natural: Sequence[int], order: Sequence[int], start: int) -> int:
    """Up to where the same launches stand in both, as few as can be."""
    apart: set[int] = set()
    for stop in range(start, len(natural)):
        apart ^= {natural[stop]}
        apart ^= {order[stop]}
        if not apart:
            return stop + 1
    raise _in_another_order(start)


def _early(made: Arranged, turns: Sequence[int]) -> list[int]:
    """The launches and events of ``turns`` that wait for an event which is sent later."""
    sent: Counter[str] = Counter()
    found = []
    for turn, place in enumerate(turns):
        kernel = made.steps.kernels[int(made.source[place])]
        if kernel.is_event:
            sent[kernel.event] += 1 if kernel.primitive == _SEND else -1
            if sent[kernel.event] < 0:
                found.append(turn)
    return found
