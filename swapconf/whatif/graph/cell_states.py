"""RECOMPUTED CELLS -> parameters that are read behind one wait for what it returns.

MindSpore 2.9.0 hands the state in which parameters are read (``UpdateState``) from one to the next, as long as
something that is still to come writes, as a router that counts its tokens does. A recomputed cell is a graph of its
own until late, so that the state behind it is that behind its call, where that returns a tuple (and is no Linear, nor,
with the loss on this stage, of a feed-forward network); a cell that writes itself returns the state. Where any cell is
recomputed, what is read in no state otherwise is read in that behind the embedding, the weight of the output layer
with it. With the loss on this stage and nothing that writes, whole layers and latent attentions are waited for; in a
step of one micro-batch layers are not, whose parameters are read in the state in front of them (TeleChat3, last graphs
of 4 of 4 runs). In steps of one micro-batch only with lazy inline (measured: DeepSeek-V3, Qwen3 and TeleChat3, with
experts and without).

A *state* is upstream's monad. Mirrors auto_monad and ``updatestate_eliminate``
(frontend/optimizer/irpass/updatestate_eliminate.cc), which joins states inside one func graph, not across the call of a
recomputed cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from swapconf.models.cells import FIRST_LINEAR, LATENT_ATTENTION, LINEARS, MLP, SELF_ATTENTION
from swapconf.trace.launch_graph import DEPEND, LOAD, NO_NODE, STATE, TUPLE
from swapconf.whatif.graph.asked import ASSIGNS, NO_CELL, Part
from swapconf.whatif.graph.attached import attached
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.forward_states import AttentionStates, CalledStates, ExpertStates
from swapconf.whatif.graph.load_states import EMBEDDING, LoadStates
from swapconf.whatif.graph.nodes import COPY

_NOTHING_BEFORE = -1
_WRITES = (ASSIGNS, EMBEDDING)  # tokens of experts; the norms of what it reads


class _Called(NamedTuple):
    """A recomputed cell in one pass: the last of its kernels, and the pass."""

    last: int
    passing: int


@dataclass
class CellStates(GraphChange):
    states: LoadStates
    _waits: dict[int, int] = field(default_factory=dict)

    def tie(self) -> None:
        if not (self.run.is_inlined or self.baseline.is_accumulated):
            return
        if self.marks.actions.cells:
            self._read_behind_embeddings()
            self._attentions.tie()
            if self.states.is_plain:
                CalledStates(self.asked, self.nodes, self.states).tie()
        batch_of = self.run.batch_of_pass
        last: dict[int, int] = {}
        for call in sorted(self._calls()):
            behind: dict[int, int] = {}
            for node, (batch, place) in self.states.reading.items():
                state = self.states.state(node)
                if batch == batch_of.get(call.passing) and call.last < place and self._waits_for(state) < call.last:
                    if state not in behind:
                        behind[state] = self._behind(state, call)
                    self.states.set(node, behind[state])
                    last[batch] = behind[state]
        if self.states.returns_last_state:
            for batch, state in last.items():
                self._return(batch, state)
        ExpertStates(self.asked, self.nodes, self.states).tie()

    def _return(self, batch: int, state: int) -> None:
        """What a forward pass returns waits for the last state, and for what was read in it; without lazy inline it is
        part of the step, and returns nothing."""
        saved = self.run.saved_of.get(batch)
        if saved is None:
            return
        read = (node for node in self._handed.get(batch, self.states.reading) if self.states.state(node) == state)
        copies = [next((user for user in self.run.users[node] if self._copies(user)), node) for node in read]
        value = self.nodes.inputs[saved][0]
        if self.nodes.primitive[value] == DEPEND and not self.nodes.waits_for_state(value):
            end = self.nodes.add(STATE, (state, self.nodes.add(TUPLE, copies)))
            self.nodes.inputs[value][0] = self.nodes.tied(self.nodes.inputs[value][0], end)

    @cached_property
    def _handed(self) -> Mapping[int, list[int]]:
        """By micro-batch the Loads that what the output layer reads waits for in the baseline, in their order."""
        graph, loads_of = self.run.graph, dict[int, list[int]]()
        for node, primitive in enumerate(graph.primitive):
            state = graph.inputs[node][1] if primitive == DEPEND and len(graph.inputs[node]) > 1 else NO_NODE
            if state == NO_NODE or graph.primitive[state] != STATE:
                continue
            awaited = [item for behind in graph.inputs[state][1:] for item in self._items(behind)]
            loads = [graph.inputs[item][0] if graph.primitive[item] == COPY else item for item in awaited]
            read = [load for load in loads if load in self.states.reading]
            if any(self.states.is_of_output(self.states.reading[load][1]) for load in read):
                loads_of[self.states.reading[read[0]][0]] = read
        return loads_of

    def _items(self, node: int) -> tuple[int, ...]:
        return self.run.graph.inputs[node] if node != NO_NODE and self.run.graph.primitive[node] == TUPLE else ()

    def _copies(self, node: int) -> bool:
        return self.nodes.primitive[node] == COPY

    def _read_behind_embeddings(self) -> None:
        """What is read in no state."""
        embedded = {
            batch: node
            for node, (batch, _) in sorted(self.states.reading.items(), reverse=True)
            if self.nodes.primitive[node] == STATE and self.states.is_embedding(node)
        }
        for node, (batch, place) in self.states.reading.items():
            is_free = self.nodes.primitive[node] == LOAD and self.states.state(node) == NO_NODE
            if is_free and batch in embedded and self._waits_for(embedded[batch]) < place:
                self.states.set(node, embedded[batch])

    def _behind(self, state: int, call: _Called) -> int:
        new = self.nodes.add(STATE, (state, self.run.node_of[call.last]))
        self._waits[new] = call.last
        return new

    def _calls(self) -> Iterator[_Called]:
        """Cells that read parameters, write nothing, and in front of something that writes."""
        baseline, under = self.baseline, self.marks.covered.under
        passing, root = baseline.kernels.passing, self.asked.root
        recomputed = {
            (int(passing[kernel]), int(root[kernel]))
            for kernel in self.asked.again
            if root[kernel] != NO_CELL and not baseline.kernels.backward[kernel]
        }
        for number, cell in recomputed:
            inside = np.flatnonzero(under[cell] & (passing == number) & ~baseline.kernels.backward)
            inside = inside[inside < self.run.count]
            busy, kernels = inside[~baseline.rootless[inside]], inside.tolist()
            reads = any(map(self._loads, kernels)) and self._effects.isdisjoint(kernels)
            if len(busy) and reads and self._is_awaited(Part(number, cell)):
                batch, last = self.run.batch_of_pass.get(number), int(busy[-1])
                is_layer = self.marks.actions.cells[cell] == ""
                is_attention = self.asked.type_of(Part(number, cell)).endswith(LATENT_ATTENTION)
                if (
                    (is_layer and not self._is_once and (self.states.returns_last_state or self._is_followed(number)))
                    or (is_attention and self.states.returns_last_state)
                    or self.baseline.layer_of(number) in self._in_front_of_writing
                    or any(kernel > last and self.states.batch(kernel) == batch for kernel in self._effects)
                ):
                    yield _Called(last, number)

    @property
    def _is_once(self) -> bool:
        return not (self.asked.is_pipelined or self.baseline.is_accumulated)

    @cached_property
    def _in_front_of_writing(self) -> frozenset[str]:
        """Layers with one behind them that writes, on whatever stage: stages are parted later."""
        operators = self.marks.strategy.operators
        names = list(operators)
        writing = (
            turn
            for turn, name in enumerate(names)
            if any(operator.executed and operator.type.startswith(ASSIGNS) for operator in operators[name].values())
        )
        return frozenset(names[: max(writing, default=0)])

    def _is_awaited(self, part: Part) -> bool:
        """There is a state behind the call of a cell, as it returns a tuple. An attention with norms of query and key
        has none but that in which it hands out these (seen in the last graphs of Qwen3 and Qwen3-MoE)."""
        names = self.marks.actions.cells[part.cell].split(".")
        if not self.asked.returns_tuple(part) or _is_linear(names[-1]) or (MLP in names and self.states.has_loss):
            return False
        return names != [SELF_ATTENTION] or not self._attentions.handed_out(part.passing)

    @cached_property
    def _attentions(self) -> AttentionStates:
        return AttentionStates(self.asked, self.nodes, self.states)

    def _is_followed(self, number: int) -> bool:
        """By a layer on this stage that is not recomputed as a whole, and so reads in a state of its own."""
        batch = self.baseline.batches[self.run.batch_of_pass[number]]
        behind = batch[batch.index(number) + 1 :]
        return self.states.is_plain and not all(
            self.asked.is_whole(Part(passing, int(self.asked.root[passing]))) for passing in behind
        )

    def _loads(self, kernel: int) -> bool:
        inputs = self.run.graph.inputs[self.run.node_of[kernel]]
        return any(given != NO_NODE and self.run.graph.primitive[given] == LOAD for given in inputs)

    @cached_property
    def _effects(self) -> frozenset[int]:
        """Kernels of the forward pass that write."""
        primitive = self.baseline.kernels.primitive
        return frozenset(kernel for kernel in self.states.attached_kernels if primitive[kernel].startswith(_WRITES))

    def _waits_for(self, state: int) -> int:
        """The last kernel that a state is behind."""
        if state == NO_NODE:
            return _NOTHING_BEFORE
        if state not in self._waits:
            run = self.run
            graph = run.graph if state < self.nodes.count else self.nodes  # a state of the strategy is in no other
            kernels = [run.kernel_of[node] for node in attached(graph, state) if node in run.kernel_of]
            before = self.nodes.inputs[state][0] if self.nodes.primitive[state] == STATE else NO_NODE
            self._waits[state] = max([*kernels, self._waits_for(before)], default=_NOTHING_BEFORE)
        return self._waits[state]


def _is_linear(name: str) -> bool:
    """For which nothing waits: not the first of a feed-forward network (measured: DeepSeek-V3, in a stage in front of
    experts)."""
    return name.startswith(LINEARS) and name != FIRST_LINEAR
