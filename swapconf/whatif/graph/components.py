"""PARTS -> COMPONENTS: which nodes of a recomputed cell wait together, without lazy inline.

MindSpore 2.9.0 then looks for nodes that are marked and connected. What is not marked parts them: what sends tokens to
experts, sorts before that, splits of latent attention, and what is left out. So does a cast that two cells share, which
is two until later. What begins in a component waits for what the first gradient that reads from it is given
(frontend/optimizer/recompute.cc; measured: Qwen3, Qwen3-MoE, DeepSeek-V3 and TeleChat3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swapconf.trace.columns import Flags
from swapconf.trace.launch_graph import NO_NODE
from swapconf.whatif.graph.asked import NO_CELL, Asked, Part
from swapconf.whatif.graph.gradients import arrived, given_to
from swapconf.whatif.parted import shared_casts

_APART = -1
_ADDS, _SUM = frozenset({"Add", "AddExt"}), "ReduceSum"


@dataclass
class Components:
    """``gradients_of``: (gradient, the node of the forward pass), ascending, by the pass of that."""

    asked: Asked
    gradients_of: Mapping[int, Sequence[tuple[int, int]]]
    _components: dict[Part, dict[int, int]] = field(default_factory=dict)
    _gates: dict[tuple[Part, int], tuple[int, ...]] = field(default_factory=dict)

    def gate(self, kernel: int, part: Part) -> tuple[int, ...]:
        """The gradients that a kernel of the forward pass waits for when it runs again; none where not known."""
        if part.cell == NO_CELL:
            return ()
        whole = part._replace(component=NO_CELL)
        own = part.component if part.component != NO_CELL else self._of(whole).get(kernel, _APART)
        key = whole, own
        if key not in self._gates:
            self._gates[key] = self._given(*key)
        return self._gates[key]

    def read_in(self, part: Part, node: int, reader: int) -> Part:
        """``part``: of the reader of a node; that of the node. MindSpore merges no nodes that are marked before it has
        recomputed them (`CheckReplace` of frontend/optimizer/cse.cc), so a component has its own of the casts that are
        one later."""
        kernel, whole = self.asked.run.kernel_of[node], part._replace(component=NO_CELL)
        if self.asked.run.is_inlined:
            return whole
        if kernel in self.asked.shared:  # by a table, or by what reads it
            own = self.asked.shared_part(kernel, whole)
            is_inside = own.cell != NO_CELL
            return whole._replace(component=self._of(own).get(reader, part.component)) if is_inside else whole
        if (kernel, reader) not in self._second_casts:
            return whole
        component_of = self._of(whole)
        of_reader, of_cast = component_of.get(reader, _APART), component_of.get(kernel, _APART)
        return whole if of_reader == of_cast else whole._replace(component=of_reader)

    def _of(self, part: Part) -> dict[int, int]:
        if part not in self._components:
            self._components[part] = self._connected(part)
        return self._components[part]

    def _given(self, part: Part, component: int) -> tuple[int, ...]:
        """What the first gradient that reads from a component is given."""
        members = {node for node, first in self._of(part).items() if component in (_APART, first)}
        kernels = (kernel for kernel, node in self.gradients_of.get(part.passing, ()) if node in members)
        nodes = (self._node(kernel) for kernel in kernels)
        gradients = [(self._turns[node], node) for node in nodes if node in self._turns]
        reading = {self._node(kernel) for member in members for kernel in self.asked.gradients.get(member, ())}
        given_by_turn = [
            (turn, self._given_to(node)) for turn, node in gradients if node in reading or self._sums_up(node)
        ]
        sums = self._given_to_sums(part, members, gradients)
        given_by_turn += [
            (max(turns), given)
            for given in sums
            if (turns := [self._turns[gradient] for gradient in given if gradient in self._turns])
        ]
        return min(given_by_turn, default=(0, ()))[1] or tuple(node for _, node in sorted(gradients)[:1])

    def _given_to_sums(
        self, part: Part, members: Set[int], gradients: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, ...]]:
        """Sums are read for their shapes: what MindSpore finds out to be for nothing only later."""
        baseline, run = self.asked.baseline, self.asked.run
        for member in members:
            if baseline.kernels.primitive[member] not in _ADDS or self._is_output(member, part):
                continue
            above = self._above(member)
            of_above = [(turn, node) for turn, node in gradients if run.forward_of[run.kernel_of[node]] in above]
            if of_above:
                yield tuple(arrived(run, gradient, "") for gradient in self._given_to(min(of_above)[1]))

    def _is_output(self, member: int, part: Part) -> bool:
        """Layers with experts hand on their output in a state."""
        is_whole = self.asked.is_whole(part) and bool(self.asked.baseline.with_experts[member])
        return bool(self.asked.marks.kept[member]) and not is_whole

    def _above(self, member: int) -> set[int]:
        above, stack = set[int](), [member]
        while stack:
            new = set(self._sources.get(stack.pop(), ())) - above
            above |= new
            stack.extend(new)
        return above

    @cached_property
    def _sources(self) -> dict[int, list[int]]:
        sources: defaultdict[int, list[int]] = defaultdict(list)
        for reader, face in zip(*(column.tolist() for column in self.asked.baseline.edges), strict=True):
            sources[reader].append(face)
        return sources

    def _node(self, kernel: int) -> int:
        return self.asked.run.node_of[kernel]

    def _sums_up(self, node: int) -> bool:
        """The gradient of a sum over a dimension, of what is summed the shape."""
        run = self.asked.run
        return self.asked.baseline.kernels.primitive[run.forward_of[run.kernel_of[node]]] == _SUM

    def _given_to(self, node: int) -> tuple[int, ...]:
        return tuple(given_to(self.asked.run, node))

    @cached_property
    def _turns(self) -> dict[int, int]:
        """The gradients that wait for that of the loss and lead on to that of the first node in the layers, by the
        turn in which MindSpore comes to them, from there; to those of weights it comes later."""
        run, waits = self.asked.run, self.asked.baseline.waits
        gradients = [
            (node, kernel) for of_pass in self.gradients_of.values() for kernel, node in of_pass if waits[kernel]
        ]
        stack = [(run.node_of[kernel], False) for node, kernel in gradients if node == min(gradients)[0]]
        seen, order = set[int](), list[int]()
        while stack:
            node, is_behind = stack.pop()
            if is_behind:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack += [(given, False) for given in reversed(run.graph.inputs[node]) if given != NO_NODE]
        return {node: turn for turn, node in enumerate(order) if node in run.kernel_of and waits[run.kernel_of[node]]}

    def _connected(self, part: Part) -> dict[int, int]:
        """By kernel the first of its component."""
        reader, face = self.asked.baseline.edges
        inside = self._marked & (self.asked.baseline.kernels.passing == part.passing)
        inside &= self.asked.marks.covered.under[part.cell]
        first_of = {kernel: kernel for kernel in np.flatnonzero(inside).tolist()}

        def first(kernel: int) -> int:
            while first_of[kernel] != kernel:
                kernel = first_of[kernel]
            return kernel

        both = inside[reader] & inside[face]
        for node, source in zip(reader[both].tolist(), face[both].tolist(), strict=True):
            if (source, node) not in self._second_casts:
                low, high = sorted((first(node), first(source)))
                first_of[high] = low
        return {kernel: first(kernel) for kernel in first_of}

    @cached_property
    def _second_casts(self) -> frozenset[tuple[int, int]]:
        """(cast, kernel): casts that two cells of a layer share in the baseline, and who reads that of the second."""
        prepared = self.asked.prepared
        return frozenset(
            (own.kernel, reader)
            for own in shared_casts(prepared.baseline, prepared.sites, self.asked.marks.strategy)
            for reader in prepared.baseline.followers(own.kernel)
            if prepared.baseline.kernels.cell[reader] == own.cells[-1]
        )

    @cached_property
    def _marked(self) -> Flags:
        marks, sites = self.asked.marks, self.asked.prepared.sites
        return ~marks.staying & ((sites.of_node < 0) | marks.actions.again[sites.of_node])
