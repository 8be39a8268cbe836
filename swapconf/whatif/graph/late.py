"""STRATEGY -> which saved values later passes of MindSpore capture, and in which order.

A recomputed cell is one call until late. What stands in it is captured when its nodes take the place of the call,
behind all that was captured before: what is left out of it, last of all what its router has counted; what it hands to
other recomputed cells; the choice of experts in other layers, and what else is excluded from recompute there; the
tables of a rotary embedding, which the model hands over in a tuple, where no other gradient reads them; what other
gradients read of it, or of constants that it has for itself, and the state in which it is called; behind these the cast
of a weight that a primitive reads which is recomputed by itself, unless it moves (measured with MindSpore 2.9.0: nine
families).

Mirrors the captures that opt_b adds by inlining K graphs, behind those that were there (core/ir/manager.cc).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from swapconf.trace.launch_graph import DEPEND, NO_NODE, TUPLE
from swapconf.trace.trace import POINT_TO_POINT
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.attached import attached_kernels
from swapconf.whatif.graph.change import GraphChange

Turn = tuple[int, int] | None
_CHOICES, _ROUTER = frozenset({"TopkExt", "TopK"}), "Router/"
_TABLES = ("/rotary_pos_emb-", "/freqs_mgr-")  # mindformers 1.9.0: of GPTModel and LlamaModel
TABLES = 5  # the turn of these


@dataclass
class Late(GraphChange):
    """``given``: see `RecomputedNodes.given`; ``parts``: by node that runs again. ``called``: ties behind which the
    states are read in which cells are called. ``tables``: by node that some layers have for themselves the kernel that
    it is like. ``constants``: kernels that recomputed cells have for themselves, as they are made of constants."""

    given: Mapping[int, tuple[int, ...]]
    parts: Mapping[int, Part]
    called: Collection[int]
    tables: Mapping[int, int]
    constants: Collection[int]

    def turn(self, node: int, *, is_moved: bool = False) -> Turn:
        """None for what is captured with the rest."""
        if node in self.called:
            return 7, 0
        maker = self.nodes.maker(node)
        kernel = self.run.kernel_of.get(maker)
        if kernel is not None and maker in self.read_alone and self.baseline.rootless[kernel]:
            return None if is_moved else (8, -maker)
        stands_for = self.tables.get(maker, kernel)
        if stands_for is not None and stands_for in self.constants:
            return 6, self.run.node_of[stands_for]
        if kernel is None or not self.given:
            return None
        layer = int(self.baseline.kernels.layer[kernel])
        return self._inside(maker, kernel, layer) if self._is_inside(kernel) else self._outside(maker, layer)

    @cached_property
    def alone(self) -> dict[str, dict[int, int]]:
        """By number of a primitive that is recomputed by itself the nodes that it reads, through views, in each
        micro-batch, with the order of each."""
        run, of_node = self.run, self.marks.sites.of_node
        reads_of = defaultdict[str, dict[int, int]](dict)
        for gradient, kernel in run.forward_of.items():
            if of_node[kernel] >= 0 and self.asked.is_asked_for(kernel):
                read = reads_of[run.graph.forward_unique[run.node_of[gradient]]]
                for place, given in enumerate(run.graph.inputs[run.node_of[kernel]]):
                    read.setdefault(self.nodes.maker(self._shown(given)), place)
                read.pop(NO_NODE, None)
        return reads_of

    @cached_property
    def read_alone(self) -> frozenset[int]:
        """By any of these primitives."""
        return frozenset().union(*self.alone.values())

    def _shown(self, value: int) -> int:
        while value != NO_NODE and self.run.graph.primitive[value] in VIEWS:
            value = self.run.graph.inputs[value][0]
        return value

    def _inside(self, maker: int, kernel: int, layer: int) -> Turn:
        if self.nodes.primitive[maker] in POINT_TO_POINT:
            return None
        if maker in self._handed:
            return 3, self._turn_of_layer(maker, layer) if maker in self._layers else layer
        if kernel in self.asked.again or kernel in self.asked.shared:
            return 6, maker
        if self._is_choice(maker):
            return 1, -layer
        return (2, -layer) if _ROUTER in self.nodes.name[maker] else (0, -layer)

    def _turn_of_layer(self, maker: int, layer: int) -> int:
        """What recomputed layers hand to one another, the last first. The first of them is handed in the state that the
        others begin with; that is met right before what the next layer hands out that has a state of its own, by an
        attention that returns a tuple or by experts, or else before all (measured: Qwen3, DeepSeek-V3 and TeleChat3,
        with experts and without, of 5 to 7 layers)."""
        if layer != self._first[self.run.batch_of(maker)]:
            return -2 * layer
        behind = (own for own in self._own_states if own > layer)
        return -2 * min(behind, default=len(self.baseline.kernels.layer)) - 1

    @cached_property
    def _layers(self) -> frozenset[int]:
        """What layers of mcore that are recomputed as a whole hand to one another."""
        if not self.asked.is_mcore:
            return frozenset()
        kernel_of = self.run.kernel_of
        return frozenset(maker for maker in self._handed if self.asked.is_whole(self.asked.part(kernel_of[maker])))

    @cached_property
    def _first(self) -> dict[int | None, int]:
        """By micro-batch the first of these layers."""
        run, first = self.run, dict[int | None, int]()
        for maker in self._layers:
            batch, layer = run.batch_of(maker), int(self.baseline.kernels.layer[run.kernel_of[maker]])
            first[batch] = min(first.get(batch, layer), layer)
        return first

    @cached_property
    def _own_states(self) -> frozenset[int]:
        kernels, behind = self.baseline.kernels, attached_kernels(self.run)
        return frozenset(int(kernels.layer[kernel]) for kernel in behind if kernels.passing[kernel] >= 0)

    def _outside(self, maker: int, layer: int) -> Turn:
        if self.run.kernel_of.get(maker) in self._restored and self.nodes.primitive[maker] in VIEWS:
            return 2, -layer
        if self._is_choice(maker) or self._is_excluded(maker):
            return 4, -layer
        return (TABLES, maker) if maker in self._tables else None

    @cached_property
    def tables_given(self) -> frozenset[int]:
        """What recomputed cells see of tables of rotary embeddings."""
        gated = (
            node
            for node in range(self.nodes.count, len(self.nodes))
            if self.nodes.primitive[node] == DEPEND and self.nodes.primitive[self.nodes.inputs[node][1]] == TUPLE
        )
        return frozenset(node for node in gated if self._is_table(self.nodes.maker(node)))

    @cached_property
    def _tables(self) -> frozenset[int]:
        return frozenset(map(self.nodes.maker, self.tables_given))

    def _is_table(self, maker: int) -> bool:
        return maker != NO_NODE and any(table in self.nodes.name[maker] for table in _TABLES)

    def _is_excluded(self, maker: int) -> bool:
        """From recompute, although no cell around it is recomputed."""
        kernel = self.run.kernel_of[maker]
        return self.nodes.primitive[maker] not in VIEWS and self.asked.is_excluded(kernel)

    @cached_property
    def _restored(self) -> frozenset[int]:
        """Views that gradients read in place of those that the model would make again."""
        return frozenset(self.asked.restored.values())

    def _is_choice(self, maker: int) -> bool:
        return self.nodes.primitive[maker] in _CHOICES

    def _is_inside(self, kernel: int) -> bool:
        if kernel not in self.asked.shared:
            return self.asked.is_inside(kernel)
        return self.asked.shared_cell(kernel, self.baseline.layer_of(kernel)) != NO_CELL

    @cached_property
    def _handed(self) -> frozenset[int]:
        """What recomputed cells are given that was made elsewhere."""
        passing = self.baseline.kernels.passing
        groups = {group: self.parts[node] for node, group in self.given.items()}
        makers = ((self.nodes.maker(value), part) for group, part in groups.items() for value in group)
        return frozenset(
            maker
            for maker, part in makers
            if (kernel := self.run.kernel_of.get(maker)) is not None
            and not (passing[kernel] == part.passing and self.asked.is_under(part.cell, kernel))
        )
