"""PARTS -> GATES: for which gradients what runs again waits.

MindSpore 2.9.0 ties what a recomputed cell is given to the gradient of its output. A primitive that was asked for by
itself waits for what a gradient that reads the last of its chain waits for besides; a chain that ends in a recomputed
cell waits as that cell does (frontend/optimizer/irpass/recompute.cc).

A *gate* is upstream's ``Depend`` on dout.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from swapconf.trace.launch_graph import NO_NODE, TUPLE
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.asked import NO_CELL, Part
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.components import Components
from swapconf.whatif.graph.gradients import SUMS, arrived, given_to, is_gradient, summed_beside, with_losses
from swapconf.whatif.graph.run_graph import NO_KERNEL

_HAND_ON = frozenset({"Add", "AddExt", *VIEWS})  # the gradient of what they make to what they read
_FAR = 30


@dataclass
class Gates(GraphChange):
    """Tuples of gradients, one for each part and one for each chain of primitives."""

    _cells: dict[Part, int] = field(default_factory=dict)
    _chains: dict[tuple[int, int], int] = field(default_factory=dict)
    _given: dict[tuple[int, ...], int] = field(default_factory=dict)

    def of(self, kernel: int, part: Part) -> int:
        """NO_NODE where it waits for nothing."""
        if part.cell != NO_CELL:
            return self._cell(part) if self.run.is_inlined else self._component(kernel, part)
        key = kernel, part.passing if kernel in self.asked.shared else -1
        if key not in self._chains:
            self._chains[key] = self._chain(kernel, part)
        return self._chains[key]

    def _cell(self, part: Part) -> int:
        if part not in self._cells:
            gradients = self._arriving(part) or self._first_read(part)
            if gradients and self.asked.returns_tuple(part):
                gradients = (self.nodes.add(TUPLE, gradients),)
            self._cells[part] = self.nodes.add(TUPLE, (*gradients, *gradients)) if gradients else NO_NODE
        return self._cells[part]

    def _component(self, kernel: int, part: Part) -> int:
        given = self.components.gate(kernel, part)
        if not given:
            return self._cell(part)
        if given not in self._given:
            self._given[given] = self.nodes.add(TUPLE, given)
        return self._given[given]

    @cached_property
    def components(self) -> Components:
        return Components(self.asked, self._by_pass)

    def _arriving(self, part: Part) -> tuple[int, ...]:
        """The gradients of the output of a cell: what the first gradient of an output reads that is not of the cell,
        and all that calls and other stages are handed. Those that do not wait for the gradient of the loss, as of
        routers, tell nothing, but that of a loss that the cell returns belongs to them. What equal nodes of several
        layers have become one of, as gradients of the losses of routers, reads what is of another layer although no
        output is behind it."""
        run, waits = self.run, self.baseline.waits
        inside: dict[int, bool] = {}
        cell = self.marks.actions.cells[part.cell]
        arriving, handed = list[tuple[bool, list[int]]](), list[int]()
        for kernel, node in self._by_pass.get(part.passing, ()):
            if not self.asked.is_under(part.cell, node):
                continue
            is_output = self._is_output(node, part)
            if waits[kernel]:
                late = (gradient for gradient in self._late(kernel) if not self._is_inside(gradient, part, inside))
                outer = [arrived(run, gradient, cell) for gradient in late]
                arriving += [(is_output, outer)] if outer else []
            elif is_output:
                handed += filter(run.is_tie, self._given_to(kernel))
        outputs = [outer for is_output, outer in arriving if is_output] or [outer for _, outer in arriving[:1]]
        first = with_losses(run, outputs)
        given = chain.from_iterable(outer for _, outer in arriving)
        handed = [*filter(run.is_tie, given), *handed, *self._of_losses(part)]
        return tuple(dict.fromkeys((*first, *handed))) if first else ()

    def _of_losses(self, part: Part) -> list[int]:
        """The gradients of losses that a cell returns: where those come from that do not wait for the gradient of the
        loss of the model. Equal ones of several layers have become one, so that their numbers tell nothing."""
        run, waits = self.run, self.baseline.waits
        own = self._by_pass.get(part.passing, ())
        early = [kernel for kernel, node in own if self.asked.is_under(part.cell, node) and not waits[kernel]]
        stack = [run.node_of[kernel] for kernel in early]
        losses, seen = list[int](), set[int](stack)
        while stack:
            node = stack.pop()
            before = [] if run.is_tie(node) else [given for given in given_to(run, node) if not self._is_late(given)]
            kernel = run.kernel_of.get(node)
            is_own = kernel is not None and (kernel in run.forward_of or self.asked.is_recomputed(kernel))
            losses += [] if before or is_own else [node]
            stack += [gradient for gradient in before if gradient not in seen]
            seen.update(before)
        return losses

    def _is_output(self, node: int, part: Part) -> bool:
        """Something that the forward pass does outside of a cell reads what the node makes, or a sum or a view of it,
        whose gradient is the same, or what fusion rounds it to, which has come behind all gradients: so the sum over
        experts ends a layer of which the residuals are not in Float32."""
        baseline, rounding = self.baseline, self.asked.prepared.rounding
        kernels, stack, seen = baseline.kernels, [node], {node}
        while stack:
            for reader in baseline.followers(stack.pop()):
                if kernels.backward[reader]:
                    continue
                if not self.asked.is_under(part.cell, reader) or kernels.passing[reader] != kernels.passing[node]:
                    return True
                if reader not in seen and (kernels.primitive[reader] in _HAND_ON or reader in rounding):
                    seen.add(reader)
                    stack.append(reader)
        return False

    @cached_property
    def _by_pass(self) -> dict[int, list[tuple[int, int]]]:
        """(gradient, the node of the forward pass), ascending, by the pass of that."""
        gradients_of: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for kernel, node in sorted(self.run.forward_of.items()):
            gradients_of[self.asked.part(kernel).passing].append((kernel, node))
        return gradients_of

    def _late(self, kernel: int) -> list[int]:
        """The gradients that a kernel reads and that wait for that of the loss."""
        return [gradient for gradient in self._given_to(kernel) if self._is_late(gradient)]

    def _is_of(self, kernel: int, part: Part) -> bool:
        """A gradient of something in a cell."""
        same = self.asked.part(kernel).passing == part.passing
        return same and self.asked.is_under(part.cell, self.run.forward_of[kernel])

    def _first_read(self, part: Part) -> tuple[int, ...]:
        """The gradients that the first reader of what runs again waits for."""
        asked = self.asked
        readers = {
            reader
            for kernel in asked.again
            if int(asked.root[kernel]) == part.cell and int(asked.baseline.kernels.passing[kernel]) == part.passing
            for reader in asked.gradients.get(kernel, ())
        }
        return tuple(self._given_to(min(readers))) if readers else ()

    def _given_to(self, kernel: int) -> list[int]:
        return given_to(self.run, self.run.node_of[kernel])

    def _is_late(self, node: int, far: int = 0) -> bool:
        """Waits for the gradient of the loss."""
        if node == NO_NODE or far > _FAR:
            return False
        kernel = self.run.kernel_of.get(node)
        if kernel is not None:
            return bool(self.baseline.waits[kernel])
        return any(self._is_late(given, far + 1) for given in self.run.graph.inputs[node])

    def _is_inside(self, node: int, part: Part, inside: dict[int, bool], far: int = 0) -> bool:
        """A gradient of something in a cell, or a sum of such."""
        run, graph = self.run, self.run.graph
        if node in inside or far > _FAR:
            return inside.get(node, False)
        inside[node] = False
        kernel = run.kernel_of.get(node)
        if kernel is not None and kernel in run.forward_of:
            inside[node] = self._is_of(kernel, part)
        elif (kernel is None and not run.is_tie(node)) or (kernel is not None and graph.primitive[node] in SUMS):
            inside[node] = any(
                self._is_inside(given, part, inside, far + 1) for given in graph.inputs[node] if given != NO_NODE
            )
        return inside[node]

    def _chain(self, kernel: int, part: Part) -> int:
        asked = self.asked
        if kernel in asked.marks.adds or kernel in asked.marks.apart:
            summed = summed_beside(asked.run, asked.gradients.get(kernel, ()))
            return self.nodes.add(TUPLE, summed) if summed else NO_NODE
        ends, cells, stack, seen = list[int](), list[int](), [kernel], set[int]()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            readers = self._behind(node, part)
            cells += [reader for reader in readers if asked.root[reader] != NO_CELL]
            further = [reader for reader in readers if asked.root[reader] == NO_CELL]
            stack += further
            ends += [] if further else [node]
        if cells:
            last = max(cells)
            gate = self._cell(Part(int(asked.baseline.kernels.passing[last]), int(asked.root[last])))
            if gate != NO_NODE:
                return gate
        return self._behind_ends(ends, part)

    def _behind(self, node: int, part: Part) -> list[int]:
        """What runs again and reads a node; of what all layers share, which each makes for itself, in the same one."""
        readers = self.asked.behind.get(node, [])
        if node not in self.asked.shared:
            return readers
        return [user for user in readers if user in self.asked.shared or self.asked.part(user).passing == part.passing]

    def _behind_ends(self, ends: list[int], part: Part) -> int:
        asked = self.asked
        last = max(ends)
        readers = self._readers(last, part) or [reader for end in ends for reader in self._readers(end, part)]
        rows = {row for end in ends for row in asked.baseline.made.get(end, ())}
        gradients = [
            given
            for reader in sorted(set(readers))
            for given in self._all_besides(reader)
            if asked.row(*asked.run.origin(given)) not in rows  # a view of what runs again
            and asked.run.kernel_of.get(given) not in readers  # which reads it itself
        ]
        return self.nodes.add(TUPLE, tuple(dict.fromkeys(gradients))) if gradients else NO_NODE

    def _readers(self, kernel: int, part: Part) -> list[int]:
        """The gradients that read what runs again; of what all layers share those of one of them."""
        asked = self.asked
        gradients = asked.gradients.get(kernel, [])
        if kernel not in asked.shared:
            return gradients
        forward = asked.run.forward_of
        return [
            gradient
            for gradient in gradients
            if asked.part(gradient).passing == part.passing
            and asked.remakes(kernel, part, forward.get(gradient, gradient))
        ]

    def _all_besides(self, kernel: int) -> list[int]:
        """Also what the primitive itself has left for its gradient, a norm or flash attention, as the gradient takes
        that out of the outputs (irpass/recompute.cc tells what is of a gradient by its scope), and what stands in a
        tuple. Not the gradient that comes from what is left out of recompute, which MindSpore calls at that time."""
        run, awaited = self.run, list[int]()
        given = [
            value
            for given in run.graph.inputs[run.node_of[kernel]]
            if given != NO_NODE
            for value in (run.graph.inputs[given] if self._is_packed(given) else (given,))
            if value != NO_NODE
        ]
        gradient = run.graph.primitive[run.node_of[kernel]]
        for value in given:
            is_awaited = is_gradient(run, value) and not self._is_of_left_out(value)
            awaited += [value] if is_awaited or self._is_left(value, gradient) else []
        return awaited or self._beside_what_it_shows(kernel)

    def _beside_what_it_shows(self, kernel: int) -> list[int]:
        """Of a view, or a Transpose, that a gradient begins with: the gradients among what others of the same gradient
        read beside it."""
        run, forward = self.run, self.run.forward_of.get(kernel)
        stack, seen = [run.node_of[kernel]], {run.node_of[kernel]}
        while stack and forward is not None:
            for user in run.users[stack.pop()]:
                reader = run.kernel_of.get(user)
                if reader is None or run.forward_of.get(reader) != forward or user in seen:
                    continue
                if gradients := [gradient for gradient in self._given_to(reader) if gradient not in seen]:
                    return gradients
                seen.add(user)
                stack.append(user)
        return []

    def _is_of_left_out(self, node: int) -> bool:
        """The gradient of a node whose recompute is excluded."""
        asked = self.asked
        kernel = asked.run.kernel_of.get(asked.run.origin(node)[0], NO_KERNEL)
        forward = asked.run.forward_of.get(kernel, NO_KERNEL)
        return forward != NO_KERNEL and asked.is_excluded(forward)

    def _is_packed(self, node: int) -> bool:
        return self.run.graph.primitive[node] == TUPLE and node not in self.run.saved

    def _is_left(self, node: int, gradient: str) -> bool:
        """One of the outputs of the primitive whose gradient that is, or of a norm beside its result, also where that
        is fused with an Add; not where no barrier stands in front of it."""
        barrier, value, _ = self.run.through_barrier(node)
        source, item = self.run.source(value) if barrier != NO_NODE else (NO_NODE, 0)
        primitive = self.run.graph.primitive[source] if source != NO_NODE else ""
        return f"{primitive}Grad" == gradient or (item > 0 and "Norm" in primitive)
