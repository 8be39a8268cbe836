"""TIES -> what each tuple of saved values holds under a strategy, in which order, and who is taken out of it.

Mirrors the tuple of captures that a forward pass returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from swapconf.trace.launch_graph import ITEM, NO_NODE
from swapconf.whatif.graph.again import RecomputedNodes
from swapconf.whatif.graph.alternation import Alternation
from swapconf.whatif.graph.calls import is_of_baseline, is_parameter, place_of
from swapconf.whatif.graph.captured import Captures
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.inside import ends_in_loss
from swapconf.whatif.graph.late import Late


@dataclass
class Saved(GraphChange):
    """``again``: all that runs again has been added."""

    again: RecomputedNodes

    def tie(self) -> None:
        """Let each tuple hold what the backward pass reads now."""
        ties, run = self.again.ties, self.run
        moved = {self.nodes.inputs[node][0]: node for node in self.again.moves.out.values()}
        tuples = {saved: self._held(saved, moved) for saved in run.forward_tuples}
        orders = Captures(run, self.nodes, self._late, self.again.moves.views.parted).sort(tuples, moved)
        for saved, held in orders.items():
            self.nodes.inputs[saved] = [self._shown(saved, entry) for entry in held]
        self._count_again(orders)
        Alternation(run, self.nodes, orders, self._results).apply(ties.tied, self._live)

    @cached_property
    def _results(self) -> frozenset[int]:
        """In pipelines the tuples of micro-batches that end in a loss, without the last one."""
        if not self.asked.is_pipelined:
            return frozenset()
        ends = [batch for batch in sorted(self.run.saved_of) if ends_in_loss(self.asked, batch)]
        return frozenset(self.run.saved_of[batch] for batch in ends[:-1])

    @cached_property
    def _given(self) -> dict[int, tuple[int, ...]]:
        return self.again.given() if self.run.is_inlined else {}

    @cached_property
    def _late(self) -> Late:
        again = self.again
        constants = frozenset(again.constants.kernel_of.values())
        return Late(
            self.asked, self.nodes, self._given, again.parts, again.ties.called, again.tables.kernel_of, constants
        )

    def _held(self, saved: int, moved: Mapping[int, int]) -> list[int]:
        """The entries of a tuple, in no order yet. ``moved``: by value its copy on the host."""
        fresh = [value for value in dict.fromkeys(self.again.ties.fresh[saved]) if value in self._kept]
        held = self.run.entries[saved]
        gone = self._makers(value for value in held if value in self._tied and value not in self._kept)
        gone -= self._makers(value for value in held if value in self._kept)
        new = held[:1]
        for value in held[1:]:
            if value in self._kept or (value not in self._tied and not gone & self._makers([value])):
                new.append(value)
            elif moved.get(value) in fresh:
                new.append(moved[value])
                fresh.remove(moved[value])
        return [*new, *(value for value in fresh if value not in new), *self._parameters[saved]]

    @cached_property
    def _kept(self) -> frozenset[int]:
        """Values that are read."""
        return frozenset(value for (value, _), tie in self.again.ties.tied.items() if tie in self._live)

    @cached_property
    def _tied(self) -> frozenset[int]:
        return frozenset(value for value, _ in self.again.ties.tied)

    @cached_property
    def _parameters(self) -> Mapping[int, Sequence[int]]:
        """By tuple those that recomputed cells are given, and the state in which these are called."""
        by_tuple, ties, run = defaultdict[int, list[int]](list), self.again.ties, self.run
        given = dict.fromkeys(value for group in dict.fromkeys(self._given.values()) for value in group)
        for tie in (*filter(ties.is_parameter, given), *sorted(ties.called)):
            saved = run.saved_behind.get(self.nodes.inputs[tie][1])
            if saved is not None and tie >= self.nodes.count and tie in self._live:
                by_tuple[saved].append(tie)
        return by_tuple

    def _shown(self, saved: int, entry: int) -> int:
        """What a tuple holds for an entry."""
        if is_of_baseline(entry):
            return self.run.graph.inputs[saved][place_of(entry)]
        return NO_NODE if is_parameter(self.nodes, entry) else entry

    def _makers(self, values: Iterable[int]) -> set[int]:
        """Of what is taken out of several outputs: a gradient is handed all of them, whichever it reads."""
        return {self.nodes.inputs[value][0] for value in values if value >= 0 and self.nodes.primitive[value] == ITEM}

    def _count_again(self, orders: Mapping[int, Sequence[int]]) -> None:
        """What is taken out of a tuple is told by its place there."""
        places = {saved: {entry: turn for turn, entry in enumerate(held)} for saved, held in orders.items()}
        for node in range(self.nodes.count):
            saved = self.nodes.inputs[node][0] if self.nodes.primitive[node] == ITEM else NO_NODE
            if saved in places:
                entry = self.run.entries[saved][int(self.run.graph.item[node])]
                self.nodes.item[node] = places[saved].get(entry, 0)

    @cached_property
    def _live(self) -> frozenset[int]:
        """What the end leads to, other than through saved values."""
        nodes, live, forward = self.nodes, set[int](), self.run.forward_tuples
        stack = [nodes.end]
        while stack:
            node = stack.pop()
            if node in live:
                continue
            live.add(node)
            given = nodes.inputs[node][:1] if node in forward else nodes.inputs[node]
            stack += [value for value in given if value != NO_NODE and value not in live]
        return frozenset(live)
