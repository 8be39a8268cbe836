"""NUMBERS that MindSpore gave the nodes of two runs -> NUMBERS of the nodes of the whole model.

A gradient is told from the number of the node that it belongs to (``forward_unique``). The numbers of one node in layer
after layer are a *row*; behind its end there are new ones. All micro-batches of a step, and what is inside of fused
kernels, have the same. What is in no period goes up with each that is added, or stays, as it does from the run with
fewer layers to the one with more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from swapconf.dryrun.growing.graph_periods import Aligned
from swapconf.dryrun.growing.unrolled import NONE, Unrolled
from swapconf.trace.fused_kernels import FusedKernel
from swapconf.trace.launch_graph import LaunchGraph

Pair = tuple[str, str]  # of a node, and of the same one a period later, in the order of layers
Labels = tuple[str, ...]  # all numbers of a node: its own, that of its forward node, then those inside of it


class Rows:
    """``pairs``: may contradict each other; the most frequent ones hold. ``others``: numbers that are given, too."""

    def __init__(self, pairs: Iterable[Pair], others: Iterable[str] = ()) -> None:
        votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for number, later in pairs:
            if number and later and number != later:
                votes[number][later] += 1
        known: dict[str, str] = {}
        taken: set[str] = set()
        for number, found in votes.items():
            later = found.most_common(1)[0][0]
            if later not in taken:
                known[number] = later
                taken.add(later)
        self._place: dict[str, tuple[int, int]] = {}
        self._rows: list[list[str]] = []
        self._last = max((int(number) for number in {*votes, *taken, *others} if number.isdecimal()), default=0)
        for number in known:
            if number not in taken:
                self._add(number, known)

    def _add(self, number: str, known: dict[str, str]) -> None:
        row = [number]
        while row[-1] in known:
            row.append(known[row[-1]])
        self._place |= {item: (len(self._rows), place) for place, item in enumerate(row)}
        self._rows.append(row)

    def place(self, number: str) -> int:
        """In its row, NONE without one."""
        return self._place.get(number, (NONE, NONE))[1]

    def later(self, number: str, periods: int) -> str:
        """Of the same node, so many periods later."""
        if periods <= 0 or number not in self._place:
            return number
        which, place = self._place[number]
        row = self._rows[which]
        while len(row) <= place + periods:
            self._last += 1
            row.append(str(self._last))
        return row[place + periods]


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """A graph, its nodes unrolled, and what is inside of its fused kernels, by name."""

    graph: LaunchGraph
    nodes: Unrolled
    inside: Mapping[str, FusedKernel] = field(default_factory=dict)

    @cached_property
    def labels(self) -> list[Labels]:
        """[nodes]"""
        graph = self.graph
        return [
            (own, forward, *_within(self.inside.get(name)))
            for own, forward, name in zip(graph.unique, graph.forward_unique, graph.name, strict=True)
        ]

    @cached_property
    def rows(self) -> Rows:
        return Rows(self._pairs(), (number for labels in self.labels for number in labels))

    def _pairs(self) -> Iterator[Pair]:
        for period, is_upwards in zip(self.nodes.periods, self.nodes.upwards, strict=True):
            for node in range(period.low, period.high - period.length):
                one, other = self.labels[node], self.labels[node + period.length]
                yield from zip(one, other, strict=False) if is_upwards else zip(other, one, strict=False)


def _within(kernel: FusedKernel | None) -> Iterator[str]:
    for operator in () if kernel is None else kernel.operators:
        yield operator.unique
        yield operator.forward_unique


def numbered(small: Labelled, big: Labelled, found: Aligned) -> list[Labels]:
    """[new nodes] of ``big``, unrolled."""
    nodes, rows = big.nodes, big.rows
    partner, twin = found.one.source.tolist(), nodes.twin.tolist()
    made = []
    for row, turn in zip(nodes.source.tolist(), nodes.turn(nodes.source, nodes.copy).tolist(), strict=True):
        mine, its = big.labels[row], big.labels[twin[row]] if twin[row] != NONE else ()
        before = small.labels[partner[row]]
        made.append(
            tuple(
                rows.later(number, turn)
                if turn > 0 and number != _at(its, which)
                else rows.later(number, nodes.more * _step(rows, number, small.rows, _at(before, which)))
                if turn < 0 or number == _at(its, which)
                else number
                for which, number in enumerate(mine)
            )
        )
    return made


def _at(labels: Sequence[str], which: int) -> str:
    return labels[which] if which < len(labels) else ""


def _step(rows: Rows, number: str, rows_before: Rows, before: str) -> int:
    """How many places a number goes up in its row with each period."""
    place, was = rows.place(number), rows_before.place(before)
    return place - was if min(place, was) >= 0 else 0
