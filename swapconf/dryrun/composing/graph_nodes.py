"""LAUNCH GRAPH of a run + its PASSES -> NODES: of which pass each node is, and which node of another round is the same.

A kernel is of the pass in which it is launched. A node that is launched nowhere (what is taken out of a tuple, what
waits for something) is of the pass of its first reader there, a tuple of saved values of the one that makes them. What
no pass reads is of the pass that it reads from; if those are several, it is of none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from swapconf.dryrun.composing.counterparts import Counterparts
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.growing.graph_kernels import of_graph
from swapconf.trace.launch_graph import ITEM, NO_NODE, TUPLE, LaunchGraph
from swapconf.trace.launch_order import inputs_first
from swapconf.words.phrases import phrase

Alike: TypeAlias = tuple[int, int]  # what it is and what it is for, as a number; how many such are before in its round
_NEVER = 1 << 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Nodes:
    """What is known of each node of a run's graph.

    Attributes:
        place: [nodes] where it is launched in the step, NONE of what is not.
        number: [nodes] the pass in whose places it stands, NONE in head and tail.
        round: [nodes] that of the pass that it is of, NONE in head and tail.
        alike: [nodes] equal for the same node of another round.
    """

    graph: LaunchGraph
    place: list[int]
    number: list[int]
    round: list[int]
    alike: list[Alike]
    _where: dict[tuple[int, Alike], int] = field(init=False)

    def __post_init__(self) -> None:
        where = {key: node for node, key in enumerate(zip(self.round, self.alike, strict=True))}
        object.__setattr__(self, "_where", where)

    def twin(self, node: int) -> int:
        """The same node for another micro-batch, NONE where there is none."""
        at, alike = self.round[node], self.alike[node]
        if at == NONE:
            return NONE
        return self._where.get((at + 1, alike), self._where.get((at - 1, alike), NONE))


def nodes(graph: LaunchGraph, places: Counterparts) -> Nodes:
    """``places``: of the step. Raises CannotCompose where its kernels are not those of the graph, ValueError where
    nodes read from each other in a circle."""
    found = _Found(graph, places)
    upwards = inputs_first(graph.inputs)
    found.saved(upwards)
    found.by_readers(upwards)
    found.by_inputs(upwards)
    return Nodes(graph=graph, place=found.place, number=found.number, round=found.round, alike=found.counted())


class _Found:
    """What is known of the nodes. ``known``: [nodes] whether anything is. ``first``: [nodes] the place of the first
    launch that one is for. ``code``: [nodes] what makes it alike, as a number."""

    def __init__(self, graph: LaunchGraph, places: Counterparts) -> None:
        self.graph = graph
        passes, kernels = places.made.passes, places.made.steps.kernels
        at = {kernels[place].name: place for place in of_graph(kernels)}
        is_kernel = graph.is_kernel.tolist()
        self.place = [at.get(name, NONE) if own else NONE for name, own in zip(graph.name, is_kernel, strict=True)]
        if len(at) != len({*self.place} - {NONE}):
            raise CannotCompose(phrase("the graph of the run is not one of the kernels that it launches"))
        self.node_at = {place: node for node, place in enumerate(self.place) if place != NONE}
        self.readers: list[list[tuple[int, int]]] = [[] for _ in self.place]
        for node, inputs in enumerate(graph.inputs):
            for turn, given in enumerate(inputs):
                if given != NO_NODE:
                    self.readers[given].append((node, turn))
        self._codes: dict[Hashable, int] = {}
        numbers, rounds, sides = passes.number.tolist(), passes.round.tolist(), places.made.is_backward.tolist()
        self.known, self.first = [*is_kernel], [place if place != NONE else _NEVER for place in self.place]
        self.number = [numbers[place] if place != NONE else NONE for place in self.place]
        self.round = [rounds[place] if place != NONE else NONE for place in self.place]
        self.code = [self._code(sides[place], places.keys[place]) if place != NONE else NONE for place in self.place]

    def saved(self, upwards: list[int]) -> None:
        """Tuples of what a pass makes for its backward pass: which reader of theirs comes first differs."""
        for node in upwards:
            if self.graph.primitive[node] == TUPLE and self._is_taken_apart(node):
                made = [self.place[given] for given in self.graph.inputs[node] if given != NO_NODE]
                last = max(made, default=NONE)
                if last != NONE and self.number[self.node_at[last]] != NONE:
                    self._like(node, self.node_at[last], 0)
                    self.first[node], self.code[node] = last, self._code(TUPLE, len(self.graph.inputs[node]))

    def _is_taken_apart(self, node: int) -> bool:
        return any(self.graph.primitive[reader] == ITEM for reader, _ in self.readers[node])

    def by_readers(self, upwards: list[int]) -> None:
        """Each node that is for a launch in a pass."""
        for node in reversed(upwards):
            if self.known[node]:
                continue
            mine = [(self.first[one], turn, one) for one, turn in self.readers[node] if self.number[one] != NONE]
            if mine:
                self.first[node], turn, reader = min(mine)
                self._like(node, reader, -1 - turn)

    def by_inputs(self, upwards: list[int]) -> None:
        """Each node that is for none, but of one."""
        for node in upwards:
            if self.known[node] or node == self.graph.end:
                continue
            inputs = enumerate(self.graph.inputs[node])
            mine = [(turn, given) for turn, given in inputs if given != NO_NODE and self.number[given] != NONE]
            if len({self.number[given] for _, given in mine}) == 1:
                turn, given = mine[0]
                self._like(node, given, turn)

    def counted(self) -> list[Alike]:
        """In the order of launches, as that of nodes differs from pass to pass."""
        before: Counter[tuple[int, int]] = Counter()
        found: list[Alike] = [(NONE, NONE)] * len(self.code)
        for node in sorted(range(len(self.code)), key=lambda node: (self.place[node], node)):
            key = self.round[node], self.code[node]
            found[node] = key[1], before[key]
            before[key] += 1
        return found

    def _like(self, node: int, other: int, turn: int) -> None:
        self.known[node], self.number[node], self.round[node] = True, self.number[other], self.round[other]
        self.code[node] = self._code(self.graph.primitive[node], int(self.graph.item[node]), turn, self.code[other])

    def _code(self, *what: Hashable) -> int:
        return self._codes.setdefault(what, len(self._codes))
