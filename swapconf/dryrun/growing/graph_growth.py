"""LAUNCH GRAPHS of two runs with fewer layers -> LAUNCH GRAPH of the whole model, or the reason why there is none.

What the larger graph has more than the smaller one is repeated, by rules that make the larger one of the smaller one,
node for node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from swapconf.dryrun.growing.graph import grown_graph
from swapconf.dryrun.growing.graph_kernels import check, kernels_of, of_graph
from swapconf.dryrun.growing.graph_periods import Aligned, Kernels
from swapconf.dryrun.growing.graph_rules import Rules, learn
from swapconf.dryrun.growing.grown import unrolled_by
from swapconf.dryrun.growing.layers import Numbering
from swapconf.dryrun.growing.numbers import Labelled, Labels, numbered
from swapconf.dryrun.growing.periods import Period
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.settled import arranged
from swapconf.dryrun.growing.steps import Steps
from swapconf.dryrun.growing.unrolled import NONE, Unrolled
from swapconf.trace.fused_kernels import FusedKernel
from swapconf.trace.launch_graph import MAX_NODES, LaunchGraph
from swapconf.trace.launch_order import launched
from swapconf.trace.trace import Trace
from swapconf.words.phrases import phrase


@dataclass(frozen=True, kw_only=True, eq=False)
class Learnt:
    """How the graph of the run with more layers goes on.

    Attributes:
        steps, launches: Of that run; its step with all copies.
        nodes: Its nodes with all copies.
        labels: By new node.
    """

    aligned: Aligned
    rules: Rules
    steps: Steps
    launches: Unrolled
    nodes: Unrolled
    labels: Sequence[Labels]

    def graph(self, trace: Trace, numbering: Numbering) -> tuple[LaunchGraph, Trace]:
        """``trace``: of the whole model. Again with it, as copies of parameters come in the order that MindSpore
        decides on in the graph. Raises CannotGrow where it would launch something else."""
        kernels = kernels_of(self.aligned.big, self.nodes, self.launches, places_of(self.steps), trace.step)
        ran = [kernel.name for kernel in trace.step if not kernel.is_event]
        found = grown_graph(self.aligned.big, self.rules, self.nodes, numbering, self.labels, kernels, ran)
        names = frozenset(kernels.values())
        try:
            order = [name for node in launched(found) if (name := found.name[node]) in names]
        except ValueError as error:
            raise CannotGrow(phrase("nodes of the repeated graph read from each other in a circle")) from error
        again = arranged(trace, order)
        check(order, again.step)
        return found, replace(again, known_inside=self._inside(again, found))

    def _inside(self, trace: Trace, graph: LaunchGraph) -> Mapping[str, FusedKernel]:
        """What is inside of fused kernels, with its numbers in the graph, also of those that are not launched."""
        known, of_run = dict(trace.fused_kernels), self.steps.trace.fused_kernels
        for name, row, labels in zip(graph.name, self.nodes.source.tolist(), self.labels, strict=True):
            kernel = known.get(name) or of_run.get(self.aligned.big.name[row])
            if kernel is not None and len(kernel.operators) * 2 == len(labels) - 2:
                numbers = iter(labels[2:])
                known[name] = replace(
                    kernel,
                    operators=tuple(
                        replace(one, unique=next(numbers), forward_unique=next(numbers)) for one in kernel.operators
                    ),
                )
        return known


def learnt(
    small: LaunchGraph, big: LaunchGraph, one: Steps, two: Steps, periods: Sequence[Period], copies: int
) -> Learnt:
    """``one``, ``two``: the steps of the runs. ``periods``: of the launches of ``two``, of which there will be so many
    more ``copies``. Raises CannotGrow."""
    launches = unrolled_by(two, periods, copies)
    both, found = learn(small, big, _kernels(one, two, launches))
    nodes = both.two(copies, _launched_apart(big, two, launches))
    if len(nodes.source) > MAX_NODES:
        raise CannotGrow(
            phrase("it would have {count:,} nodes, more than {most:,}", count=len(nodes.source), most=MAX_NODES)
        )
    return Learnt(
        aligned=both,
        rules=found,
        steps=two,
        launches=launches,
        nodes=nodes,
        labels=numbered(
            Labelled(graph=small, nodes=both.one, inside=one.trace.fused_kernels),
            Labelled(graph=big, nodes=nodes, inside=two.trace.fused_kernels),
            both,
        ),
    )


def _launched_apart(graph: LaunchGraph, steps: Steps, launches: Unrolled) -> list[int]:
    """Nodes whose kernels are launched outside of all periods: those of the last layer may be, away from the others."""
    places, period = places_of(steps), launches.period
    return [node for node, name in enumerate(graph.name) if name in places and period[places[name]] == NONE]


def places_of(steps: Steps) -> dict[str, int]:
    """Where each kernel of the graph is launched, by name; those of other graphs may have the same names."""
    return {steps.kernels[place].name: place for place in of_graph(steps.kernels)}


def _kernels(one: Steps, two: Steps, launches: Unrolled) -> Kernels:
    """``launches``: of ``two``."""
    small, big = ({name: steps.forms[place] for name, place in places_of(steps).items()} for steps in (one, two))
    places = places_of(two)

    def way(name: str, twin: str) -> int:
        here, there = places.get(name, NONE), places.get(twin, NONE)
        number = int(launches.period[here]) if min(here, there) != NONE else NONE
        if number == NONE or number != launches.period[there] or abs(there - here) != launches.periods[number].length:
            return 0
        return 1 if (there > here) == launches.upwards[number] else -1

    return Kernels(small=small, big=big, way=way)
