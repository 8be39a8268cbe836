"""GATES of what the model itself computes again -> those under a strategy.

The baseline has them already. MindSpore looks for what they wait for when the strategy is there
(frontend/optimizer/irpass/recompute.cc): what is no gradient to it then (`IsGradNode`) is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from swapconf.trace.launch_graph import TUPLE
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.gradients import given_to


class ModelGates(GraphChange):
    def part(self) -> None:
        for kernel, node in self.run.forward_of.items():
            if self.asked.is_inside(node):
                self._part_called(self.run.node_of[kernel])
            elif self.asked.is_excluded(node):
                self._part_excluded(self.run.node_of[kernel])

    def _part_excluded(self, gradient: int) -> None:
        """They wait for no gradient of what is excluded from recompute behind them."""
        for gate in self._gates(gradient):
            self._leave_out(gradient, gate, ())

    def _part_called(self, gradient: int) -> None:
        """What a recomputed cell hands back is the result of a call then. Where nothing else is left, what waited for
        that waits for the gradient of its own output."""
        for gate in self._gates(gradient) if self.run.is_inlined else ():
            if (kernel := self._waiting(gate)) is not None:
                self._leave_out(gradient, gate, self._own_gradients(kernel))

    def _leave_out(self, gradient: int, gate: int, instead: Sequence[int]) -> None:
        """``instead``: where nothing else is left."""
        inputs = self.nodes.inputs[gate]
        self.nodes.inputs[gate] = [given for given in inputs if given != gradient] or [*instead] or inputs

    def _gates(self, gradient: int) -> Iterator[int]:
        run = self.run
        return (gate for gate in run.users[gradient] if self.nodes.primitive[gate] == TUPLE and gate not in run.saved)

    def _waiting(self, gate: int) -> int | None:
        """The first kernel of the forward pass, in no recomputed cell, that is computed again behind a gate."""
        kernels = (self._made.get(user) for tie in self.run.users[gate] for user in self.run.users[tie])
        return next((kernel for kernel in kernels if kernel is not None and not self.asked.is_inside(kernel)), None)

    @cached_property
    def _made(self) -> dict[int, int]:
        """By node that the model computes again the kernel of the forward pass."""
        twins = self.baseline.twin[: self.run.count].tolist()
        return {self.run.node_of[twin]: kernel for kernel, twin in enumerate(twins) if 0 <= twin < self.run.count}

    def _own_gradients(self, kernel: int) -> list[int]:
        run = self.run
        return [given for gradient in self._gradients_of[kernel] for given in given_to(run, run.node_of[gradient])]

    @cached_property
    def _gradients_of(self) -> defaultdict[int, list[int]]:
        """By kernel of the forward pass."""
        gradients_of: defaultdict[int, list[int]] = defaultdict(list)
        for gradient, kernel in self.run.forward_of.items():
            gradients_of[kernel].append(gradient)
        return gradients_of
