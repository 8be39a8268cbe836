"""NODES to run again -> their copies in the backward pass, each reading copies, what was kept, or what came back.

Mirrors recompute (frontend/optimizer/irpass/recompute.cc): the primal of a recomputed cell is called in the backward
pass once more (its K graph), and gradients read what that call makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from swapconf.trace.launch_graph import DEPEND, LOAD, NO_NODE, SAME_VALUE, STATE
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.constants import Constants
from swapconf.whatif.graph.cse import Tables, WeightsCast, stays
from swapconf.whatif.graph.doubled import second_view
from swapconf.whatif.graph.gates import Gates
from swapconf.whatif.graph.given import FirstInputs, given
from swapconf.whatif.graph.inner_states import InnerStates
from swapconf.whatif.graph.moves import ADD, MoveTos
from swapconf.whatif.graph.run_graph import NO_KERNEL
from swapconf.whatif.graph.scaled import ScaledAgain
from swapconf.whatif.graph.slices import Slices
from swapconf.whatif.graph.ties import Ties
from swapconf.whatif.laid_out import ADD_AND_NORM, SUM

_NORM = "RmsNorm"


@dataclass
class RecomputedNodes(GraphChange):
    """What runs again.

    Attributes:
        kernel_of: By added node the kernel that it copies.
        norms, adds: Copies of a fused Add and norm that are the norm, or the Add, alone.
    """

    ties: Ties
    gates: Gates
    moves: MoveTos
    tables: Tables
    constants: Constants
    slices: Slices
    doubled: frozenset[int]
    kernel_of: dict[int, int] = field(default_factory=dict)
    norms: set[int] = field(default_factory=set)
    adds: set[int] = field(default_factory=set)
    _copies: dict[tuple[int, Part], int] = field(default_factory=dict)
    _sums: dict[tuple[int, Part], int] = field(default_factory=dict)
    _second_views: dict[tuple[int, Part], int] = field(default_factory=dict)

    @property
    def parts(self) -> dict[int, Part]:
        """By node that runs again the pass and the cell that it stands in."""
        return {node: part for (_, part), node in self._copies.items()}

    def given(self) -> dict[int, tuple[int, ...]]:
        """See `given`."""
        return given(self.nodes, self._copies, self.ties.is_parameter)

    @cached_property
    def weights(self) -> WeightsCast:
        return WeightsCast(self.asked, self.nodes, self.ties)

    @cached_property
    def _first(self) -> FirstInputs:
        return FirstInputs(self.nodes, self.ties)

    @cached_property
    def _scaled(self) -> ScaledAgain:
        return ScaledAgain(self.asked, self.nodes, self.ties, self.gated)

    @cached_property
    def _states(self) -> InnerStates:
        return InnerStates(self.asked, self.nodes, self.ties, self.gates, self.shown)

    def shown(self, value: int, barrier: int, part: Part) -> int:
        """A value of what runs again, as it is in a part."""
        source, item = self.run.source(value)
        copy = self.copied(source, barrier, part)
        apart = self._sums.get((source, self._own_part(source, part))) if item == SUM else None
        return self.tables.shown(value, copy) if apart is None else apart

    def copied(self, node: int, barrier: int, part: Part) -> int:
        """``part``: of who reads it."""
        key = node, self._own_part(node, part)
        if key not in self._copies:
            for needed, own in self._needed(key):
                if (needed, own) in self._copies:  # a state in which one before reads a parameter is behind it
                    continue
                kernel = self.run.kernel_of[needed]
                new = self._new(needed, kernel)
                self._copies[needed, own] = new
                self.kernel_of[new] = kernel
                self.nodes.inputs[new] = self._inputs(needed, new, kernel, barrier, own)
                self._part_merged(new, kernel, own)
        return self._copies[key]

    def _part_merged(self, new: int, kernel: int, part: Part) -> None:
        """A recomputed layer has both of the views that MindSpore has merged in the forward pass; other cells have
        those that the forward pass has (see `doubled`)."""
        is_layer = self.asked.is_whole(part) and self.run.is_inlined
        apart = self.asked.prepared.merged_views if is_layer else self.doubled
        if new >= self.nodes.count and part.cell != NO_CELL and kernel in apart:
            self.nodes.double(new)

    def _own_part(self, node: int, part: Part) -> Part:
        kernel = self.run.kernel_of[node]
        if kernel in self.asked.shared:
            return self.asked.shared_part(kernel, part)._replace(component=part.component)
        own = self.asked.part(kernel)
        return part if kernel in self.asked.casts and own.cell == NO_CELL else own._replace(component=part.component)

    def _needed(self, key: tuple[int, Part]) -> list[tuple[int, Part]]:
        """The copies that one reads, itself included, each behind those that it reads."""
        seen, stack = set[tuple[int, Part]](), [key]
        while stack:
            node, part = wanted = stack.pop()
            if wanted in seen or wanted in self._copies:
                continue
            seen.add(wanted)
            kernel = self.run.kernel_of[node]
            for value in self.nodes.values(node):
                source = self._read_again(value, kernel, part)
                if source is not None:
                    stack.append((source, self._own_part(source, self.gates.components.read_in(part, source, kernel))))
        return sorted(seen, key=lambda copy: self.run.kernel_of[copy[0]])

    def _read_again(self, value: int, kernel: int, part: Part) -> int | None:
        """The node of which a copy reads a copy for a value; None where it reads what is there."""
        asked = self.asked
        source, item = asked.run.source(self._original(value))
        read = asked.run.kernel_of.get(source)
        if read not in asked.again or asked.is_cell_output(read, part) or not asked.remakes(read, part, kernel):
            return None
        is_read = (
            asked.use(kernel, True, source, item).again
            or self.nodes.primitive[source] in VIEWS
            or (kernel in asked.shared and read in asked.shared)
        )
        return source if is_read and not stays(asked, read, kernel) else None

    def _new(self, node: int, kernel: int) -> int:
        """What the model itself computes again anyway is that kernel."""
        twin = int(self.baseline.twin[kernel])
        if twin >= 0:
            return self.run.node_of[twin]
        nodes = self.nodes
        return nodes.add(nodes.primitive[node], (), nodes.name[node], nodes.item[node], nodes.fused[node])

    def _inputs(self, node: int, new: int, kernel: int, barrier: int, part: Part) -> list[int]:
        given, inputs = list(self.nodes.inputs[node]), list[int]()
        is_apart = kernel in self.marks.apart
        if is_apart or self._is_norm_alone(node, kernel):
            self.norms.add(new)
            self.nodes.primitive[new] = _NORM
            summed = self._sum_again if is_apart else self._kept_sum
            inputs.append(summed(node, kernel, barrier, part))
            given = given[2:]
        if kernel in self.marks.adds:
            self.adds.add(new)
            self.nodes.primitive[new] = ADD
            given = given[:2]
        has_copies = False
        for value in given:
            seen, is_copy = self._seen(value, kernel, barrier, part) if value != NO_NODE else (NO_NODE, False)
            inputs.append(seen)
            has_copies |= is_copy
        if part.cell != NO_CELL:
            if self.run.is_inlined or has_copies:
                return inputs
            return self._first.tied(inputs, self.gates.of(kernel, part))
        if self.weights.is_cast(node, kernel) and new >= self.nodes.count:
            inputs[0] = self.weights.copied(node, kernel, barrier)
        return inputs if has_copies else self.ties.first_gated(inputs, self.gates.of(kernel, part))

    def _is_norm_alone(self, node: int, kernel: int) -> bool:
        """It reads the sum that was kept."""
        made = self.baseline.made.get(kernel, [])
        is_fused = self.run.graph.primitive[node] == ADD_AND_NORM and len(made) > SUM
        return is_fused and (kernel, True, made[SUM]) in self.asked.uses

    def _kept_sum(self, node: int, kernel: int, barrier: int, part: Part) -> int:
        made = self.baseline.made[kernel]
        window = self.asked.uses[kernel, True, made[SUM]].window
        value = self.moves.shown_item(node, SUM)
        seen = self.moves.returned(window, barrier) if window >= 0 else self.ties.behind_barrier(value, barrier)
        if part.cell == NO_CELL:
            return seen
        if window < 0 and self.slices.is_sliced(kernel, SUM):
            return self.slices.gathered(seen, self.gates.of(kernel, part), made[SUM])
        return self.ties.gated(seen, self.gates.of(kernel, part))

    def _sum_again(self, node: int, kernel: int, barrier: int, part: Part) -> int:
        """What a norm in a recomputed cell is given of the Add in front of it, which runs again by itself."""
        alone = Part(part.passing, NO_CELL)
        given = [self._seen(value, kernel, barrier, alone) for value in self.nodes.inputs[node][:2]]
        inputs = [seen for seen, _ in given]
        if not any(is_copy for _, is_copy in given):
            inputs = self.ties.first_gated(inputs, self.gates.of(kernel, alone))
        added = self.nodes.add(ADD, inputs, self.nodes.name[node])
        self.adds.add(added)
        self.kernel_of[added] = kernel
        self._sums[node, part] = self.ties.gated(added, self.gates.of(kernel, part))
        return self._sums[node, part]

    def _seen(self, value: int, kernel: int, barrier: int, part: Part) -> tuple[int, bool]:
        """(what the copy of a node reads for a value that the node reads, whether that is a copy)."""
        asked, untied = self.asked, self._untied(value)
        value = self._original(value)
        source, item = asked.run.source(value)
        if self.nodes.primitive[value] == LOAD:
            return self.loaded(value, kernel, barrier, part), False
        if source == NO_NODE:
            return self._constant(value, kernel, barrier, part)
        if (constant := self.constants.again(value, kernel)) != NO_NODE:
            return constant, False
        if self._read_again(value, kernel, part) is not None:
            shown = self.shown(value, barrier, self.gates.components.read_in(part, source, kernel))
            return self._states.handed(shown, value, kernel, barrier, part), True
        if (scaled := self._scaled.of(source, kernel, barrier, part)) != NO_NODE:
            return scaled, False
        use = asked.use(kernel, True, source, item)
        if use.window >= 0:
            return self.gated(self.moves.returned(use.window, barrier), source, kernel, part, item), False
        kept = self.gated(self.ties.behind_barrier(untied, barrier), source, kernel, part, item)
        kept = self._states.kept(kept, value, kernel, barrier, part)
        return second_view(asked, self.nodes, self._second_views, kept, (source, part)), False

    def _untied(self, value: int) -> int:
        """A value of the forward pass, whatever copy to the host its reader waits for there."""
        while value >= self.nodes.count and self.nodes.primitive[value] in SAME_VALUE:
            value = self.nodes.inputs[value][0]
        return value

    def _original(self, value: int) -> int:
        """The same in the baseline."""
        untied = self._untied(value)
        return self.moves.shows.get(untied, self.tables.stands_for.get(untied, untied))

    def _constant(self, value: int, kernel: int, barrier: int, part: Part) -> tuple[int, bool]:
        primitive = self.nodes.primitive[value]
        if primitive == STATE:
            return NO_NODE, False
        if primitive == DEPEND:
            return self.gated(self.ties.behind_barrier(value, barrier), NO_NODE, kernel, part), False
        return value, False

    def loaded(self, value: int, kernel: int, barrier: int, part: Part) -> int:
        """A parameter, as what runs again in a part reads it."""
        gate = self.gates.of(kernel, part) if part.cell != NO_CELL else NO_NODE
        if gate == NO_NODE:
            return self.ties.behind_barrier(value, barrier)
        if not self.run.is_inlined:  # what is gathered is no parameter
            return self.ties.gated(value, gate) if self.run.source(value)[0] == NO_NODE else value
        return self._states.loaded(value, kernel, barrier, part)

    def gated(self, seen: int, source: int, kernel: int, part: Part, item: int = 0) -> int:
        """What a recomputed cell is given waits; what was made in it, as what was left out of it, does not with lazy
        inline, but where the cell hands it out in the state in which it read its parameters: what runs again reads
        these behind the gate. The sum that a fused norm makes for the layer before is given, too."""
        if part.cell == NO_CELL or not self.run.is_inlined:
            return seen
        made, baseline = self.run.kernel_of.get(source, NO_KERNEL), self.baseline
        if self.slices.is_sliced(made, item):
            return self.slices.gathered(seen, self.gates.of(kernel, part), self.asked.row(source, item))
        is_inside = (
            made != NO_KERNEL
            and self.asked.is_under(part.cell, made)
            and (not baseline.rootless[made] or self.asked.is_excluded(made))
        )
        is_inside = is_inside and not (item == SUM and self._is_norm_alone(source, made))
        is_inside = is_inside and baseline.kernels.passing[made] == baseline.kernels.passing[kernel]
        if is_inside and not self.nodes.waits_for_state(seen):
            return seen
        return self.ties.gated(seen, self.gates.of(kernel, part))
