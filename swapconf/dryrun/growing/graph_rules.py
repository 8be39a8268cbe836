"""ALIGNED graphs of two runs -> RULES: what each node of the whole model's graph reads.

They are read off what each node reads in both graphs. What a node of a copied layer reads belongs to its own layer or
is the same for all; any other node reads what was there first, or what comes last. One that reads something of every
layer, such as a tuple of all gradients, reads more of them in the run with more layers: its inputs have periods of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from swapconf.dryrun.growing.graph_periods import FAR, Aligned, Kernels, aligned
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.unrolled import Unrolled
from swapconf.trace.launch_graph import NO_NODE, TUPLE, LaunchGraph
from swapconf.words.phrases import phrase


class Seen(Enum):
    """At which turn a node sees another one."""

    FIRST = 0
    LAST = 1
    OWN = 2  # of the node itself
    SAME = 3  # the one that the run has, whatever its turn


@dataclass(frozen=True, slots=True)
class Cut:
    """``length`` inputs in front of the input ``stop`` are those of one period, and come again for each copy."""

    stop: int
    length: int
    is_upwards: bool


@dataclass(frozen=True, slots=True)
class End:
    """Of a node of the first layers, or else of the last ones: the ``next`` one of its kind towards the middle."""

    next: int
    is_first: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Of a node of the run with more layers.

    Attributes:
        seen: Of each input.
        cuts: In order.
        alike: From which input on all turns of each are read, in whatever order MindSpore met them.
        step, own_step: How much higher the number of the output that it takes becomes with each period that is added,
            and with each copy of its own.
        taken: Of what it takes out of a tuple that has an `alike`, instead of a number.
    """

    seen: tuple[Seen, ...]
    cuts: tuple[Cut, ...] = ()
    alike: int | None = None
    step: int = 0
    own_step: int = 0
    taken: Seen | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """``by_node``: [nodes of the run with more layers]. ``ends``: by node of the first or the last layers, which stands
    in no period as these have something more or less, the one that is the same in the next or the last but one."""

    by_node: Sequence[Rule]
    ends: Mapping[int, End]


def learn(small: LaunchGraph, big: LaunchGraph, kernels: Kernels) -> tuple[Aligned, Rules]:
    """Raises CannotGrow."""
    why: CannotGrow | None = None
    for far in FAR:
        try:
            found = aligned(small, big, kernels, far)
            return found, rules(found)
        except CannotGrow as reason:
            why = why or reason
    assert why is not None
    raise why


def rules(found: Aligned) -> Rules:
    """Raises CannotGrow where the graph with fewer layers, with one period more by these rules, would not be that with
    more."""
    made, shows = [Rule(seen=())] * len(found.big), _Shows(found.one)
    natural, copied, length = found.one.natural.tolist(), found.one.is_copied.tolist(), _lengths(found.one)
    for row in range(len(found.small)):
        node = natural[row]
        twin = node + length[row] * copied[row]
        given, mine = found.small.inputs[row], found.big.inputs[node]
        if copied[row]:
            rule = _of_copied(shows, row, given, mine, found.big.inputs[twin])
        else:
            rule = _Walk(shows, given, mine).rule(node)
        if given and found.big.primitive[mine[0]] == TUPLE and made[mine[0]].alike is not None:
            made[node] = made[twin] = replace(rule, taken=_taken(shows, found, row, node, twin))
        else:
            made[node] = made[twin] = _with_items(rule, found, row, node, twin)
    return Rules(by_node=made, ends=shows.ends_in_big())


def _taken(shows: _Shows, found: Aligned, row: int, node: int, twin: int) -> Seen | None:
    """Of what a node takes out of a tuple, None where it takes nothing: it may be tied to it."""
    places = (found.small, row), (found.big, node), (found.big, twin)
    items = [int(graph.item[at]) for graph, at in places]
    if max(items) < 0:
        return None
    if min(items) < 0:
        raise _no_rule(row)
    given, one, other = (
        [graph.inputs[graph.inputs[at][0]][item]] for (graph, at), item in zip(places, items, strict=True)
    )
    rule = _of_copied(shows, row, given, one, other) if node != twin else _Walk(shows, given, one).rule(node)
    return rule.seen[0]


def _lengths(unrolled: Unrolled) -> list[int]:
    """[nodes] that of the period of each."""
    lengths = np.array([*(period.length for period in unrolled.periods), 0])  # the last of what is in no period
    return lengths[unrolled.period].tolist()  # type: ignore[no-any-return]


class _Shows:
    """``first``, ``last``: [nodes of the run with fewer layers] where each stands with one period more, at both
    turns. ``up``: [nodes] the direction of the period of each."""

    def __init__(self, unrolled: Unrolled) -> None:
        self.first, self.last = ([*unrolled.shown(turn).tolist(), NO_NODE] for turn in (0, 1))
        self.up = np.array([*unrolled.upwards, True])[unrolled.period].tolist()
        self._natural = unrolled.natural.tolist()
        inside = np.flatnonzero(unrolled.period >= 0).tolist()
        self._at_first = {self.first[node]: node for node in inside}
        self._at_last = {self.last[node]: node for node in inside}
        self._ends: dict[int, tuple[int, bool]] = {}

    def moves(self, node: int, at_first: int, at_last: int) -> bool:
        """Whether that is where a node stands at both turns. What is outside of all periods may be of the first or the
        last layers, and another node be the same in the others."""
        if node == NO_NODE or self.first[node] != self.last[node]:
            return (at_first, at_last) == (self.first[node], self.last[node])
        if at_first == self._natural[node]:
            other, is_first = self._at_first.get(at_last, NO_NODE), True
        elif at_last == self._natural[node]:
            other, is_first = self._at_last.get(at_first, NO_NODE), False
        else:
            return False
        return other != NO_NODE and self._ends.setdefault(node, (other, is_first)) == (other, is_first)

    def ends_in_big(self) -> dict[int, End]:
        """As nodes of the run with more layers."""
        return {
            self._natural[node]: End((self.first if is_first else self.last)[other], is_first)
            for node, (other, is_first) in self._ends.items()
        }


def _of_copied(shows: _Shows, row: int, given: Sequence[int], one: Sequence[int], other: Sequence[int]) -> Rule:
    """``one``, ``other``: what the first and the second copy read."""
    if not len(given) == len(one) == len(other):
        raise _no_rule(row)
    low, high = (one, other) if shows.up[row] else (other, one)  # at the first and the last turn
    seen = []
    for item, at_first, at_last in zip(given, low, high, strict=True):
        first, last = shows.first[item], shows.last[item]
        if at_first == at_last and at_first in (first, last):
            seen.append(Seen.SAME if first == last else Seen.FIRST if at_first == first else Seen.LAST)
        elif shows.moves(item, at_first, at_last):
            seen.append(Seen.OWN)
        else:
            raise _no_rule(row)
    return Rule(seen=tuple(seen))


def _no_rule(node: int) -> CannotGrow:
    return CannotGrow(phrase("what node {node} of the graph reads follows no rule", node=node))


def _with_items(rule: Rule, found: Aligned, row: int, node: int, twin: int) -> Rule:
    was, now, later = int(found.small.item[row]), int(found.big.item[node]), int(found.big.item[twin])
    if min(was, now, later) < 0:
        if not was == now == later:
            raise _no_rule(node)
        return rule
    return Rule(seen=rule.seen, cuts=rule.cuts, step=now - was, own_step=later - now)


class _Walk:
    """Through the inputs of a node outside of what is copied, ``given`` in the run with fewer layers, and ``made`` in
    the other one."""

    def __init__(self, shows: _Shows, given: Sequence[int], made: Sequence[int]) -> None:
        self._shows, self._given, self._made = shows, given, made
        self._seen: list[Seen] = []  # of ``given``
        self._all: list[Seen] = []  # of ``made``
        self._cuts: list[Cut] = []
        self._been: list[tuple[int, int]] = []  # where both were not yet told apart

    def rule(self, node: int) -> Rule:
        """Raises CannotGrow."""
        while len(self._all) < len(self._made):
            here, there = len(self._seen), len(self._all)
            self._been.append((here, there))
            if here < len(self._given) and (seen := self._as(here, there)) is not None:
                self._seen.append(seen)
                self._all.append(seen)
            elif not self._insert(here, there):
                return self._without_order(node)
        if len(self._seen) != len(self._given):
            return self._without_order(node)
        return Rule(seen=tuple(self._all), cuts=tuple(self._cuts))

    def _without_order(self, node: int) -> Rule:
        """From some input on, both read every turn of each value, if in another order: MindSpore captures the views
        that it makes late in the order of a table, which is another one with more layers."""
        first, last = self._shows.first, self._shows.last
        for here, there in reversed(self._been):
            given, made = self._given[here:], self._made[there:]
            if len({*made}) == len(made) and {*made} == {at[item] for item in given for at in (first, last)}:
                cuts = tuple(cut for cut in self._cuts if cut.stop <= there)
                return Rule(seen=tuple(self._all[:there]), cuts=cuts, alike=there)
        raise _no_rule(node)

    def _as(self, here: int, there: int) -> Seen | None:
        first, last = self._shows.first[self._given[here]], self._shows.last[self._given[here]]
        if self._made[there] == first:
            return Seen.SAME if first == last else Seen.FIRST
        return Seen.LAST if self._made[there] == last else None

    def _insert(self, here: int, there: int) -> bool:
        """Whether both go on alike behind a period more."""
        more = len(self._made) - len(self._given) - (there - here)
        for length in range(min(more, here), 0, -1):  # parameters are all alike, so that a few of them fit anywhere
            stop = there + length
            ends = stop == len(self._made) and here == len(self._given)
            goes_on = stop < len(self._made) and here < len(self._given) and self._as(here, stop) is not None
            if (ends or goes_on) and (cut := self._cut(here, there, length)):
                self._all += self._seen[here - length : here]
                self._cuts.append(cut)
                return True
        return False

    def _cut(self, here: int, there: int, length: int) -> Cut | None:
        """What was read, once more: all a turn later, or all a turn earlier."""
        given, made = self._given[here - length : here], self._made[there : there + length]
        turns = {*self._seen[here - length : here]} - {Seen.SAME}
        if len(turns) > 1:
            return None
        is_upwards = turns != {Seen.LAST}
        again = self._shows.last if is_upwards else self._shows.first
        return Cut(there + length, length, is_upwards) if [again[item] for item in given] == [*made] else None
