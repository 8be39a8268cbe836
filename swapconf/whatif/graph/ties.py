"""Values as the backward pass sees them: tied to the barrier of its call, and saved by the forward pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, SAME_VALUE
from swapconf.whatif.graph.alternation import Alternation
from swapconf.whatif.graph.captured import Captures
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.run_graph import RunGraph


@dataclass
class Ties:
    """What is added to ``nodes`` so that the backward pass may read values of the forward pass.

    Attributes:
        fresh: By tuple of saved values those that it has to hold besides.
    """

    run: RunGraph
    nodes: Nodes
    fresh: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _known: dict[tuple[int, int], int] = field(default_factory=dict)
    _gated: dict[tuple[int, int], int] = field(default_factory=dict)
    _loads: dict[tuple[int, int], int] = field(default_factory=dict)
    _states: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known |= self.run.ties

    @property
    def known(self) -> dict[tuple[int, int], int]:
        """By value and barrier, those of the baseline included."""
        return self._known

    def behind_barrier(self, value: int, barrier: int) -> int:
        if barrier == NO_NODE:
            return value
        if (value, barrier) not in self._known:
            self._known[value, barrier] = self.nodes.tied(value, barrier)
            if self._is_made(value):
                self.fresh[self.run.saved_behind.get(barrier, NO_NODE)].append(value)
        return self._known[value, barrier]

    def _is_made(self, value: int) -> bool:
        """By a kernel; parameters need not be handed on."""
        while not self.nodes.is_kernel(value):
            if self.nodes.primitive[value] not in SAME_VALUE | {ITEM}:
                return False
            value = self.nodes.inputs[value][0]
            if value == NO_NODE:
                return False
        return True

    def gated(self, value: int, gate: int) -> int:
        """The value, as what waits for a gradient sees it."""
        if gate == NO_NODE:
            return value
        if (value, gate) not in self._gated:
            self._gated[value, gate] = self.nodes.tied(value, gate)
        return self._gated[value, gate]

    def loaded(self, load: int, barrier: int, gate: int, state: int = NO_NODE) -> int:
        """A parameter in a recomputed cell: it is tied to the gradient, and so is the state in which it is read, by
        default that in which the cell is called."""
        if (load, gate) not in self._loads:
            parameter = self.nodes.inputs[load][0]
            while parameter != NO_NODE and self.nodes.primitive[parameter] == DEPEND:
                parameter = self.nodes.inputs[parameter][0]
            handed = (
                self.nodes.tied(parameter, barrier) if parameter == NO_NODE else self.behind_barrier(parameter, barrier)
            )
            value = self.nodes.tied(handed, gate)
            read = state if state != NO_NODE else self.state(barrier, gate)
            self._loads[load, gate] = self.nodes.add(LOAD, (value, read))
        return self._loads[load, gate]

    def state(self, barrier: int, gate: int) -> int:
        """That in which a recomputed cell is called."""
        if gate not in self._states:
            called = self.nodes.tied(NO_NODE, barrier) if self.run.is_inlined else NO_NODE
            self._states[gate] = self.nodes.tied(called, gate)
        return self._states[gate]

    def save(self, moved: dict[int, int], given: Mapping[int, Sequence[int]]) -> None:
        """Let each tuple hold what the backward pass reads now. ``moved``: by value its copy on the host. ``given``:
        see `Again.given`."""
        nodes = self.nodes
        read = self._live()
        kept = {value for (value, _), tie in self._known.items() if tie in read}
        known = {value for value, _ in self._known}
        tuples = dict[int, list[int]]()
        for saved in self.run.forward_tuples:
            fresh = [value for value in dict.fromkeys(self.fresh[saved]) if value in kept]
            held = list(self.run.graph.inputs[saved])
            gone = self._makers(value for value in held if value in known and value not in kept)
            gone -= self._makers(value for value in held if value in kept)
            new = held[:1]
            for value in held[1:]:
                if value in kept or (value not in known and not gone & self._makers([value])):
                    new.append(value)
                elif moved.get(value) in fresh:
                    new.append(moved[value])
                    fresh.remove(moved[value])
            tuples[saved] = [*new, *(value for value in fresh if value not in new)]
        for saved, values in Captures(self.run, nodes, given).sort(tuples, moved).items():
            nodes.inputs[saved] = values
        self._count_again()
        Alternation(self.run, nodes).apply(self._known, read)

    def _makers(self, values: Iterable[int]) -> set[int]:
        """Of what is taken out of several outputs: a gradient is handed all of them, whichever it reads."""
        nodes = self.nodes
        return {nodes.inputs[value][0] for value in values if value != NO_NODE and nodes.primitive[value] == ITEM}

    def _count_again(self) -> None:
        """What is taken out of a tuple is told by its place there."""
        inputs = self.nodes.inputs
        places = {saved: {value: turn for turn, value in enumerate(inputs[saved])} for saved in self.run.forward_tuples}
        for node in range(self.nodes.count):
            saved = self.nodes.inputs[node][0] if self.nodes.primitive[node] == ITEM else NO_NODE
            if saved in places:
                value = self.run.graph.inputs[saved][int(self.run.graph.item[node])]
                self.nodes.item[node] = places[saved].get(value, 0)

    def _live(self) -> set[int]:
        """What the end leads to, other than through saved values."""
        nodes, found, forward = self.nodes, set[int](), self.run.forward_tuples
        stack = [nodes.end]
        while stack:
            node = stack.pop()
            if node in found:
                continue
            found.add(node)
            given = nodes.inputs[node][:1] if node in forward else nodes.inputs[node]
            stack += [one for one in given if one != NO_NODE and one not in found]
        return found
