"""RUN GRAPH + ASKED -> the graph of one step under a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from swapconf.trace.launch_graph import ITEM, LOAD, NO_NODE, STATE, TUPLE
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.again import Again
from swapconf.whatif.graph.asked import NO_CELL, Asked, Part
from swapconf.whatif.graph.cell_states import CellStates
from swapconf.whatif.graph.constants import Constants
from swapconf.whatif.graph.gates import Gates
from swapconf.whatif.graph.moves import Moves
from swapconf.whatif.graph.nodes import COPY, Nodes
from swapconf.whatif.graph.prefetch import prefetched
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.graph.saved import Saved
from swapconf.whatif.graph.slices import Slices
from swapconf.whatif.graph.states import States
from swapconf.whatif.graph.sums import turn_sums_of_experts
from swapconf.whatif.graph.tables import Tables
from swapconf.whatif.graph.ties import Ties
from swapconf.whatif.swap import Windows

_ADDS = "AssignAdd"


@dataclass(frozen=True, kw_only=True, eq=False)
class StrategyGraph:
    """The nodes of one step, and what those stand for that the baseline does not have.

    Attributes:
        copies: By node the kernel of which it is a copy: one that runs again, or a table of some layers' own.
        again: Nodes that run again.
        out, back: By node the window of a copy to the host, and of one to the device.
        sums, norms: See `Moves` and `Again`.
        weights: By node of a copy of a weight the row of that in the baseline.
        constants: Rows of constants that lie on the device once more.
    """

    run: RunGraph
    nodes: Nodes
    windows: Windows | None = None
    copies: Mapping[int, int] = field(default_factory=dict)
    again: frozenset[int] = frozenset()
    out: Mapping[int, int] = field(default_factory=dict)
    back: Mapping[int, int] = field(default_factory=dict)
    sums: Mapping[int, int] = field(default_factory=dict)
    norms: frozenset[int] = frozenset()
    weights: Mapping[int, int] = field(default_factory=dict)
    constants: Sequence[int] = ()


def unchanged(run: RunGraph) -> StrategyGraph:
    """The graph of the baseline itself."""
    return StrategyGraph(run=run, nodes=Nodes(run.graph))


def strategy_graph(asked: Asked) -> StrategyGraph:
    """Raises ValueError where nodes would wait for one another in a circle."""
    return _Building(asked).graph()


class _Building:
    def __init__(self, asked: Asked) -> None:
        self._asked, self._run = asked, asked.run
        self._nodes = Nodes(asked.run.graph)
        self._ties = Ties(asked.run, self._nodes, asked.is_mcore)
        self._tables = Tables(asked, self._nodes)
        self._gates = Gates(asked, self._nodes)
        self._moves = Moves(asked, self._nodes, self._ties, self._tables.made)
        self._constants = Constants(asked, self._nodes, self._tables, self._ties, self._gates)
        self._slices = Slices(asked, self._nodes, self._ties)
        self._again = Again(
            asked, self._nodes, self._ties, self._gates, self._moves, self._tables, self._constants, self._slices
        )
        self._dropped: dict[int, int] = {}
        self._parted: dict[int, int] = {}

    def graph(self) -> StrategyGraph:
        self._tables.part()
        self._gates.part_excluded()
        self._part_views()
        self._drop_copies()
        baseline, twins = self._asked.prepared.baseline, self._twins
        for kernel in np.flatnonzero(baseline.kernels.backward[: self._run.count]).tolist():
            if kernel not in twins:
                self._read(self._run.node_of[kernel], kernel)
        for node in (node for node in self._run.node_of if self._nodes.primitive[node] == _ADDS):
            self._gate_sum(node)
        turn_sums_of_experts(self._asked, self._nodes)
        self._gates_see_returned()
        self._merge_twins()
        windows = self._asked.windows
        for window in np.flatnonzero(windows.unread & (windows.face < self._run.count)).tolist():
            self._moves.unread(window)
        Saved(self._asked, self._nodes, self._again).tie()
        States(self._asked, self._nodes).tie()
        CellStates(self._asked, self._nodes).tie()
        back = {node: window for (window, _), node in self._moves.back.items()}
        prefetched(self._nodes, self._run, windows.prefetch, back)
        again = self._again.kernel_of | self._constants.kernel_of
        return StrategyGraph(
            run=self._run,
            nodes=self._nodes,
            windows=windows,
            copies=again | self._tables.kernel_of | self._slices.kernel_of,
            again=frozenset(again),
            out={node: window for window, node in self._moves.out.items()},
            back=back,
            sums=self._moves.sums,
            norms=frozenset(self._again.norms),
            weights=self._again.weights | self._slices.rows,
            constants=self._constants.rows(),
        )

    def _merge_twins(self) -> None:
        """In a recomputed cell what the model computes again for several readers is computed once."""
        asked, run, baseline = self._asked, self._run, self._asked.prepared.baseline
        merged: dict[int, int] = {}
        for kernel in asked.again:
            twin, cell = int(baseline.twin[kernel]), int(asked.root[kernel])
            if twin >= 0 and cell != NO_CELL and run.graph.primitive[run.node_of[kernel]] in VIEWS:
                others = (one for one in baseline.further_twins.get(twin, ()) if one not in asked.restored)
                merged |= {run.node_of[other]: run.node_of[twin] for other in others}
        for other in merged:
            for user in run.users[other]:
                self._nodes.inputs[user] = [merged.get(given, given) for given in self._nodes.inputs[user]]

    @cached_property
    def _twins(self) -> dict[int, int]:
        """By kernel that the model itself computes again, and that the strategy does, the kernel that it repeats."""
        twin = self._asked.prepared.baseline.twin
        return {int(twin[kernel]): kernel for kernel in self._asked.again if twin[kernel] >= 0}

    @cached_property
    def _views_in_cells(self) -> dict[int, int]:
        """By view that the model itself makes again, of what a recomputed cell is given, the view that it repeats: it
        waits as what runs again in that cell does."""
        run, asked, twin = self._run, self._asked, self._asked.prepared.baseline.twin
        found = (kernel for kernel in range(run.count) if twin[kernel] >= 0 and kernel not in asked.again)
        return {
            int(twin[kernel]): kernel
            for kernel in found
            if run.graph.primitive[run.node_of[kernel]] in VIEWS
            and asked.root[kernel] != NO_CELL
            and not asked.plan.marks.staying[kernel]
            and int(twin[kernel]) not in asked.restored
            and run.is_inlined
        }

    def _part_views(self) -> None:
        """A view of several products, of which the recompute of some is excluded, is one for these and one for others,
        which MindSpore no longer takes for the same."""
        run, nodes, baseline = self._run, self._nodes, self._asked.prepared.baseline
        for first, further in baseline.further_twins.items():
            kept = {twin: self._asked.restored[twin] for twin in (first, *further) if twin in self._asked.restored}
            if not 0 < len(kept) <= len(further) or max(kept.values()) >= run.count:
                continue
            (view, *_) = map(run.node_of.__getitem__, kept.values())
            mine = nodes.add(nodes.primitive[view], nodes.inputs[view], nodes.name[view])
            self._parted |= dict.fromkeys(kept, mine)
            cells = {baseline.kernels.cell[twin] for twin in kept}
            for user in run.users[view]:
                if user in run.kernel_of and baseline.kernels.cell[run.kernel_of[user]] in cells:
                    nodes.inputs[user] = [mine if given == view else given for given in nodes.inputs[user]]

    def _drop_copies(self) -> None:
        """A norm in a recomputed cell reads its weight itself, not the copy that is made for the backward pass."""
        run, nodes = self._run, self._nodes
        for node in range(nodes.count):
            load = nodes.inputs[node][0] if nodes.primitive[node] == COPY and nodes.inputs[node] else NO_NODE
            if load == NO_NODE or nodes.primitive[load] != LOAD:
                continue
            readers = [run.kernel_of[user] for user in run.users[node] if user in run.kernel_of]
            forward = [reader for reader in readers if not self._asked.prepared.baseline.kernels.backward[reader]]
            if forward and all(map(self._asked.is_inside, forward)):
                self._dropped[node] = load
                self._let_read_weight(node, load)

    def _let_read_weight(self, node: int, load: int) -> None:
        for user in self._run.users[node]:
            if user in self._run.saved or self._run.is_tie(user):
                continue
            other = NO_NODE if self._nodes.primitive[user] == TUPLE else load
            self._nodes.inputs[user] = [other if given == node else given for given in self._nodes.inputs[user]]

    def _read(self, node: int, kernel: int) -> None:
        """Let a kernel of the backward pass, or a tuple that it reads, read what the strategy has for it."""
        inputs = self._nodes.inputs[node]
        for place, given in enumerate(list(inputs)):
            if given == NO_NODE or given >= self._nodes.count:
                continue
            if self._nodes.primitive[given] == TUPLE and given not in self._run.saved:
                self._read(given, kernel)
            else:
                inputs[place] = self._seen(given, kernel)

    def _gate_sum(self, node: int) -> None:
        """A sum of gradients is a parameter of the cell, too."""
        inputs = self._nodes.inputs[node]
        if len(inputs) < 2 or not self._run.is_tie(inputs[0]):
            return
        added, _ = self._run.source(inputs[1])
        kernel = self._run.kernel_of.get(added)
        part = self._asked.part(kernel) if kernel in self._run.forward_of else None
        if kernel is not None and part is not None and part.cell != NO_CELL:
            inputs[0] = self._ties.gated(inputs[0], self._gates.of(kernel, part))

    def _seen(self, given: int, kernel: int) -> int:
        asked, run, nodes = self._asked, self._run, self._nodes
        barrier, value, gates = run.through_barrier(given)
        source, item = run.source(value) if value != NO_NODE else (NO_NODE, 0)
        if source in self._dropped:
            node = run.forward_of.get(kernel, run.kernel_of[self._first_kernel(source)])
            return self._again.loaded(self._dropped[source], node, barrier, asked.part(node))
        made = run.kernel_of.get(source)
        if made is None:
            return self._parameter(given, value, kernel, barrier)
        if gates and kernel in self._views_in_cells and made not in asked.again:
            original = self._views_in_cells[kernel]
            part, window = asked.part(original), asked.use(kernel, False, source, item).window
            seen = self._moves.returned(window, barrier) if window >= 0 else self._ties.behind_barrier(value, barrier)
            return self._again.gated(seen, source, original, part, item)
        if made in asked.restored:
            return self._restored(made, source)
        if made in self._twins and nodes.primitive[source] not in VIEWS:
            one = self._twins[made]
            return self._again.copied(run.node_of[one], self._barrier_in_front(source), asked.part(one))
        if run.is_backward(source):
            return given
        forward, part = run.forward_of.get(kernel, kernel), asked.part(kernel)
        if nodes.primitive[value] == LOAD:
            return self._again.loaded(value, forward, barrier, part)
        constant = self._constants.again(value, forward)
        if constant != NO_NODE:
            return constant
        use = asked.use(kernel, False, source, item)
        own = self._own_table(value, forward, part.passing)
        if own != value and use.window < 0 and not use.again:
            return self._ties.behind_barrier(own, barrier)
        if (
            made in asked.again
            and asked.remakes(made, part, forward)
            and (use.again or nodes.primitive[source] in VIEWS)
            and (kernel, made) not in asked.views_left_out
        ):
            return self._tables.shown(value, self._again.copied(source, barrier, part))
        seen = self._taken_out(given, part)
        if use.window >= 0:
            seen = self._moves.returned(use.window, barrier)
            for gate in reversed(gates):
                seen = self._ties.gated(seen, gate)
        if barrier != NO_NODE and kernel in run.twins and self._slices.is_sliced(made, item):
            seen = self._ties.behind_barrier(value, barrier)
            return self._slices.gathered(seen, NO_NODE, asked.row(source, item))
        return seen if barrier == NO_NODE else self._again.gated(seen, source, forward, part, item)

    def _taken_out(self, given: int, part: Part) -> int:
        """Without lazy inline a gradient in a layer that is recomputed as a whole reads one of several outputs as the
        forward pass takes it out, where it would take it out for itself otherwise."""
        nodes = self._nodes
        if self._run.is_inlined or nodes.primitive[given] != ITEM or not self._asked.is_whole(part):
            return given
        users, item = self._run.users[nodes.inputs[given][0]], nodes.item[given]
        return min(user for user in users if nodes.primitive[user] == ITEM and nodes.item[user] == item)

    def _parameter(self, given: int, value: int, kernel: int, barrier: int) -> int:
        """What a gradient reads of a parameter in a recomputed cell waits as what runs again there does, and so do,
        without lazy inline, the states behind it."""
        forward = self._run.forward_of.get(kernel, kernel)
        part = self._asked.part(forward)
        if value == NO_NODE or self._nodes.primitive[value] != LOAD or part.cell == NO_CELL:
            return given if self._run.is_inlined else value
        gated, node = self._again.loaded(value, forward, barrier, part), self._run.node_of[kernel]
        if self._run.is_inlined:
            return gated
        for user in self._run.users[node]:
            if self._nodes.primitive[user] == STATE and gated != value:
                self._nodes.inputs[user] = [gated if one == node else one for one in self._nodes.inputs[user]]
        return gated

    def _restored(self, twin: int, node: int) -> int:
        """What the forward pass made, in place of what the model would make again."""
        barrier = self._barrier_in_front(node)
        node = self._parted.get(twin, self._run.node_of[self._asked.restored[twin]])
        return self._ties.behind_barrier(node, barrier)

    def _barrier_in_front(self, node: int) -> int:
        barriers = (self._run.through_barrier(given)[0] for given in self._run.graph.inputs[node])
        return next((found for found in barriers if found != NO_NODE), NO_NODE)

    def _first_kernel(self, node: int) -> int:
        return next(user for user in self._run.users[node] if user in self._run.kernel_of)

    def _own_table(self, value: int, reader: int, passing: int) -> int:
        layer = int(self._asked.prepared.baseline.kernels.layer[passing]) if passing >= 0 else -1
        return self._tables.seen(value, reader, layer)

    def _gates_see_returned(self) -> None:
        """What runs again waits for what a gradient reads; that may have come back."""
        nodes = self._nodes
        returned: dict[int, int] = {}
        for (window, barrier), back in self._moves.back.items():
            value = nodes.inputs[self._moves.out[window]][0]
            returned[self._ties.known.get((value, barrier), NO_NODE)] = back
        returned.pop(NO_NODE, None)
        users = {user for tie in returned if tie < nodes.count for user in self._run.users[tie]}
        for user in chain(sorted(users), range(nodes.count, len(nodes))):
            if nodes.primitive[user] == TUPLE and user not in self._run.saved:
                nodes.inputs[user] = [returned.get(one, one) for one in nodes.inputs[user]]
