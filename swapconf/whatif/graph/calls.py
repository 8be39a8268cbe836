"""GRAPH of a backward pass -> in which order it captures what the forward pass has made, and who reads that first.

With lazy inline a backward pass is a graph of its own, and what it reads of the forward pass are its free variables.
MindSpore 2.9.0 meets the nodes of both with a stack, from the results of the backward pass on
(``FuncGraphManager::AcquireNodes``, core/ir/manager.cc): who is met names first what it reads itself, and of the nodes
that it reads the last is met first. The gradients of one node stand in one tuple, and what a product of matrices reads
of the forward pass is behind a node of its own (measured).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from types import MappingProxyType

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, STATE, LaunchGraph
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.nodes import COPY, MOVE, Nodes

_PRODUCTS = frozenset({"BatchMatMul", "GroupedMatmul", "MatMul"})
_STATES = frozenset({LOAD, STATE})  # tied to parameters later
_OF_PARAMETERS = frozenset(
    {"AllGather", "Cast", COPY, DEPEND, LOAD, MOVE, "Reshape", STATE, "Transpose", "TransposeExtView"}
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a backward pass. ``barrier``: what it waits for. ``results``: what waits for it."""

    barrier: int
    results: int


@dataclass(frozen=True, kw_only=True)
class Met:
    """
    Attributes:
        captured: Nodes of the forward pass, in the order in which they are captured; all outputs of a node are
            captured together. Parameters, which are no nodes, by the tie behind which the call reads them.
        readers: By node of the forward pass its readers there, the first one met first.
    """

    captured: tuple[int, ...]
    readers: Mapping[int, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Handed:
    """What a forward pass hands on in the baseline.

    Attributes:
        order: Nodes of the forward pass, in the order of the tuple.
        explained: Those whose place the search of captures tells. ``late``: those behind all of these,
            which later passes of MindSpore captured.
        parameters: By place in the tuple the tie behind which a parameter is read, where that is known.
        readers: See `Met`.
    """

    order: tuple[int, ...]
    explained: frozenset[int]
    late: frozenset[int]
    parameters: Mapping[int, int] = field(default_factory=dict)
    readers: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, order: tuple[int, ...], captured: Sequence[int]) -> Handed:
        blocks = SequenceMatcher(None, order, captured, autojunk=False).get_matching_blocks()
        explained = frozenset(node for block in blocks for node in order[block.a : block.a + block.size])
        last = max((turn for turn, made in enumerate(order) if made in explained), default=-1)
        return cls(order=order, explained=explained, late=frozenset(order[last + 1 :]))


def source(nodes: Nodes, value: int) -> int:
    """The node of which a value is an output."""
    is_item = value != NO_NODE and nodes.primitive[value] == ITEM
    return nodes.inputs[value][0] if is_item else value


class Search:
    """For what the backward pass behind ``barrier`` captures, from its ``results`` on.

    ``value``: what stands behind a tie to the barrier. ``entered``: what is captured from where the forward pass is
    searched, too. ``is_tie``: see `RunGraph.is_tie`.
    ``given``: by node of a recomputed cell, which is called as a whole, what that is given, its parameters first.
    ``unmet``: what only such calls see. ``alone``: by number of a primitive that is recomputed by itself the nodes that
    it reads, with the order of each: it is a K graph of its own, and its gradients are one call until late.
    """

    def __init__(
        self,
        nodes: Nodes,
        call: Call,
        *,
        number: Sequence[str],
        value: Callable[[int], int],
        is_tie: Callable[[int], bool] = lambda node: True,
        entered: Collection[int] = (),
        given: Mapping[int, Sequence[int]] = MappingProxyType({}),
        unmet: Collection[int] = (),
        alone: Mapping[str, Mapping[int, int]] = MappingProxyType({}),
    ) -> None:
        self._nodes, self._call, self._number, self._value = nodes, call, number, value
        self._is_tie, self._entered, self._given = is_tie, entered, given
        self._unmet = {NO_NODE, call.barrier, *unmet}
        self._with_calls = {value for group in given.values() for value in group if self._is_parameter_of(value)}
        self._is_parameter: dict[int, bool] = {}
        self._alone = dict(alone)
        self._groups = self._grouped()
        self._ends = self._gradients()
        self._stack: list[int] = []
        self._captured: dict[int, None] = {}
        self._forward = set[int]()
        self._readers: defaultdict[int, list[int]] = defaultdict(list)

    def met(self) -> Met:
        met = set[int]()
        self._stack.append(self._call.results)
        while self._stack:
            node = self._stack.pop()
            if node < 0:  # behind a node of its own
                node = ~node
                self._capture(node)
                if node not in self._entered:
                    continue
            if node in met or node in self._unmet or (node not in self._forward and self._spread(node)):
                continue
            met.add(node)
            if node in self._forward:
                self._meet_forward(node)
            else:
                self._meet(node)
        return Met(captured=tuple(self._captured), readers=self._readers)

    def _capture(self, node: int) -> None:
        self._captured.setdefault(node)
        self._forward.add(node)

    def _meet(self, node: int) -> None:
        for place, given in enumerate(self._nodes.inputs[node]):
            if given in self._unmet:
                continue
            if not self._is_captured(given):
                self._stack += map(self._arriving, self._given.get(given, (given,)))
                continue
            value = self._value(given)
            if value == NO_NODE:
                if place == 0 and given not in self._with_calls:  # elsewhere it is a state
                    self._captured.setdefault(given)
                continue
            made = source(self._nodes, value)
            of_product = self._nodes.primitive[node] in _PRODUCTS and not self._of_parameter(value)
            if of_product or self._nodes.primitive[value] == ITEM:
                self._stack.append(~made)
                continue
            self._capture(made)
            self._stack += [made] if made in self._entered else []

    def _arriving(self, given: int) -> int:
        """What a recomputed cell is given may be handed to the call as it is."""
        if given in self._unmet or not self._is_captured(given):
            return given
        value = self._value(given)
        return ~given if value == NO_NODE else ~source(self._nodes, value)

    def _meet_forward(self, node: int) -> None:
        for given in self._nodes.inputs[node]:
            if given != NO_NODE and not self._is_tie(given) and self._nodes.primitive[given] not in _STATES:
                self._readers[given].append(node)
                self._forward.add(given)
                self._stack.append(given)

    def _is_parameter_of(self, given: int) -> bool:
        return self._is_captured(given) and self._value(given) == NO_NODE

    def _is_captured(self, given: int) -> bool:
        """A value that the call is handed, not one that it makes itself."""
        return self._nodes.primitive[given] == DEPEND and self._nodes.inputs[given][1] == self._call.barrier

    def _gradients(self) -> dict[str, list[int]]:
        """By number of a node of the forward pass its gradients that no other of these reads."""
        return {
            number: sorted(self._ends_of(group), key=self._turn)
            for number, group in self._groups.items()
            if len(group) > 1
        }

    def _grouped(self) -> dict[str, set[int]]:
        """By number of a node of the forward pass its gradients."""
        groups: defaultdict[str, set[int]] = defaultdict(set)
        met, stack = set[int](), [self._call.results]
        while stack:
            node = stack.pop()
            if node in met:
                continue
            met.add(node)
            if number := self._number_of(node):
                groups[number].add(node)
            stack += [given for given in self._nodes.inputs[node] if given != NO_NODE and not self._is_captured(given)]
        return groups

    def _turn(self, end: int) -> tuple[bool, int]:
        """Of the gradients of a product that of its input, which reads the weight, is met before that of the weight."""
        is_product = self._nodes.primitive[end] in _PRODUCTS
        return is_product and any(map(self._is_weight, self._nodes.inputs[end])), end

    def _is_weight(self, given: int) -> bool:
        """A parameter that the call is handed, a view of it, or what comes back of it."""
        while given != NO_NODE and self._nodes.primitive[given] in {MOVE, *VIEWS}:
            given = self._nodes.inputs[given][0]
        return given != NO_NODE and self._is_captured(given) and self._of_parameter(self._value(given))

    def _ends_of(self, group: set[int]) -> set[int]:
        read = {given for node in group for given in self._nodes.inputs[node]} - {NO_NODE}
        return group - read - {source(self._nodes, given) for given in read}

    def _number_of(self, node: int) -> str:
        return self._number[node] if node < self._nodes.count and self._nodes.is_kernel(node) else ""

    def _spread(self, node: int) -> bool:
        """Puts all gradients of the same node on the stack when the first of them is met."""
        if (read := self._alone.pop(self._number_of(node), None)) is not None:
            self._spread_call(self._groups[self._number_of(node)], read)
            return True
        ends = self._ends.pop(self._number_of(node), ())
        if len(ends) < 2:
            return False
        self._stack += [*ends, *([node] if node not in ends else ())]
        return True

    def _spread_call(self, group: Collection[int], read: Mapping[int, int]) -> None:
        """The call of the gradients names the K graph first and what these are given last, so that is met before what
        the K graph is given. ``read``: by the primitive, with the order of each."""
        self._unmet.update(group)
        given = dict.fromkeys(value for node in sorted(group) for value in self._nodes.inputs[node])
        maker_of = {
            value: self._maker_of(value)
            for value in given
            if value not in self._unmet and source(self._nodes, value) not in self._unmet
        }
        of_primitive = [value for value, maker in maker_of.items() if maker in read]
        self._stack += map(self._arriving, sorted(of_primitive, key=lambda value: read[maker_of[value]]))
        self._stack += [value for value, maker in maker_of.items() if maker not in read]

    def _maker_of(self, given: int) -> int:
        """The node of the forward pass that a value shows, as it is or in a view."""
        nodes = self._nodes
        while given != NO_NODE and not self._is_captured(given) and nodes.primitive[given] in {MOVE, DEPEND, *VIEWS}:
            given = nodes.inputs[given][0]
        value = self._value(given) if given != NO_NODE and self._is_captured(given) else NO_NODE
        while value != NO_NODE and nodes.primitive[value] == MOVE:
            value = nodes.inputs[value][0]
        return source(nodes, value)

    def _of_parameter(self, value: int) -> bool:
        if value != NO_NODE and value not in self._is_parameter:
            self._is_parameter[value] = False
            inputs = self._nodes.inputs[value]
            inputs = inputs[:1] if self._nodes.primitive[value] == LOAD else inputs  # whatever it is read in
            self._is_parameter[value] = self._nodes.primitive[value] in _OF_PARAMETERS and all(
                map(self._of_parameter, inputs)
            )
        return value == NO_NODE or self._is_parameter[value]


# --- entries of a tuple of saved values -------------------------------------------------------------------------------


def entries(values: Sequence[int], is_none: Callable[[int], bool]) -> list[int]:
    """As numbers: a value is its node; a parameter, which is no node, tells its place in the tuple of the baseline; one
    that the strategy adds is the tie behind which the backward pass reads it. ``values``: what the tuple of the
    baseline holds. ``is_none``: a parameter."""
    return [NO_NODE - 1 - place if is_none(value) else value for place, value in enumerate(values)]


def place_of(entry: int) -> int:
    """That of a parameter of the baseline."""
    return NO_NODE - 1 - entry


def is_of_baseline(entry: int) -> bool:
    """A parameter that the baseline hands on."""
    return entry < NO_NODE


def is_parameter(nodes: Nodes, entry: int) -> bool:
    """Not what the baseline itself ties a parameter to, as one that it sends to another stage."""
    is_added = entry >= nodes.count and nodes.primitive[entry] == DEPEND
    return is_of_baseline(entry) or (is_added and nodes.inputs[entry][0] == NO_NODE)


# --- how the backward pass of the baseline captures -------------------------------------------------------------------


def handed_on(
    graph: LaunchGraph, call: Call, saved: Sequence[int], value: Callable[[int], int], is_tie: Callable[[int], bool]
) -> Handed:
    """What `Search` has to know to explain the tuple of the baseline. ``saved``: its entries."""
    nodes, number = Nodes(graph), graph.forward_unique
    captured = Search(nodes, call, number=number, value=value).met().captured
    parameters = _parameters(nodes, saved, [node for node in captured if is_tie(node) and value(node) == NO_NODE])
    made = (
        parameters.get(place, NO_NODE) if is_of_baseline(entry) else source(nodes, entry)
        for place, entry in enumerate(saved)
    )
    order = tuple(node for node in dict.fromkeys(list(made)[1:]) if node != NO_NODE)
    handed = Handed.of(order, captured)
    entered = set(order) - handed.late
    met = Search(nodes, call, number=number, value=value, is_tie=is_tie, entered=entered).met()
    return replace(handed, parameters=parameters, readers=met.readers)


def _parameters(nodes: Nodes, saved: Sequence[int], ties: Sequence[int]) -> dict[int, int]:
    """By place; nothing where that is not told: who is taken out of the tuple tells its place."""
    places = [place for place, entry in enumerate(saved) if is_of_baseline(entry)]
    tie_of = dict(zip(places, ties, strict=False))
    taken = ((place, nodes.inputs[tie][0]) for place, tie in tie_of.items())
    is_told = all(
        nodes.primitive[item] != ITEM or place == nodes.item[item] for place, item in taken if item != NO_NODE
    )
    return tie_of if len(places) == len(ties) and is_told else {}
