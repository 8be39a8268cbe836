"""What a backward pass captures under a strategy -> the order of the tuple in which the forward pass hands it on.

That of `Search`. What it does not explain in the baseline keeps its neighbours; what later passes capture stands at the
end (measured with MindSpore 2.9.0); so does each of several views of which CSE has made one in the baseline, where that
is captured later: the same pass meets them.

Mirrors the captures of a func graph: its free variables, as ``LiftingClone`` makes parameters of them
(core/ir/func_graph_cloner.cc).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from swapconf.trace.launch_graph import LOAD, NO_NODE
from swapconf.trace.trace import without_number
from swapconf.whatif.graph.calls import Handed, Search, is_of_baseline, is_parameter, place_of, source
from swapconf.whatif.graph.late import TABLES, Late
from swapconf.whatif.graph.nodes import COPY, Nodes
from swapconf.whatif.graph.run_graph import RunGraph

_LATER = frozenset({COPY, LOAD})
_NEAR = 2  # neighbours beside which a value stays that the search does not explain


@dataclass(frozen=True, eq=False)
class Captures:
    """``nodes``: those of a strategy. ``parted``: see `ViewParts`."""

    run: RunGraph
    nodes: Nodes
    late: Late
    parted: Mapping[int, int]

    def sort(self, tuples: Mapping[int, list[int]], moved: Mapping[int, int]) -> dict[int, list[int]]:
        """``tuples``: by tuple of saved values the entries that it is to hold. ``moved``: by value its copy on the
        host."""
        original = {copied: value for value, copied in moved.items()}
        orders = {
            saved: self._sorted(saved, held, original) for saved, held in tuples.items() if saved in self.run.calls
        }
        for saved in tuples:
            if saved not in orders:
                orders[saved] = self._like_another(saved, tuples, orders, original)
        return orders

    def _sorted(self, saved: int, held: Sequence[int], original: Mapping[int, int]) -> list[int]:
        handed = self.run.handed[saved]
        call, number = self.run.calls[saved], self.run.graph.forward_unique
        search = Search(
            self.nodes,
            call,
            number=number,
            value=self._value,
            given=self.late.given,
            unmet=self.late.tables_given,
            alone=self.late.alone,
        )
        rank = {node: turn for turn, node in enumerate(search.met().captured)}
        node_of = {entry: self._node(entry, handed) for entry in held[1:]}
        first = {entry: self._whole(self._node(original.get(entry, entry), handed)) for entry in held[1:]}
        late = {
            entry: turn
            for entry in held[1:]
            if (turn := self.late.turn(first[entry], is_moved=entry in original)) is not None
            and (turn[0] != TABLES or node_of[entry] not in rank)
        }

        def is_free(entry: int) -> bool:
            if node_of[entry] not in rank:
                return False
            if first[entry] in self.late.read_alone:
                return True
            if first[entry] in handed.late:
                return False
            if first[entry] != NO_NODE and self.nodes.primitive[first[entry]] in _LATER:
                return first[entry] in handed.explained
            return first[entry] in handed.explained or first[entry] not in handed.order

        early = [entry for entry in held[1:] if entry not in late]
        free = sorted(filter(is_free, early), key=lambda entry: rank[node_of[entry]])
        others = [entry for entry in early if not is_free(entry)]
        return [held[0], *self._with_others(free, others, handed.order, first), *sorted(late, key=late.__getitem__)]

    def _node(self, entry: int, handed: Handed) -> int:
        """Its node, or the tie behind which a parameter is read; `NO_NODE` where that is not known."""
        if is_of_baseline(entry):
            return handed.parameters.get(place_of(entry), NO_NODE)
        return source(self.nodes, entry)

    def _whole(self, node: int) -> int:
        """A part of a view stands for that of the baseline."""
        return self.parted.get(node, node)

    def _value(self, tie: int) -> int:
        return self.run.value(tie) if tie < self.nodes.count else self.nodes.inputs[tie][0]

    def _with_others(
        self, free: list[int], others: list[int], in_baseline: Sequence[int], first: Mapping[int, int]
    ) -> list[int]:
        """``others`` beside those that stood beside them in the baseline; behind the last of these at the end."""
        place = {node: turn for turn, node in enumerate(in_baseline)}

        def turn(entry: int, default: int) -> int:
            return place.get(first[entry], default)

        stood = sorted((known_at, index) for index, value in enumerate(free) if (known_at := turn(value, -1)) >= 0)
        behind: defaultdict[int, list[int]] = defaultdict(list)
        for value in others:
            before = bisect_left(stood, (turn(value, len(place)), -1))
            near = max((index + 1 for _, index in stood[max(before - _NEAR, 0) : before]), default=0)
            behind[len(free) if before == len(stood) else near].append(value)
        order = list(behind[0])
        for index, value in enumerate(free):
            order += [value, *behind[index + 1]]
        return order

    def _like_another(
        self, saved: int, tuples: Mapping[int, list[int]], orders: Mapping[int, list[int]], original: Mapping[int, int]
    ) -> list[int]:
        """All micro-batches of a stage hand on the same."""
        inputs, held = self.run.graph.inputs, tuples[saved]
        as_long = (node for node in orders if len(inputs[node]) == len(inputs[saved]))
        alike = next((node for node in as_long if node in self.run.calls), None)
        if alike is None:
            return held
        rank: dict[tuple[object, ...], int] = {}
        identity = self._identity(alike, tuples[alike], original)
        for turn, entry in enumerate(orders[alike]):
            rank.setdefault(identity(entry), turn)
        own_identity = self._identity(saved, held, original)
        return [held[0], *sorted(held[1:], key=lambda entry: rank.get(own_identity(entry), len(rank)))]

    def _identity(
        self, saved: int, held: Sequence[int], original: Mapping[int, int]
    ) -> Callable[[int], tuple[object, ...]]:
        place = {entry: turn for turn, entry in enumerate(self.run.entries[saved])}
        added = [entry for entry in held if is_parameter(self.nodes, entry) and not is_of_baseline(entry)]
        number = {entry: turn for turn, entry in enumerate(added)}

        def identity(entry: int) -> tuple[object, ...]:
            first = original.get(entry, entry)
            if first in place:
                return first != entry, place[first]
            if first in number:
                return "parameter", number[first]
            node = source(self.nodes, first)
            return first != entry, self.nodes.primitive[node], without_number(self.nodes.name[node])

        return identity
