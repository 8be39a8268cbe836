"""LAUNCH GRAPH of a run + ARRANGED -> LAUNCH GRAPH of the new step, as MindSpore would have it.

A node of a pass is there once in each pass that is made from it, with the numbers that MindSpore gave it, as all
micro-batches of a step have the same. What it reads is so many rounds back as launches are (`counterparts.py`). A tuple
at the end of the step that has one value of each micro-batch gets one of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from swapconf.dryrun.composing.arranged import cut_key
from swapconf.dryrun.composing.counterparts import NEAR, Counterparts
from swapconf.dryrun.composing.graph_nodes import Alike, nodes
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.trace.launch_graph import NO_NODE, LaunchGraph
from swapconf.trace.postorder import printed
from swapconf.words.phrases import phrase


class StepGraph:
    """The nodes of the new step.

    Attributes:
        source: [new nodes] the node of the run that each is made from.
        number: [new nodes] the new pass, NONE in head and tail.
        place: [new nodes] where it is launched in the new step, NONE of what is not.
    """

    def __init__(self, graph: LaunchGraph, places: Counterparts) -> None:
        """Raises CannotCompose, ValueError where nodes read from each other in a circle."""
        self._places, self._made = places, places.made
        self._old = nodes(graph, places)
        self.source: list[int] = []
        self.number: list[int] = []
        self.place: list[int] = []
        self._round: list[int] = []
        self._fill()
        self._where: dict[tuple[int, int], int] = {}
        self._in: dict[tuple[int, Alike], int] = {}
        self._last: dict[int, int] = {}
        self._cuts: dict[tuple[str, int], int] = {}
        for new, (node, number) in enumerate(zip(self.source, self.number, strict=True)):
            self._where.setdefault((number, node), new)
            self._in.setdefault((self._round[new], self._old.alike[node]), new)
            self._last[node] = new
            if self._cut(node) != NONE:
                self._cuts[self._cut_key(node), int(self._made.cut[self.place[new]])] = new

    def _fill(self) -> None:
        """First what is launched, then what is not."""
        made, old = self._made, self._old
        node_at = {place: node for node, place in enumerate(old.place) if place != NONE}
        rows = zip(made.source.tolist(), made.number.tolist(), made.round.tolist(), strict=True)
        for new, (place, number, round_) in enumerate(rows):
            if place in node_at:
                self._add(node_at[place], number, new, round_)
        unlaunched: defaultdict[int, list[int]] = defaultdict(list)
        for node, place in enumerate(old.place):
            if place == NONE:
                unlaunched[old.number[node]].append(node)
        for node in unlaunched[NONE]:
            self._add(node, NONE, NONE, NONE)
        rounds = made.rounds
        for number, pass_ in enumerate(made.chosen):
            apart = int(rounds[number]) - int(made.passes.rounds[pass_])
            for node in unlaunched[pass_]:
                self._add(node, number, NONE, old.round[node] + apart)

    def _add(self, node: int, number: int, place: int, round_: int) -> None:
        self.source.append(node)
        self.number.append(number)
        self.place.append(place)
        self._round.append(round_)

    def graph(self) -> LaunchGraph:
        """Kernels with the names of the run. Raises CannotCompose."""
        old = self._old.graph
        return LaunchGraph(
            name=tuple(old.name[node] for node in self.source),
            primitive=tuple(old.primitive[node] for node in self.source),
            inputs=tuple(tuple(self._inputs(new)) for new in range(len(self.source))),
            item=old.item[np.array(self.source, dtype=np.int64)],
            unique=tuple(old.unique[node] for node in self.source),
            forward_unique=tuple(old.forward_unique[node] for node in self.source),
            fused=tuple(old.fused[node] for node in self.source),
            end=self._where[NONE, old.end],
            of_function=frozenset(new for new, node in enumerate(self.source) if node in old.of_function),
        )

    # --- what a node reads --------------------------------------------------------------------------------------------

    def _inputs(self, new: int) -> Iterator[int]:
        inputs = self._old.graph.inputs[self.source[new]]
        low, high = self._of_each(inputs, self.number[new] == NONE)
        for turn, given in enumerate(inputs):
            if turn == low < high:
                yield from self._repeated(inputs[low:high])
            if not low <= turn < high:
                yield given if given == NO_NODE else self._seen(new, given, turn)

    def _of_each(self, inputs: Sequence[int], is_outside: bool) -> tuple[int, int]:
        """From where to where there is something of each micro-batch. What stands in the places of a pass may wait for
        two of them; a sum of all may be launched as soon as the last one can be added."""
        alike, least = self._old.alike, 2 if is_outside else max(self._made.passes.micro_batches - 1, 3)
        if len(inputs) < least:
            return 0, 0
        what = [NONE if one == NO_NODE else alike[one] if is_outside else alike[one][0] for one in inputs]
        passes: defaultdict[Alike | int, set[int]] = defaultdict(set)
        for given, kind in zip(inputs, what, strict=True):
            if given != NO_NODE and self._old.number[given] != NONE:
                passes[kind].add(self._old.number[given])
        turns = [turn for turn, kind in enumerate(what) if len(passes[kind]) >= least]
        return (turns[0], turns[-1] + 1) if turns else (0, 0)

    def _repeated(self, inputs: Sequence[int]) -> Iterator[int]:
        """Raises CannotCompose where they are not in the order of the passes, or the other way round."""
        numbers: list[int] = []
        for given in inputs:  # a constant belongs to what stands before it
            numbers.append(self._old.number[given] if given != NO_NODE else numbers[-1])
        is_upwards = numbers == sorted(numbers)
        if NONE in numbers or not (is_upwards or numbers == sorted(numbers, reverse=True)):
            raise CannotCompose(phrase("something outside of the passes reads of each micro-batch"))
        chosen = [*enumerate(self._made.chosen)]
        for number, pass_ in chosen if is_upwards else reversed(chosen):
            for given, its in zip(inputs, numbers, strict=True):
                if its == pass_:
                    yield NO_NODE if given == NO_NODE else self._where[number, given]

    def _seen(self, new: int, given: int, turn: int) -> int:
        """What a new node reads instead of ``given``, which is its input number ``turn``. Raises CannotCompose."""
        old, node = self._old, self.source[new]
        if (cut := self._cut(given)) != NONE:
            return self._cut_for(new, given, cut)
        if old.number[node] == old.number[given] and (self.number[new], given) in self._where:
            return self._where[self.number[new], given]
        here, there = old.round[node], old.round[given]
        if NONE in (here, there) or old.twin(given) == NONE or self._is_shared(node, given, turn):
            return self._natural(given)
        return self._in_round(given, self._round[new] - self._places.moved(here - there))

    def _is_shared(self, node: int, given: int, turn: int) -> bool:
        """Whether the same is read for all micro-batches, or only once of a certain one."""
        old, twin = self._old, self._old.twin(node)
        if twin != NONE:
            return old.graph.inputs[twin][turn : turn + 1] == (given,)
        apart = abs(old.round[node] - old.round[given])
        return apart > NEAR and apart != self._made.passes.in_flight - 1

    def _natural(self, given: int) -> int:
        """Where it is as it was; where its pass is left out, as far from the end as before. Raises CannotCompose."""
        if given in self._last:
            return self._last[given]
        made = self._made
        return self._in_round(given, int(made.round.max() - made.passes.round.max()) + self._old.round[given])

    def _in_round(self, given: int, new_round: int) -> int:
        found = self._in.get((new_round, self._old.alike[given]))
        if found is None:
            name = self._old.graph.name[given].rpartition("/")[2]
            raise CannotCompose(phrase("the node {name} is not in every pass of a micro-batch", name=name))
        return found

    def _cut(self, node: int) -> int:
        """The micro-batch that it cuts out of the batch, with all others one after another; NONE of what does not."""
        place = self._old.place[node]
        return self._made.at_once[place] if place != NONE else NONE

    def _cut_key(self, node: int) -> str:
        return cut_key(self._made.steps.kernels[self._old.place[node]].name)

    def _cut_for(self, new: int, given: int, cut: int) -> int:
        here, place = self._old.round[self.source[new]], self.place[new]
        at = int(self._made.cut[place]) if place != NONE else NONE
        if at == NONE:
            at = cut if here == NONE else self._round[new] - self._places.moved(here - cut)
        found = self._cuts.get((self._cut_key(given), at))
        if found is None:
            raise CannotCompose(phrase("the micro-batch {number} is not cut out of the batch", number=at))
        return found


def as_printed(graph: LaunchGraph) -> LaunchGraph:
    """The same with its nodes in the order in which MindSpore prints them."""
    order = printed(graph.inputs, graph.end)
    turn = {node: number for number, node in enumerate(order)}
    return replace(
        graph,
        name=tuple(graph.name[node] for node in order),
        primitive=tuple(graph.primitive[node] for node in order),
        inputs=tuple(tuple(turn.get(given, NO_NODE) for given in graph.inputs[node]) for node in order),
        item=graph.item[np.array(order, dtype=np.int64)],
        unique=tuple(graph.unique[node] for node in order),
        forward_unique=tuple(graph.forward_unique[node] for node in order),
        fused=tuple(graph.fused[node] for node in order),
        end=turn[graph.end],
        of_function=frozenset(turn[node] for node in graph.of_function if node in turn),
    )
