"""TUPLES of saved values -> which of them the backward pass takes out of the tuple, and which it reads beside it.

MindSpore 2.9.0 removes the taking of a value from a tuple that it knows, and leaves out every other one: from the last
of those that are read on, one is taken out, the next is read as it is (measured: in all graphs of nine families of
runs, what the forward pass returns counts as the last). So a strategy that adds a value changes all in front of it.
In pipelines what a micro-batch with a loss returns is one more behind all others, but for the last (measured: 53 runs
of five families).

The pass was looked for and not found; this is what all graphs show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from swapconf.trace.launch_graph import ITEM, NO_NODE, LaunchGraph
from swapconf.whatif.graph.calls import is_of_baseline, is_parameter, place_of
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.run_graph import RunGraph


@dataclass(frozen=True)
class Alternation:
    """``entries``: by tuple what it holds. ``results``: tuples of which what the forward pass returns counts, too."""

    run: RunGraph
    nodes: Nodes
    entries: Mapping[int, Sequence[int]]
    results: Collection[int] = ()

    def apply(self, ties: Mapping[tuple[int, int], int], live: Collection[int]) -> None:
        """``ties``: by value and barrier. ``live``: those that are read."""
        for barrier, saved in self.run.saved_behind.items():
            of_barrier = {value: tie for (value, behind), tie in ties.items() if behind == barrier and tie in live}
            unseen = self._unseen(saved, barrier)
            if unseen is not None:
                is_taken = self._alternate(saved, of_barrier, unseen)
                if saved in self.results:
                    self._read_result(saved, is_taken)

    def _alternate(self, saved: int, ties: Mapping[int, int], unseen: Collection[int]) -> bool:
        """Whether the next one would be taken out of the tuple."""
        nodes, held, is_taken = self.nodes, self.entries[saved], True
        for place in _from_the_end(held):
            entry = held[place]
            if is_parameter(nodes, entry):
                self._read(self._tie_of(saved, entry), NO_NODE, saved, place, is_taken)
            elif entry in ties:
                self._read(ties[entry], entry, saved, place, is_taken)
            elif entry not in unseen:
                continue
            is_taken = not is_taken
        return is_taken

    def _read_result(self, saved: int, is_taken: bool) -> None:
        run, graph = self.run, self.run.graph
        value = graph.inputs[saved][0]
        taken = [user for user in run.users[saved] if _is_taken(graph, user, saved) and graph.item[user] == 0]
        for reader in (user for shown in (value, *taken) for user in run.users[shown]):
            if graph.primitive[reader] == ITEM:
                self._read(reader, value, saved, 0, is_taken)

    def _read(self, tie: int, value: int, saved: int, place: int, is_taken: bool) -> None:
        if tie == NO_NODE:
            return
        nodes, read = self.nodes, self.nodes.inputs[tie]
        if is_taken != _is_taken(nodes, read[0], saved):
            read[0] = nodes.add(ITEM, (saved,), item=place) if is_taken else value

    def _tie_of(self, saved: int, entry: int) -> int:
        """`NO_NODE` where it is not known."""
        if not is_of_baseline(entry):
            return entry
        handed = self.run.handed.get(saved)
        return NO_NODE if handed is None else handed.parameters.get(place_of(entry), NO_NODE)

    def _unseen(self, saved: int, barrier: int) -> frozenset[int] | None:
        """Values of a tuple of the baseline that were read when the others were removed, and are not any more; None
        where that explains nothing. All parameters were."""
        run, unseen = self.run, set[int]()
        values = run.graph.inputs[saved]
        is_taken, passed = True, list[int]()
        for place in _from_the_end(values):
            if run.is_parameter(values[place]):
                is_taken, passed = not is_taken, []
                continue
            tie = run.ties.get((values[place], barrier))
            if tie is None:
                passed.append(values[place])
                continue
            given = run.graph.inputs[tie][0]
            if _is_taken(run.graph, given, saved) != is_taken:
                if not passed:
                    return None
                unseen.add(passed[-1])
                is_taken = not is_taken
            is_taken, passed = not is_taken, []
        return frozenset(unseen)


def _is_taken(graph: LaunchGraph | Nodes, value: int, saved: int) -> bool:
    return value != NO_NODE and graph.primitive[value] == ITEM and graph.inputs[value][0] == saved


def _from_the_end(values: Sequence[int]) -> Iterator[int]:
    """Places; what stands first counts as the last."""
    yield from (0, *range(len(values) - 1, 0, -1))
