"""KERNELS OF THE BACKWARD PASS -> what each reads under a strategy: what was kept, came back, or runs again.

Mirrors whom recompute (frontend/optimizer/irpass/recompute.cc) lets read the K graph, and whom the primal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swapconf.trace.launch_graph import ITEM, LOAD, NO_NODE, STATE, TUPLE
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.again import RecomputedNodes
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.gradients import arrived, given_to
from swapconf.whatif.graph.view_parts import ViewParts
from swapconf.whatif.parted import others
from swapconf.whatif.site_actions import asked_alone


@dataclass
class ForNothing(GraphChange):
    """Primitives asked for by themselves that nothing needs to run again: for what their gradients wait. MindSpore
    2.9.0 ties what such a primitive is given first to the gradient that arrives at it, before it finds out that nothing
    reads what would be made again (frontend/optimizer/irpass/recompute.cc; measured: the product of a router, whose
    gradient turns what it is given)."""

    _gates: dict[int, int] = field(default_factory=dict)

    @cached_property
    def kernels(self) -> frozenset[int]:
        """Those that the model marks itself are none."""
        marks, baseline = self.marks, self.baseline
        alone = asked_alone(marks.sites, marks.actions) & ~marks.actions.by_model[marks.sites.of_node]
        alone &= ~baseline.views & ~baseline.kernels.backward
        return frozenset(np.flatnonzero(alone[: self.run.count]).tolist()) - frozenset(self.asked.again)

    @cached_property
    def _gradients(self) -> Mapping[int, Collection[int]]:
        """By kernel the nodes of its gradient, ascending."""
        nodes_of = defaultdict[int, list[int]](list)
        for gradient, kernel in self.run.forward_of.items():
            if kernel in self.kernels:
                nodes_of[kernel].append(self.run.node_of[gradient])
        return {kernel: dict.fromkeys(sorted(nodes)) for kernel, nodes in nodes_of.items()}

    def gate(self, kernel: int) -> int:
        """The gradients that arrive at that of a node; NO_NODE for none."""
        if kernel not in self._gates:
            run, own = self.run, self._gradients[kernel]
            given = dict.fromkeys(value for node in own for value in given_to(run, node))
            arriving = [arrived(run, value, "") for value in given if run.source(value)[0] not in own]
            self._gates[kernel] = self.nodes.add(TUPLE, arriving) if arriving else NO_NODE
        return self._gates[kernel]


@dataclass
class BackwardReads:
    """``dropped``: by copy of a weight that is left out what it copied."""

    again: RecomputedNodes
    views: ViewParts
    dropped: dict[int, int] = field(default_factory=dict)

    @cached_property
    def twins(self) -> dict[int, int]:
        """By kernel that the model itself computes again, and that the strategy does, the kernel that it repeats."""
        twin = self.again.baseline.twin
        return {int(twin[kernel]): kernel for kernel in self.again.asked.again if twin[kernel] >= 0}

    @cached_property
    def _for_nothing(self) -> ForNothing:
        return ForNothing(self.again.asked, self.again.nodes)

    @cached_property
    def _views_in_cells(self) -> dict[int, int]:
        """By view that the model itself makes again, of what a recomputed cell is given, the view that it repeats: it
        waits as what runs again in that cell does."""
        run, asked, twin = self.again.run, self.again.asked, self.again.baseline.twin
        kernels = (kernel for kernel in range(run.count) if twin[kernel] >= 0 and kernel not in asked.again)
        return {
            int(twin[kernel]): kernel
            for kernel in kernels
            if run.graph.primitive[run.node_of[kernel]] in VIEWS
            and asked.root[kernel] != NO_CELL
            and not asked.marks.staying[kernel]
            and int(twin[kernel]) not in asked.restored
            and run.is_inlined
        }

    @cached_property
    def _left_out(self) -> frozenset[tuple[int, int]]:
        """(gradient, view): the cell of the gradient has one of its own, which does not run again."""
        baseline, marks = self.again.baseline, self.again.marks
        of_read, reads = marks.sites.of_read, baseline.reads
        left = (of_read >= 0) & marks.actions.excluded[of_read] & baseline.views[reads.face] & (reads.face >= 0)
        left |= others(baseline, marks.sites) & ~marks.actions.again[of_read] & (marks.sites.of_node[reads.face] >= 0)
        return frozenset(zip(reads.kernel[left].tolist(), reads.face[left].tolist(), strict=True))

    def seen(self, given: int, kernel: int) -> int:
        """``given``: what a kernel reads in the baseline."""
        asked, run, nodes = self.again.asked, self.again.run, self.again.nodes
        barrier, value, gates = run.through_barrier(given)
        source = run.source(value)[0] if value != NO_NODE else NO_NODE
        if source in self.dropped:
            node = run.forward_of.get(kernel, run.kernel_of[self._first_kernel(source)])
            return self.again.loaded(self.dropped[source], node, barrier, asked.part(node))
        made = run.kernel_of.get(source)
        if made is None:
            return self._parameter(given, value, kernel, barrier)
        if gates and kernel in self._views_in_cells and made not in asked.again:
            return self._given_to_cell(kernel, barrier, value)
        if made in asked.restored:
            return self._given_to_primitive(self._restored(made, source), run.node_of[asked.restored[made]], kernel)
        if made in self.twins and nodes.primitive[source] not in VIEWS:
            original = self.twins[made]
            return self.again.copied(run.node_of[original], self._barrier_in_front(source), asked.part(original))
        return given if run.is_backward(source) else self._of_forward(given, kernel, made)

    def _of_forward(self, given: int, kernel: int, made: int) -> int:
        """``made``: the kernel of the forward pass that makes what is given."""
        asked, run, nodes = self.again.asked, self.again.run, self.again.nodes
        barrier, value, gates = run.through_barrier(given)
        source, item = run.source(value)
        forward, part = run.forward_of.get(kernel, kernel), asked.part(kernel)
        own_view = self.views.of_product.get((source, forward), source)
        if own_view != source:
            given = value = self.again.ties.behind_barrier(own_view, barrier)
        if nodes.primitive[value] == LOAD:
            return self.again.loaded(value, forward, barrier, part)
        constant = self.again.constants.again(value, forward)
        if constant != NO_NODE:
            return constant
        use = asked.use(kernel, False, source, item)
        own = self._own_table(value, forward, part.passing)
        if own != value and use.window < 0 and not use.again:
            return self.again.ties.behind_barrier(own, barrier)
        is_copied = use.again or (nodes.primitive[source] in VIEWS and (kernel, made) not in self._left_out)
        if made in asked.again and asked.remakes(made, part, forward) and is_copied:
            return self.again.shown(value, barrier, self.again.gates.components.read_in(part, source, forward))
        seen = self._taken_out(given, part)
        if use.window >= 0:
            seen = self.again.moves.returned(use.window, barrier)
            for gate in reversed(gates):
                seen = self.again.ties.gated(seen, gate)
        if barrier == NO_NODE:
            return seen
        if kernel in run.twins and self.again.slices.is_sliced(made, item):
            return self.again.slices.gathered(
                self.again.ties.behind_barrier(value, barrier), NO_NODE, asked.row(source, item)
            )
        return self._given_to_primitive(self.again.gated(seen, source, forward, part, item), source, kernel)

    def _given_to_primitive(self, seen: int, source: int, kernel: int) -> int:
        """The gradient of a primitive that was asked for by itself reads what that is given first as what runs again
        does, behind its gate, also where nothing reads what would be made again; it waits for the gradient that arrives
        then. ``source``: the node that makes what is ``seen``."""
        asked, run = self.again.asked, self.again.run
        forward, part = run.forward_of.get(kernel, NO_NODE), asked.part(kernel)
        is_again = forward in asked.again
        if not run.is_inlined or part.cell != NO_CELL or not (is_again or forward in self._for_nothing.kernels):
            return seen
        first = next((value for value in run.graph.inputs[run.node_of[forward]] if value != NO_NODE), NO_NODE)
        if forward in asked.shared or first == NO_NODE or run.source(first)[0] != source:
            return seen
        gate = self.again.gates.of(forward, part) if is_again else self._for_nothing.gate(forward)
        return self.again.ties.gated(seen, gate)

    def _given_to_cell(self, view: int, barrier: int, value: int) -> int:
        """What a view that the model makes again shows of what a recomputed cell is given."""
        original, (source, item) = self._views_in_cells[view], self.again.run.source(value)
        part, window = self.again.asked.part(original), self.again.asked.use(view, False, source, item).window
        seen = (
            self.again.moves.returned(window, barrier)
            if window >= 0
            else self.again.ties.behind_barrier(value, barrier)
        )
        return self.again.gated(seen, source, original, part, item)

    def _taken_out(self, given: int, part: Part) -> int:
        """Without lazy inline a gradient in a layer that is recomputed as a whole reads one of several outputs as the
        forward pass takes it out, where it would take it out for itself otherwise."""
        nodes = self.again.nodes
        if self.again.run.is_inlined or nodes.primitive[given] != ITEM or not self.again.asked.is_whole(part):
            return given
        users, item = self.again.run.users[nodes.inputs[given][0]], nodes.item[given]
        return min(user for user in users if nodes.primitive[user] == ITEM and nodes.item[user] == item)

    def _parameter(self, given: int, value: int, kernel: int, barrier: int) -> int:
        """What a gradient reads of a parameter in a recomputed cell waits as what runs again there does, and so do,
        without lazy inline, the states behind it."""
        forward = self.again.run.forward_of.get(kernel, kernel)
        part = self.again.asked.part(forward)
        if value == NO_NODE or self.again.nodes.primitive[value] != LOAD or part.cell == NO_CELL:
            return given if self.again.run.is_inlined else value
        gated, node = self.again.loaded(value, forward, barrier, part), self.again.run.node_of[kernel]
        if self.again.run.is_inlined:
            return gated
        for user in self.again.run.users[node]:
            if self.again.nodes.primitive[user] == STATE and gated != value:
                self.again.nodes.inputs[user] = [
                    gated if given == node else given for given in self.again.nodes.inputs[user]
                ]
        return gated

    def _restored(self, twin: int, node: int) -> int:
        """What the forward pass made, in place of what the model would make again."""
        barrier = self._barrier_in_front(node)
        node = self.views.of_twin.get(twin, self.again.run.node_of[self.again.asked.restored[twin]])
        return self.again.ties.behind_barrier(node, barrier)

    def _barrier_in_front(self, node: int) -> int:
        barriers = (self.again.run.through_barrier(given)[0] for given in self.again.run.graph.inputs[node])
        return next((barrier for barrier in barriers if barrier != NO_NODE), NO_NODE)

    def _first_kernel(self, node: int) -> int:
        return next(user for user in self.again.run.users[node] if user in self.again.run.kernel_of)

    def _own_table(self, value: int, reader: int, passing: int) -> int:
        layer = int(self.again.baseline.kernels.layer[passing]) if passing >= 0 else -1
        return self.again.tables.seen(value, reader, layer)
