"""ARRANGED + LAUNCH GRAPH of the run -> ORDERED: the step in the order in which MindSpore would launch it.

Which of two launches that do not depend on each other comes first, MindSpore's rules decide from the end of the graph
on (`trace/launch_order.py`): the slices of the batch, and the copies of small weights, come in another order with other
micro-batches. They are played on the graph of the new step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.dryrun.composing.arranged import Arranged
from swapconf.dryrun.composing.counterparts import Counterparts
from swapconf.dryrun.composing.graph import StepGraph, as_printed
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.growing.layers import Operators
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.launch_order import launched
from swapconf.trace.trace import Kernel
from swapconf.words.phrases import phrase


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
    """Raises CannotCompose where MindSpore would launch it in an order that it cannot be brought into: events keep
    their places, as which launches wait for which stream is not known of another order."""
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
    """[new places] the launch that stands there in ``order``. Raises CannotCompose."""
    kernels = made.steps.kernels
    turns: list[int] = []
    stretch: list[int] = []
    launch = 0
    for place, source in enumerate([*made.source.tolist(), NONE]):
        if source != NONE and not kernels[source].is_event:
            stretch.append(place)
            continue
        there = order[launch : launch + len(stretch)]
        if {*there} != {*stretch}:
            raise CannotCompose(
                phrase(
                    "MindSpore would launch the repeated graph in another order (launch {launch})", launch=launch + 1
                )
            )
        turns += [*there, place] if source != NONE else there
        launch, stretch = launch + len(stretch), []
    return turns
