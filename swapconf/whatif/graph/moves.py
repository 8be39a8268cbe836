"""WINDOWS -> NODES that copy to the host and back.

A copy to the host reads the value; of the kernels of the forward pass that read it, the last one waits for the copy,
and where equal views of several cells are one, each. What takes an output out of several does not wait. An Add whose
norm waits for the copy of the sum is not fused with it: the norm waits where nothing else of the forward pass reads the
sum, and without pipeline stages always (measured with MindSpore 2.9.0). With stages it does where a recomputed cell is
given what it makes.

Mirrors ``offload_activation`` (frontend/parallel/pass/offload_activation.cc): a MoveTo each way, and a ``Depend`` for
the first of ``node_users()``; that order is the history of one inlining pass (``ApplyIRToSubstitutions`` of
frontend/optimizer/opt.cc), of which the rules here are what was seen. That pass inlines a value and then at once those
who read it, in the order in which MindSpore has met them (``UpdateTransformingListWithUserNodes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE
from swapconf.trace.trace import POINT_TO_POINT
from swapconf.upstream.primitives import CAST, VIEWS
from swapconf.whatif.graph.asked import NO_CELL
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.nodes import MOVE
from swapconf.whatif.graph.run_graph import NO_KERNEL
from swapconf.whatif.graph.ties import Ties
from swapconf.whatif.graph.view_parts import ViewParts
from swapconf.whatif.laid_out import ADD_AND_NORM, SUM
from swapconf.whatif.parted import User

ADD = "Add"  # that is not fused with a norm
_NORM = "RmsNorm"
_HAND_ON = frozenset({CAST, *VIEWS})
_TABLES = frozenset({"Cos", "Sin"})  # of a rotary embedding, for queries and keys
_OF_ROUTERS = ("MeanExt", "GatherD")  # for the loss, and of the scores of the experts that are chosen


@dataclass
class MoveTos(GraphChange):
    """Copies, by row of the windows.

    Attributes:
        out: To the host, ``back``: to the device, with the barrier that they wait for.
        sums: By node of a norm the Add that is not fused with it any more; ``shows``: by that Add the output of the
            norm that it makes now.
        tables: What makes what some users have for themselves, by kernel and users.
    """

    ties: Ties
    tables: dict[tuple[int, frozenset[User]], int]
    views: ViewParts
    out: dict[int, int] = field(default_factory=dict)
    back: dict[tuple[int, int], int] = field(default_factory=dict)
    sums: dict[int, int] = field(default_factory=dict)
    shows: dict[int, int] = field(default_factory=dict)
    _norms: dict[int, int] = field(default_factory=dict)
    _turns: dict[int, int] = field(default_factory=dict)

    def returned(self, window: int, barrier: int) -> int:
        if (window, barrier) not in self.back:
            if self._is_left_out(window):
                value = self.ties.behind_barrier(self._value_of(window), barrier)
                copied = self.out.setdefault(window, self.nodes.add(MOVE, (value,)))
            else:
                copied = self.ties.behind_barrier(self.copied(window), barrier)
            self.back[window, barrier] = self.nodes.add(MOVE, (copied,))
        return self.back[window, barrier]

    def _is_left_out(self, window: int) -> bool:
        """One of several outputs of what is left out of a recomputed cell: copied out by the backward pass."""
        kernel = int(self.asked.windows.face[window])
        return self.asked.is_left_out(kernel) and self._value_of(window) != self._node_of(window)

    def _node_of(self, window: int) -> int:
        kernel = int(self.asked.windows.face[window])
        own = self.asked.own(window)
        node = self.views.of_window.get(window, self.run.node_of[kernel])
        return self.tables.get((own.kernel, own.users), node) if own is not None else node

    def _value_of(self, window: int) -> int:
        windows = self.asked.windows
        return self._value(self._node_of(window), int(windows.face[window]), int(windows.row[window]))

    def unread(self, window: int) -> None:
        """A copy that nobody reads; the tuple of saved values holds it."""
        copied, saved = self.copied(window), self._saved(window)
        if saved != NO_NODE:
            self.nodes.inputs[saved].append(copied)

    def _saved(self, window: int) -> int:
        batch = self.run.batch_of(self.run.node_of[int(self.asked.windows.face[window])])
        return NO_NODE if batch is None else self.run.saved_of.get(batch, NO_NODE)

    def is_read(self, window: int) -> bool:
        """The forward pass reads what is copied, too."""
        return bool(self._forward_readers(self._value_of(window)))

    def copied(self, window: int) -> int:
        if window not in self.out:
            self.out[window] = self._copy(window)
        return self.out[window]

    def _copy(self, window: int) -> int:
        node, value = self._node_of(window), self._value_of(window)
        copied = self.nodes.add(MOVE, (value,))
        if value == node:
            self._tie_readers(node, copied)
        elif self.nodes.primitive[node] == ADD_AND_NORM and self.nodes.item[value] == SUM:
            self._part_sum(node, value, copied)
        return copied

    def shown_item(self, node: int, item: int) -> int:
        """What takes an output out of several."""
        taken = (user for user in self._users(node) if self.nodes.primitive[user] == ITEM)
        shown = next((user for user in taken if self.nodes.item[user] == item), None)
        return self.nodes.add(ITEM, (node, NO_NODE), item=item) if shown is None else shown

    def _value(self, node: int, kernel: int, row: int) -> int:
        """What shows a block of a kernel: itself, or what takes it out of several."""
        if not any(self.nodes.primitive[user] == ITEM for user in self._users(node)):
            return node
        made = self.baseline.made.get(kernel, [])
        return self.shown_item(node, made.index(row) if row in made else 0)

    def _users(self, node: int) -> list[int]:
        if node < self.nodes.count:
            return self.run.users[node]
        if node in self.views.readers:
            return self.views.readers[node]
        return [user for user, given in enumerate(self.nodes.inputs) if node in given]

    def _forward_readers(self, value: int) -> list[int]:
        run, is_parted = self.run, self.views.has_parts(value)
        return [
            self.sums.get(user, user)
            for user in self._users(value)
            if user not in run.saved
            and user < self.nodes.count
            and user != self.nodes.end
            and not run.is_tie(user)
            and not run.is_backward(user)
            and (not is_parted or value in self.nodes.inputs[user])
        ]

    def _tie_readers(self, value: int, copied: int) -> None:
        readers = self._of_gathers(value) or self._forward_readers(value)
        if len(readers) > 1 and not self._is_merged(value, readers):
            readers = self._given_with(self._first(value, readers), readers)
        readers = [reader for reader in readers if not self._is_in_cell(reader)] or readers
        if len(readers) == 1:
            self._part_view(readers[0], value)
        if readers:
            tie = self.nodes.tied(value, copied)
            for reader in readers:
                self._redirect(reader, value, tie)

    def _of_gathers(self, value: int) -> list[int]:
        """What some Linears have for themselves of what others gather in a recomputed cell: that waits, whichever of
        several copies is asked first."""
        return [gather for gather in self._gathers if self.nodes.maker(self.nodes.inputs[gather][0]) == value]

    @cached_property
    def _gathers(self) -> list[int]:
        made = (node for (kernel, _), node in self.tables.items() if kernel in self.asked.casts)
        return [node for node in made if self.nodes.primitive[node] != CAST]

    def _part_view(self, view: int, value: int) -> None:
        """Of equal views of several cells, that MindSpore has made one, the last one waits for the copy alone, and the
        others are one for themselves; not in a recomputed cell, which is given one value."""
        nodes, run, baseline = self.nodes, self.run, self.baseline
        kernel = self._kernel(view)
        if nodes.primitive[view] not in VIEWS or nodes.primitive[value] in VIEWS:
            return
        if not baseline.kernels.is_lost[kernel] or self.asked.is_inside(kernel):
            return
        readers = [user for user in self._forward_readers(view) if user in run.kernel_of]
        cell = {user: baseline.kernels.cell[run.kernel_of[user]] for user in readers}
        last = max(readers, key=self._turn, default=NO_NODE)
        others = [user for user in readers if cell[user] != cell[last]]
        if others:
            own_view = nodes.add(nodes.primitive[view], nodes.inputs[view], nodes.name[view])
            for reader in others:
                self._redirect(reader, view, own_view)

    def _is_merged(self, value: int, readers: Sequence[int]) -> bool:
        """Of several that were equal; each had a copy. A view that one cell alone reads was none."""
        kernel_of, kernels = self.run.kernel_of, self.baseline.kernels
        if value >= self.nodes.count and value not in self.views.parted:
            return True
        kernel = self._kernel(self.views.parted.get(value, value))
        if kernel in self.asked.shared or self.nodes.primitive[value] in _TABLES:
            return True
        if kernel == NO_KERNEL or self.nodes.primitive[value] not in VIEWS:
            return False
        return len({kernels.cell[kernel_of[reader]] if reader in kernel_of else "" for reader in readers}) > 1

    def _first(self, value: int, readers: list[int]) -> int:
        others = [reader for reader in readers if not self._is_asked_for(reader)]
        if others and others != readers:  # measured: what a router gathers
            near = [reader for reader in others if self._cell(reader) == self._cell(value)]
            return max(near or others, key=self._turn)
        for kind in _OF_ROUTERS:
            of_router = next((reader for reader in readers if self.nodes.primitive[reader] == kind), None)
            if of_router is not None:
                return of_router
        norms = [reader for reader in readers if self.nodes.primitive[reader] == _NORM]
        if norms and not self.asked.is_pipelined:
            return norms[0]
        met = self.run.met_first(self.views.parted.get(value, value), readers)
        return max(readers, key=self._turn) if met == NO_NODE else met

    def _given_with(self, reader: int, readers: Sequence[int]) -> list[int]:
        """What reads a value as one: MindSpore hands it to the call of a recomputed cell, which is one reader."""
        call = self._call(reader)
        return [reader] if call is None else [user for user in readers if self._call(user) == call]

    def _call(self, node: int) -> tuple[str, int] | None:
        """The layer and the recomputed cell in which a node stands."""
        kernel = self._kernel(node)
        cell = self.asked.around(kernel) if kernel != NO_KERNEL else NO_CELL
        return None if cell == NO_CELL else (self.baseline.layer_of(kernel), cell)

    def _kernel(self, node: int) -> int:
        return self.run.kernel_of.get(node, NO_KERNEL)

    def _is_in_cell(self, node: int) -> bool:
        """A recomputed one, which has what it is given for itself."""
        kernel = self._kernel(node)
        return kernel != NO_KERNEL and self.asked.is_inside(kernel)

    def _cell(self, node: int) -> str:
        kernel = self._kernel(node)
        return self.baseline.kernels.cell[kernel] if kernel != NO_KERNEL else ""

    def _is_asked_for(self, node: int) -> bool:
        """To run again by itself: MindSpore meets it later."""
        kernel = self._kernel(node)
        return kernel != NO_KERNEL and kernel not in self.asked.shared and self.asked.is_asked_for(kernel)

    def _turn(self, node: int) -> int:
        """When a node is launched in the baseline, or the first that reads it. Ways through the graph are many, nodes
        are few: each of the baseline is asked once."""
        kernel = self.run.kernel_of.get(self._norms.get(node, node))
        if kernel is not None:
            return kernel
        if node not in self._turns:
            users = [user for user in self.run.users[node] if user not in self.run.saved]
            self._turns[node] = min((self._turn(user) for user in users), default=-1)
        return self._turns[node]

    def _redirect(self, reader: int, value: int, instead: int) -> None:
        self.nodes.inputs[reader] = [instead if given == value else given for given in self.nodes.inputs[reader]]

    def _is_cell(self, norm: int) -> bool:
        """A recomputed cell of its own, which is called."""
        kernel = self.run.kernel_of[norm]
        cell = int(self.asked.root[kernel])
        is_root = cell != NO_CELL and self.baseline.kernels.cell[kernel]
        return bool(is_root) and self.marks.actions.cells[cell] == is_root

    def _is_met_first(self, norm: int) -> bool:
        """Of those that read a sum: where a recomputed cell is given what the norm makes. What is loaded behind that
        cell waits for the UpdateState of its call, from which MindSpore comes to the norm before it meets the Add. Not
        where another stage has sent what is added to: that is a parameter of the forward pass, which is not inlined,
        so that the sum is inlined late, and the Add has been by then."""
        graph = self.run.graph
        addends = (self.run.source(given)[0] for given in graph.inputs[norm][:2])
        if any(addend != NO_NODE and graph.primitive[addend] in POINT_TO_POINT for addend in addends):
            return False
        made = (user for user in self.run.users[norm] if graph.primitive[user] == ITEM and graph.item[user] != SUM)
        return self._is_given_to_call(made)

    def _is_given_to_call(self, values: Iterable[int]) -> bool:
        """Whether a recomputed cell reads a value, as it is or in another type or shape."""
        run, stack = self.run, [*values]
        while stack:
            for user in run.users[stack.pop()]:
                if user in run.saved or run.is_tie(user) or run.is_backward(user):
                    continue
                if self._call(user) is not None:
                    return True
                stack += [user] if run.graph.primitive[user] in _HAND_ON else []
        return False

    def _part_sum(self, node: int, value: int, copied: int) -> None:
        readers = self._forward_readers(value)
        if readers and (self._is_cell(node) or (self.asked.is_pipelined and not self._is_met_first(node))):
            self._redirect(max(readers, key=self._turn), value, self.nodes.tied(value, copied))
            return
        added = self.nodes.add(ADD, self.nodes.inputs[node][:2], self.nodes.name[node])
        self.sums[node], self._norms[added], self.shows[added] = added, node, value
        self.nodes.primitive[node] = _NORM
        self.nodes.inputs[copied] = [added]
        self.nodes.inputs[node] = [self.nodes.add(DEPEND, (added, copied)), *self.nodes.inputs[node][2:]]
        for reader in self._users(value):
            self._redirect(self.sums.get(reader, reader), value, added)
