"""RUN GRAPH + ASKED -> the graph of one step under a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from swapconf.models.cells import EXPERTS, MLP
from swapconf.trace.launch_graph import NO_NODE, TUPLE
from swapconf.trace.launch_order import launched
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.again import RecomputedNodes
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.behind import let_states_wait
from swapconf.whatif.graph.cell_states import CellStates
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.constants import Constants, merged_literals, rows_of_literals
from swapconf.whatif.graph.cse import GradientsOfGathers, Tables
from swapconf.whatif.graph.doubled import doubled
from swapconf.whatif.graph.fused import fuse
from swapconf.whatif.graph.gates import Gates
from swapconf.whatif.graph.layer_states import LayerStates
from swapconf.whatif.graph.load_states import LoadStates
from swapconf.whatif.graph.model_gates import ModelGates
from swapconf.whatif.graph.moves import MoveTos
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.graph.output_weight import read_twice, turn_gradients
from swapconf.whatif.graph.prefetch import Stops, launched_with_copies
from swapconf.whatif.graph.reads import BackwardReads
from swapconf.whatif.graph.returned import Returned, ReturnedByLayers
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.graph.saved import Saved
from swapconf.whatif.graph.slices import Slices
from swapconf.whatif.graph.ties import Ties
from swapconf.whatif.graph.view_parts import ViewParts
from swapconf.whatif.swap import Windows

_ADDS = "AssignAdd"
_SUM, _NETWORK, _EXPERTS = "AddN", f".{MLP}", f".{EXPERTS}"


@dataclass(frozen=True, kw_only=True, eq=False)
class StrategyGraph:
    """The nodes of one step, and what those stand for that the baseline does not have.

    Attributes:
        order: In which kernels are launched, those of a fused one together.
        copies: By node the kernel of which it is a copy: one that runs again, or a table of some layers' own.
        again: Nodes that run again.
        out, back: By node the window of a copy to the host, and of one to the device.
        stops: Which of ``back`` MindSpore does not survive.
        sums, norms, adds: See `MoveTos` and `RecomputedNodes`.
        weights: By node of a copy of a weight the row of that in the baseline.
        constants: Rows of constants that lie on the device once more.
        merged: Rows of constants that do not lie there any more.
        unreturned: Nodes whose outputs the graph does not return any more.
    """

    run: RunGraph
    nodes: Nodes
    order: Sequence[int]
    windows: Windows | None = None
    copies: Mapping[int, int] = field(default_factory=dict)
    again: frozenset[int] = frozenset()
    out: Mapping[int, int] = field(default_factory=dict)
    back: Mapping[int, int] = field(default_factory=dict)
    stops: Stops = field(default_factory=Stops)
    sums: Mapping[int, int] = field(default_factory=dict)
    norms: frozenset[int] = frozenset()
    adds: frozenset[int] = frozenset()
    weights: Mapping[int, int] = field(default_factory=dict)
    constants: Sequence[int] = ()
    merged: Sequence[int] = ()
    unreturned: frozenset[int] = frozenset()


def unchanged(run: RunGraph) -> StrategyGraph:
    """The graph of the baseline itself."""
    return StrategyGraph(run=run, nodes=Nodes(run.graph), order=launched(run.graph))


def strategy_graph(asked: Asked) -> StrategyGraph:
    """Raises ValueError where nodes would wait for one another in a circle."""
    return _Building(asked).graph()


class _Building(GraphChange):
    def __init__(self, asked: Asked) -> None:
        nodes = Nodes(asked.run.graph)
        super().__init__(asked, nodes)
        self._ties = ties = Ties(asked, nodes)
        self._gates = gates = Gates(asked, nodes)
        self._tables = tables = Tables(asked, nodes)
        self._gathers = GradientsOfGathers(asked, nodes)
        self._views = ViewParts(asked, nodes)
        self._moves = moves = MoveTos(asked, nodes, ties, tables.made, self._views)
        self._constants = constants = Constants(asked, nodes, tables, ties, gates)
        self._slices = slices = Slices(asked, nodes, ties)
        self._doubled = doubled(asked)
        self._again = RecomputedNodes(asked, nodes, ties, gates, moves, tables, constants, slices, self._doubled)
        self._reads = BackwardReads(self._again, self._views)

    def graph(self) -> StrategyGraph:
        self._tables.part()
        self._gathers.part()
        ModelGates(self.asked, self.nodes).part()
        self._views.part()
        self._drop_copies()
        self._read_output_weight_once()
        baseline, twins = self.baseline, self._reads.twins
        for kernel in np.flatnonzero(baseline.kernels.backward[: self.run.count]).tolist():
            if kernel not in twins:
                self._read(self.run.node_of[kernel], kernel)
        for node in (node for node in self.run.node_of if self.nodes.primitive[node] == _ADDS):
            self._gate_sum(node)
        turn_sums_of_experts(self.asked, self.nodes)
        turn_gradients(self.asked, self.nodes)
        self._gates_see_returned()
        self._merge_twins()
        windows = self.asked.windows
        for window in np.flatnonzero(windows.unread & (windows.face < self.run.count)).tolist():
            self._moves.unread(window)
        Saved(self.asked, self.nodes, self._again).tie()
        self._double()
        self._views.part_in_cells(self._again.kernel_of)
        states = LoadStates(self.asked, self.nodes)
        CellStates(self.asked, self.nodes, states).tie()
        LayerStates(self.asked, self.nodes, states).tie()
        ReturnedByLayers(self.asked, self.nodes).tie()
        Returned(self.asked, self.nodes, states).tie()
        unreturned = let_states_wait(self.nodes)
        back = {node: window for (window, _), node in self._moves.back.items()}
        again = self._again.kernel_of | self._constants.kernel_of
        copies = again | self._tables.kernel_of | self._slices.kernel_of | self._gathers.kernel_of
        fuse(self.nodes, self.run, copies)
        literals = rows_of_literals(self.asked, self._moves, self._again.kernel_of.values())
        launches = launched_with_copies(self.nodes, windows.prefetch, back)
        return StrategyGraph(
            run=self.run,
            nodes=self.nodes,
            windows=windows,
            order=launches.order,
            stops=launches.stops,
            copies=copies,
            again=frozenset(again),
            out={node: window for window, node in self._moves.out.items()},
            back=back,
            sums=self._moves.sums,
            norms=frozenset(self._again.norms),
            adds=frozenset(self._again.adds),
            weights=self._again.weights.rows | self._slices.rows | self._gathers.rows,
            constants=[*self._constants.rows(), *literals],
            merged=merged_literals(self.asked),
            unreturned=unreturned,
        )

    def _double(self) -> None:
        """See `doubled`: in the forward pass; what runs again has its own."""
        for kernel in sorted(self._doubled):
            self.nodes.double(self.run.node_of[kernel])

    def _merge_twins(self) -> None:
        """In a recomputed cell what the model computes again for several readers is computed once."""
        asked, run, baseline = self.asked, self.run, self.baseline
        merged: dict[int, int] = {}
        for kernel in asked.again:
            twin, cell = int(baseline.twin[kernel]), int(asked.root[kernel])
            if twin >= 0 and cell != NO_CELL and run.graph.primitive[run.node_of[kernel]] in VIEWS:
                others = (further for further in baseline.further_twins.get(twin, ()) if further not in asked.restored)
                merged |= {run.node_of[further]: run.node_of[twin] for further in others}
        for further in merged:
            for user in run.users[further]:
                self.nodes.read_instead(user, merged)

    def _drop_copies(self) -> None:
        """A norm in a recomputed cell reads its weight itself, not the copy that is made for the backward pass."""
        run, nodes = self.run, self.nodes
        for node in range(nodes.count):
            if nodes.copied(node) == NO_NODE:
                continue
            forward = [reader for reader in run.reading(node) if not self.baseline.kernels.backward[reader]]
            if forward and all(map(self.asked.is_inside, forward)):
                self._drop(node)

    def _read_output_weight_once(self) -> None:
        """See `output_weight`."""
        for stays, goes in read_twice(self.asked, self.nodes):
            for copy in {self.nodes.inputs[node][0]: None for node in (stays, goes)}:
                self._drop(copy)
            for user in self.run.users[goes]:
                self.nodes.read_instead(user, {goes: stays})

    def _drop(self, copy: int) -> None:
        """Let what reads a copy of a parameter read that itself, but for what waits for the copy."""
        load = self.nodes.copied(copy)
        self._reads.dropped[copy] = load
        for user in self.run.users[copy]:
            if user not in self.run.saved and not self.run.is_tie(user):
                is_tuple = self.nodes.primitive[user] == TUPLE
                self.nodes.read_instead(user, {copy: NO_NODE if is_tuple else load})

    def _read(self, node: int, kernel: int) -> None:
        """Let a kernel of the backward pass read what the strategy has for it."""
        inputs = self.nodes.inputs[node]
        for place, given in enumerate(list(inputs)):
            if given != NO_NODE and given < self.nodes.count:
                inputs[place] = self._reads.seen(given, kernel)

    def _gate_sum(self, node: int) -> None:
        """A sum of gradients is a parameter of the cell, too."""
        inputs = self.nodes.inputs[node]
        if len(inputs) < 2 or not self.run.is_tie(inputs[0]):
            return
        added, _ = self.run.source(inputs[1])
        kernel = self.run.kernel_of.get(added)
        part = self.asked.part(kernel) if kernel in self.run.forward_of else None
        if kernel is not None and part is not None and part.cell != NO_CELL:
            inputs[0] = self._ties.gated(inputs[0], self._gates.of(kernel, part))

    def _gates_see_returned(self) -> None:
        """What runs again waits for what a gradient reads; that may have come back."""
        nodes = self.nodes
        returned: dict[int, int] = {}
        for (window, barrier), back in self._moves.back.items():
            value = nodes.inputs[self._moves.out[window]][0]
            returned[self._ties.tied.get((value, barrier), NO_NODE)] = back
        returned.pop(NO_NODE, None)
        users = {user for tie in returned if tie < nodes.count for user in self.run.users[tie]}
        for user in chain(sorted(users), range(nodes.count, len(nodes))):
            if nodes.primitive[user] == TUPLE and user not in self.run.saved:
                nodes.inputs[user] = [returned.get(value, value) for value in nodes.inputs[user]]


def turn_sums_of_experts(asked: Asked, nodes: Nodes) -> None:
    """Of what experts and their router read alike MindSpore adds the gradients in the order in which it meets the two.
    Experts that are recomputed for themselves are called, and met last; in a layer that predicts further tokens they
    are so anyway, in a single stage not where their network is in a recomputed cell (measured with 2.9.0: Qwen3-MoE,
    DeepSeek-V3, TeleChat3-MoE)."""
    run, kernels, layers = asked.run, asked.baseline.kernels, asked.baseline.layers
    for node, kernel in run.kernel_of.items():
        layer, cell = int(kernels.layer[kernel]), kernels.cell[kernel]
        if run.graph.primitive[node] != _SUM or layer < 0:
            continue
        if layers.is_extra[layer]:
            is_turned = not asked.is_pipelined and cell.endswith(_NETWORK) and asked.is_recomputed(kernel)
        else:
            is_turned = f"{cell}{_EXPERTS}" in asked.marks.actions.roots.get(layers.name(layer), ())
        if is_turned:
            nodes.inputs[node].reverse()
