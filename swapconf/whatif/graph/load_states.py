"""RUN GRAPH + NODES -> in which states the forward pass reads parameters, in the run without a strategy and under one.

A *state* is upstream's monad, an ``UpdateState``: it is attached to what it orders.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property

from swapconf.models.cells import OUTPUT_LAYER
from swapconf.trace.launch_graph import DEPEND, LOAD, NO_NODE, STATE
from swapconf.whatif.graph.attached import attached, attached_kernels
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.inside import ends_in_loss
from swapconf.whatif.graph.nodes import COPY

EMBEDDING, _OUTPUT = "Embedding", f"/{OUTPUT_LAYER}-"
_FAR = 4  # nodes between a parameter and what is made of it


class LoadStates(GraphChange):
    """`reading` is of the run without a strategy, `state` and `set` of the nodes as they change."""

    @cached_property
    def reading(self) -> Mapping[int, tuple[int, int]]:
        """By Load, and by state that others are read in, the micro-batch, and the first kernel that is read for."""
        graph = self.run.graph
        reading: dict[int, tuple[int, int]] = {}
        for node, primitive in enumerate(graph.primitive):
            if primitive == LOAD and (place := self._place(node)) is not None:
                state = graph.inputs[node][1] if len(graph.inputs[node]) > 1 else NO_NODE
                if state == NO_NODE and self.batch(place[1]) is None and not self.is_of_output(place[1]):
                    continue
                reading[node] = place
                while state != NO_NODE and graph.primitive[state] == STATE:
                    if place[0] == self._batch_of_state(state, place[0]):
                        reading[state] = min(reading.get(state, place), place, key=lambda pair: pair[1])
                    state = graph.inputs[state][0]
        for node, primitive in enumerate(graph.primitive):  # what is handed on in a state is read before, too
            state = graph.inputs[node][1] if primitive == DEPEND and len(graph.inputs[node]) > 1 else NO_NODE
            if state in reading and (place := self._place(node)) is not None and place[0] == reading[state][0]:
                reading[state] = min(reading[state], place, key=lambda pair: pair[1])
        return reading

    def state(self, node: int) -> int:
        """The one of a Load, or in front of another state."""
        inputs, place = self.nodes.inputs[node], self._place_of_state(node)
        return inputs[place] if len(inputs) > place else NO_NODE

    def set(self, node: int, state: int) -> None:
        """Let a Load read in another one."""
        place = self._place_of_state(node)
        self.nodes.inputs[node][place : place + 1] = [state]

    def _place_of_state(self, node: int) -> int:
        """Among the inputs of a Load, or of a state."""
        return 1 if self.nodes.primitive[node] == LOAD else 0

    def is_embedding(self, state: int) -> bool:
        """It is behind the embedding alone."""
        return [self.run.graph.primitive[node] for node in attached(self.run.graph, state)] == [EMBEDDING]

    @cached_property
    def has_loss(self) -> bool:
        """The last layer is on this stage."""
        return any(ends_in_loss(self.asked, batch) for batch in range(len(self.baseline.batches)))

    @cached_property
    def returns_last_state(self) -> bool:
        """Whether the loss is here, with which the last state is returned."""
        return self.is_plain and self.has_loss

    @cached_property
    def is_plain(self) -> bool:
        """Layers do not hand on states of their own: those with experts do, which write, and those of Qwen3, whose
        attention returns a tuple."""
        return all(self.batch(kernel) is None for kernel in self.attached_kernels)

    @cached_property
    def attached_kernels(self) -> frozenset[int]:
        return attached_kernels(self.run)

    def is_of_output(self, kernel: int) -> bool:
        return _OUTPUT in self.baseline.kernels.name[kernel]

    def batch(self, kernel: int) -> int | None:
        return self.run.batch_of_pass.get(int(self.baseline.kernels.passing[kernel]))

    def _batch_at(self, kernel: int) -> int | None:
        """That of a kernel of the forward pass; behind the last layer the one that has ended there."""
        if (batch := self.batch(kernel)) is not None or not self.returns_last_state:
            return batch
        ended = bisect_left(self.baseline.batches, kernel, key=lambda batch: batch[-1]) - 1
        is_ahead = ended >= 0 and kernel < int(self.baseline.returnable[self.baseline.batches[ended][-1]])
        return ended if is_ahead else None

    def _batch_of_state(self, state: int, batch: int) -> int:
        """That of what it is behind; of a state without such the one asked for."""
        kernels = (self.run.kernel_of[node] for node in attached(self.run.graph, state) if node in self.run.kernel_of)
        return next((own for kernel in kernels if (own := self.batch(kernel)) is not None), batch)

    def _place(self, node: int, far: int = 0) -> tuple[int, int] | None:
        """(micro-batch, first kernel) that reads a parameter in the forward pass."""
        run, baseline = self.run, self.baseline
        places = list[tuple[int, int]]()
        for user in run.users[node]:
            kernel = run.kernel_of.get(user)
            if kernel is None or baseline.kernels.backward[kernel]:
                continue
            is_made_of_it = baseline.rootless[kernel] or run.graph.primitive[user] == COPY
            if is_made_of_it and far < _FAR:
                place = self._place(user, far + 1)
                places += [place] if place is not None else []
            elif (batch := self._batch_at(kernel)) is not None:
                places.append((batch, kernel))
        return min(places, key=lambda pair: pair[1], default=None)
