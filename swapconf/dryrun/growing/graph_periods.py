"""LAUNCH GRAPHS of two runs -> ALIGNED: which nodes the one with more layers has more, and which are the same.

MindSpore prints the nodes of its graph inputs first, from the end on: so layers follow one another, and what a
layer adds stands in one piece in each row of them, as in the order of launches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swapconf.dryrun.growing.directions import directed
from swapconf.dryrun.growing.layers import layer_in
from swapconf.dryrun.growing.periods import Period, periods
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.unrolled import Unrolled
from swapconf.trace.launch_graph import NO_NODE, TUPLE, LaunchGraph
from swapconf.words.phrases import phrase

_FEW = 8  # inputs; a node of more may have one of each layer
# so many steps tell nodes apart: many what a layer makes of which weight, few the ends of a row of layers
FAR = 2, 1, 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Aligned:
    """``small``, ``big``: the graphs. ``one``: the nodes of ``small`` with one copy of each period, which are those of
    ``big``. ``fewer``: its periods; ``upwards``: their directions."""

    small: LaunchGraph
    big: LaunchGraph
    fewer: Sequence[Period]
    upwards: Sequence[bool]

    @cached_property
    def one(self) -> Unrolled:
        return Unrolled(length=len(self.small), periods=self.fewer, upwards=self.upwards, more=1)

    def two(self, more: int, odd: Collection[int] = ()) -> Unrolled:
        """The nodes of ``big`` with more copies: of the last one of each period, or as far before it as none of the
        ``odd`` nodes is in it."""
        found = [_without(odd, period) for period in _in_big(self.fewer)]
        return Unrolled(length=len(self.big), periods=found, upwards=self.upwards, more=more)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernels:
    """Of the launches of two runs, by name.

    Attributes:
        small, big: What makes kernels alike.
        way: Of two kernels of the run with more layers, the same in one period and the next one of the graph: 1 where
            the second is of higher layers, -1 of lower ones, 0 where that is not told.
    """

    small: Mapping[str, Hashable]
    big: Mapping[str, Hashable]
    way: Callable[[str, str], int]


def aligned(small: LaunchGraph, big: LaunchGraph, kernels: Kernels, far: int) -> Aligned:
    """``far``: see FAR. Raises CannotGrow."""
    codes: dict[Hashable, int] = {}
    found, _ = periods(_forms(small, kernels.small, codes, far), _forms(big, kernels.big, codes, far))
    fewer = [replace(period, fringe=()) for period in found]
    both = Aligned(small=small, big=big, fewer=fewer, upwards=_directions(big, _in_big(fewer), kernels.way))
    source = both.one.source.tolist()
    if len(source) != len(big) or any(
        (big.primitive[node], big.fused[node]) != (small.primitive[row], small.fused[row])
        for node, row in enumerate(source)
    ):
        raise CannotGrow(phrase("the graph of the run with fewer layers, repeated, is not the one of more"))
    return both


def _forms(graph: LaunchGraph, launches: Mapping[str, Hashable], codes: dict[Hashable, int], far: int) -> list[int]:
    """[nodes] what makes two of them alike: what they are, and what they read, some steps far. ``launches``: what makes
    kernels alike, by name."""
    shown = [
        codes.setdefault((primitive, group, launches.get(name)), len(codes))
        for primitive, group, name in zip(graph.primitive, graph.fused, graph.name, strict=True)
    ]
    for _ in range(far):
        before = [*shown, NO_NODE]
        shown = [
            codes.setdefault((before[node], *(before[given] for given in inputs[:_FEW])), len(codes))
            if graph.primitive[node] != TUPLE
            else before[node]
            for node, inputs in enumerate(graph.inputs)
        ]
    return shown


def _in_big(fewer: Sequence[Period]) -> tuple[Period, ...]:
    found, added = [], 0
    for period in fewer:
        length = period.length
        found.append(
            replace(
                period, low=period.low + added, high=period.high + added + length, start=period.start + added + length
            )
        )
        added += length
    return tuple(found)


def _without(odd: Collection[int], period: Period) -> Period:
    """Copied from as far before as there is no ``odd`` place in it, at most a period; as it was where there is none."""
    inside = [place for place in odd if period.start - period.length <= place < period.stop]
    for start in range(period.start, period.start - period.length - 1, -1):
        if not any(start <= place < start + period.length for place in inside):
            return replace(period, start=start)
    return period


def _directions(graph: LaunchGraph, found: Sequence[Period], way: Callable[[str, str], int]) -> tuple[bool, ...]:
    """As of the launches; else by names, else by what they read of each other."""
    where = np.full(len(graph), NO_NODE, dtype=np.int64)
    for number, period in enumerate(found):
        where[period.low : period.high] = number
    known: dict[int, int] = {}
    ties: Counter[tuple[int, int]] = Counter()
    for number, period in enumerate(found):
        votes = 0
        for node in range(period.low, period.high - period.length):
            twin = node + period.length
            votes += way(graph.name[node], graph.name[twin]) or _by_layers(graph.name[node], graph.name[twin])
            for given, other in zip(graph.inputs[node], graph.inputs[twin], strict=False):
                which = int(where[given]) if min(given, other) != NO_NODE else NO_NODE
                is_tie = which not in (NO_NODE, number) and which == where[other]
                if is_tie and abs(other - given) == found[which].length:
                    ties[number, which] += 1 if other > given else -1
        if votes:
            known[number] = 1 if votes > 0 else -1
    return directed(known, ties, len(found))


def _by_layers(name: str, other: str) -> int:
    one, two = layer_in(name), layer_in(other)
    return int(np.sign(two - one)) if one >= 0 and two >= 0 else 0
