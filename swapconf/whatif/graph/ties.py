"""Values as the backward pass sees them: tied to the barrier of its call.

Mirrors the ``Depend`` behind which a func graph reads what its call is handed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, SAME_VALUE
from swapconf.whatif.graph.change import GraphChange


@dataclass
class Ties(GraphChange):
    """What is added to ``nodes`` so that the backward pass may read values of the forward pass.

    Attributes:
        fresh: By tuple of saved values those that it has to hold besides.
        tied: By value and barrier the tie, those of the baseline included.
    """

    fresh: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    tied: dict[tuple[int, int], int] = field(default_factory=dict)
    _gated: dict[tuple[int, int], int] = field(default_factory=dict)
    _loads: dict[tuple[int, int], int] = field(default_factory=dict)
    _states: dict[int, int] = field(default_factory=dict)
    _called: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tied |= self.run.ties

    def behind_barrier(self, value: int, barrier: int) -> int:
        if barrier == NO_NODE:
            return value
        if (value, barrier) not in self.tied:
            self.tied[value, barrier] = self.nodes.tied(value, barrier)
            if self._is_made(value):
                self.fresh[self.run.saved_behind.get(barrier, NO_NODE)].append(value)
        return self.tied[value, barrier]

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

    def first_gated(self, inputs: list[int], gate: int) -> list[int]:
        """The first that is a node waits for a gate; where there is none, the first."""
        place = next((place for place, given in enumerate(inputs) if given != NO_NODE), 0)
        if gate != NO_NODE and inputs:
            is_node = inputs[place] != NO_NODE
            inputs[place] = self.gated(inputs[place], gate) if is_node else self.nodes.tied(NO_NODE, gate)
        return inputs

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
        """That in which a recomputed cell is called; a legacy model hands none on."""
        if gate not in self._states:
            called = NO_NODE
            if self.run.is_inlined and self.asked.is_mcore and barrier != NO_NODE:
                if barrier not in self._called:
                    self._called[barrier] = self.nodes.tied(NO_NODE, barrier)
                called = self._called[barrier]
            self._states[gate] = self.nodes.tied(called, gate)
        return self._states[gate]

    @property
    def called(self) -> frozenset[int]:
        """The ties behind which the states are read in which recomputed cells are called."""
        return frozenset(self._called.values())

    def is_parameter(self, node: int) -> bool:
        """A tie behind which a call reads a parameter."""
        if node == NO_NODE or self.nodes.primitive[node] != DEPEND or node in self._called.values():
            return False
        value, barrier = self.nodes.inputs[node][:2]
        return barrier in self.run.barriers and (value if node >= self.nodes.count else self.run.value(node)) == NO_NODE
