"""What a backward pass captures under a strategy -> the order of the tuple in which the forward pass hands it on.

That of `Search`. What it does not explain in the baseline keeps its neighbours; what later passes capture stands at the
end (measured with MindSpore 2.9.0).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from swapconf.trace.launch_graph import LOAD
from swapconf.trace.trace import without_number
from swapconf.whatif.graph.calls import Search, source
from swapconf.whatif.graph.nodes import COPY, Nodes
from swapconf.whatif.graph.run_graph import RunGraph

_LATER = frozenset({COPY, LOAD})
_NEAR = 2  # neighbours beside which a value stays that the search does not explain


@dataclass(frozen=True, eq=False)
class Captures:
    """``nodes``: those of a strategy. ``given``: see `Again.given`."""

    run: RunGraph
    nodes: Nodes
    given: Mapping[int, Sequence[int]]

    def sort(self, tuples: Mapping[int, list[int]], moved: Mapping[int, int]) -> dict[int, list[int]]:
        """``tuples``: by tuple of saved values what it is to hold. ``moved``: by value its copy on the host."""
        original = {copied: value for value, copied in moved.items()}
        found = {
            saved: self._sorted(saved, held, original) for saved, held in tuples.items() if saved in self.run.calls
        }
        for saved, held in tuples.items():
            if saved not in found:
                found[saved] = self._like_another(saved, held, tuples, found, original)
        return found

    def _sorted(self, saved: int, held: Sequence[int], original: Mapping[int, int]) -> list[int]:
        handed = self.run.handed[saved]
        call, number = self.run.calls[saved], self.run.graph.forward_unique
        search = Search(self.nodes, call, number=number, value=self._value, apart=handed.apart, given=self.given)
        captured = search.met().captured
        rank = {made: turn for turn, made in enumerate(captured)}

        def is_free(value: int) -> bool:
            made, first = source(self.nodes, value), source(self.nodes, original.get(value, value))
            if made not in rank or first in handed.late:
                return False
            if self.nodes.primitive[first] in _LATER:
                return first in handed.explained
            return value in original or first in handed.explained or first not in handed.known

        free = sorted(filter(is_free, held[1:]), key=lambda value: rank[source(self.nodes, value)])
        return [
            held[0],
            *self._with_others(free, [value for value in held[1:] if not is_free(value)], handed.known, original),
        ]

    def _value(self, tie: int) -> int:
        value = self.nodes.inputs[tie][0]
        return self.run.unpacked(value) if tie < self.nodes.count else value

    def _with_others(
        self, free: list[int], others: list[int], known: Sequence[int], original: Mapping[int, int]
    ) -> list[int]:
        """``others`` beside those that stood beside them in the baseline; behind the last of these at the end."""
        place = {made: turn for turn, made in enumerate(known)}

        def turn(value: int, default: int) -> int:
            return place.get(source(self.nodes, original.get(value, value)), default)

        stood = sorted((known_at, index) for index, value in enumerate(free) if (known_at := turn(value, -1)) >= 0)
        found: defaultdict[int, list[int]] = defaultdict(list)
        for value in others:
            before = bisect_left(stood, (turn(value, len(place)), -1))
            near = max((index + 1 for _, index in stood[max(before - _NEAR, 0) : before]), default=0)
            found[len(free) if before == len(stood) else near].append(value)
        result = list(found[0])
        for index, value in enumerate(free):
            result += [value, *found[index + 1]]
        return result

    def _like_another(
        self,
        saved: int,
        held: list[int],
        tuples: Mapping[int, list[int]],
        found: Mapping[int, list[int]],
        original: Mapping[int, int],
    ) -> list[int]:
        """All micro-batches of a stage hand on the same."""
        inputs = self.run.graph.inputs
        other = next((one for one in found if one in self.run.calls and len(inputs[one]) == len(inputs[saved])), None)
        if other is None:
            return held
        rank: dict[tuple[object, ...], int] = {}
        for turn, value in enumerate(found[other]):
            rank.setdefault(self._identity(other, original)(value), turn)
        mine = self._identity(saved, original)
        return [held[0], *sorted(held[1:], key=lambda value: rank.get(mine(value), len(rank)))]

    def _identity(self, saved: int, original: Mapping[int, int]) -> Callable[[int], tuple[object, ...]]:
        place = {value: turn for turn, value in enumerate(self.run.graph.inputs[saved])}

        def identity(value: int) -> tuple[object, ...]:
            first = original.get(value, value)
            if first in place:
                return first != value, place[first]
            node = source(self.nodes, first)
            return first != value, self.nodes.primitive[node], without_number(self.nodes.name[node])

        return identity
