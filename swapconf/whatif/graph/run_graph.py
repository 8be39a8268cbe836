"""BASELINE + LAUNCH GRAPH -> RUN GRAPH: which node each kernel is, and what the backward pass sees through what.

With lazy inline MindSpore compiles the forward and the backward pass of a micro-batch once, each a func graph, and
calls them. Inlined (``process_call_inline``), each call waits for the one before: a copy of a constant (``TensorMove``)
that waits for it is its *barrier*, and every value that is handed to a call is tied to that by a ``Depend``. What a
forward pass hands on stands in one tuple, the *saved* values. Without lazy inline there are neither barriers nor such
tuples: gradients read the forward pass itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE, SAME_VALUE, TUPLE, LaunchGraph
from swapconf.trace.launch_order import launched
from swapconf.trace.trace import without_number
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.graph.behind import with_behind
from swapconf.whatif.graph.calls import Call, Handed, entries, handed_on
from swapconf.whatif.graph.func_graphs import can_be_fused, chosen
from swapconf.whatif.graph.nodes import COPY

NO_KERNEL = -1  # of a node that is none
_NORM_GRAD = "RmsNormGrad"


@dataclass(frozen=True, kw_only=True, eq=False)
class RunGraph:
    """``graph``: of one step of the baseline; the kernels of the first step stand for those of all. ``node_of``:
    [kernels of a step]."""

    baseline: Baseline
    graph: LaunchGraph
    node_of: Sequence[int] = ()

    @classmethod
    def of(cls, baseline: Baseline, graph: LaunchGraph | None) -> RunGraph | None:
        """None where the graph is not that of the kernels."""
        if graph is None:
            return None
        try:
            order = launched(graph)
        except ValueError:  # a circle
            return None
        names = frozenset(baseline.kernels.name)
        first = [node for node in order if graph.name[node] in names]
        whole = with_behind(graph, baseline, first)
        run = cls(baseline=baseline, graph=whole, node_of=[*first, *whole.behind])
        return run if run._is_usable() else None

    def _is_usable(self) -> bool:
        starts, names = self.baseline.step_starts.tolist(), self.baseline.kernels.name
        steps = {names[low:high] for low, high in pairwise(starts)}
        return steps == {tuple(self.graph.name[node] for node in self.node_of)}

    @property
    def is_inlined(self) -> bool:
        """Whether the run is compiled with lazy inline."""
        return bool(self.barriers)

    @cached_property
    def count(self) -> int:
        """Kernels of a step."""
        return int(self.baseline.step_starts[1])

    @cached_property
    def kernel_of(self) -> dict[int, int]:
        return {node: kernel for kernel, node in enumerate(self.node_of)}

    @cached_property
    def users(self) -> list[list[int]]:
        """[nodes] who reads each, ascending, once each."""
        users: list[list[int]] = [[] for _ in self.graph.inputs]
        for node, inputs in enumerate(self.graph.inputs):
            for given in set(inputs) - {NO_NODE}:
                users[given].append(node)
        return users

    def reading(self, node: int) -> list[int]:
        """The kernels among its users."""
        return [self.kernel_of[user] for user in self.users[node] if user in self.kernel_of]

    @cached_property
    def barriers(self) -> frozenset[int]:
        primitive, inputs = self.graph.primitive, self.graph.inputs

        def is_barrier(node: int) -> bool:
            tie = inputs[node][0] if primitive[node] == COPY and inputs[node] else NO_NODE
            return (
                tie != NO_NODE and primitive[tie] == DEPEND and inputs[tie][0] == NO_NODE and inputs[tie][1] != NO_NODE
            )

        return frozenset(node for node in range(len(self.graph)) if is_barrier(node))

    @cached_property
    def saved(self) -> frozenset[int]:
        """The tuples of values that calls hand on."""
        primitive, inputs = self.graph.primitive, self.graph.inputs
        taken = {inputs[node][0] for node, kind in enumerate(primitive) if kind == ITEM}
        awaited = {inputs[inputs[node][0]][1] for node in self.barriers}
        return frozenset(node for node in taken | awaited if node != NO_NODE and primitive[node] == TUPLE)

    def is_tie(self, node: int) -> bool:
        """A value as a call is handed it."""
        return self.graph.primitive[node] == DEPEND and self.graph.inputs[node][1] in self.barriers

    @cached_property
    def ties(self) -> dict[tuple[int, int], int]:
        """By value and barrier."""
        ties: dict[tuple[int, int], int] = {}
        for node in range(len(self.graph)):
            if self.is_tie(node):
                value, barrier = self.graph.inputs[node][:2]
                ties.setdefault((self.unpacked(value), barrier), node)
        return ties

    def unpacked(self, node: int) -> int:
        """The value that is taken out of the saved ones."""
        while node != NO_NODE and self.graph.primitive[node] == ITEM and self.graph.inputs[node][0] in self.saved:
            node = self.graph.inputs[self.graph.inputs[node][0]][int(self.graph.item[node])]
        return node

    def through_barrier(self, node: int) -> tuple[int, int, tuple[int, ...]]:
        """(barrier or NO_NODE, the value in front of it, what the value also waits for: outermost first)."""
        gates = list[int]()
        primitive, inputs = self.graph.primitive, self.graph.inputs
        while node != NO_NODE and primitive[node] == DEPEND and inputs[node][1] != NO_NODE:
            value, awaited = inputs[node][:2]
            if awaited in self.barriers:
                return awaited, self.unpacked(value), tuple(gates)
            if primitive[awaited] != TUPLE:
                break
            gates.append(awaited)
            node = value
        return NO_NODE, node, ()

    def source(self, node: int) -> tuple[int, int]:
        """(kernel node that makes a value, which of its outputs), NO_NODE for parameters and constants."""
        item = 0
        primitive, inputs = self.graph.primitive, self.graph.inputs
        is_kernel = self.graph.is_kernel
        while node != NO_NODE and node < len(inputs) and not is_kernel[node]:
            if primitive[node] == ITEM:
                item = int(self.graph.item[node])
            elif primitive[node] not in SAME_VALUE:
                return NO_NODE, 0
            node = inputs[node][0]
        return node, item

    def origin(self, node: int) -> tuple[int, int]:
        """As `source`, also of what a call is handed."""
        _, value, _ = self.through_barrier(node)
        return self.source(value)

    @cached_property
    def forward_of(self) -> dict[int, int]:
        """By gradient kernel the forward kernel of the same micro-batch whose gradient it computes: MindSpore numbers
        the nodes of a call, and calls follow one another."""
        forward, gradients = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for kernel, node in enumerate(self.node_of):
            if self.baseline.kernels.backward[kernel]:
                gradients[self.graph.forward_unique[node]].append(kernel)
            else:
                forward[self.graph.unique[node]].append(kernel)
        forward_of: dict[int, int] = {}
        for number, kernels in gradients.items():
            made = forward.get(number, []) if number else []
            each = max(len(kernels) // max(len(made), 1), 1)
            forward_of |= {
                kernel: made[min(turn // each, len(made) - 1)] for turn, kernel in enumerate(kernels) if made
            }
        return self._of_fused_norms() | forward_of

    def _of_fused_norms(self) -> dict[int, int]:
        """A norm that is fused with an Add goes by the number of that; its gradient reads what it made."""
        reads, norms = self.baseline.reads, self.baseline.norms
        of_norm = (reads.face >= 0) & norms[reads.face] & (self.baseline.kernels.primitives == _NORM_GRAD)[reads.kernel]
        of_norm &= reads.kernel < self.count
        return dict(zip(reads.kernel[of_norm].tolist(), reads.face[of_norm].tolist(), strict=True))

    @cached_property
    def passes(self) -> list[int]:
        """[kernels of a step] the pass of each; of a gradient that of the nearest one that reads a node."""
        passes: list[int] = self.baseline.served[: self.count].tolist()
        return passes

    @cached_property
    def saved_of(self) -> dict[int, int]:
        """By number of a micro-batch the tuple with most of its values."""
        held = ((self.batch_of(value), node) for node in self.saved for value in self.graph.inputs[node])
        return _commonest((batch, node) for batch, node in held if batch is not None)

    @cached_property
    def forward_tuples(self) -> frozenset[int]:
        """The tuples that forward passes hand on; backward passes hand on their results in some, too."""
        return frozenset(self.saved_of.values())

    @cached_property
    def saved_behind(self) -> dict[int, int]:
        """By barrier the tuple out of which most values are taken that are tied to it."""
        inputs, primitive = self.graph.inputs, self.graph.primitive
        tied = ((barrier, inputs[tie][0]) for (_, barrier), tie in self.ties.items())
        taken = (
            (barrier, inputs[value][0]) for barrier, value in tied if value != NO_NODE and primitive[value] == ITEM
        )
        return _commonest((barrier, node) for barrier, node in taken if node in self.saved)

    @cached_property
    def calls(self) -> dict[int, Call]:
        """By tuple of saved values the call that reads them; of several not the last one of a step, whose results
        nothing waits for."""
        inputs = self.graph.inputs
        barriers = [(barrier, inputs[inputs[barrier][0]][1]) for barrier in sorted(self.barriers)]
        pairs = [(barrier, results) for (barrier, _), (_, results) in pairwise(barriers)]
        if len(barriers) == 1 and len(others := set(self.saved - self.forward_tuples)) == 1:
            pairs.append((barriers[0][0], others.pop()))
        return {
            self.saved_behind[barrier]: Call(barrier=barrier, results=results)
            for barrier, results in pairs
            if barrier in self.saved_behind and results not in self.forward_tuples
        }

    @cached_property
    def handed(self) -> dict[int, Handed]:
        """By tuple of saved values, for those of `calls`."""
        return {
            saved: handed_on(self.graph, call, self.entries[saved], self.value, self.is_tie)
            for saved, call in self.calls.items()
        }

    @cached_property
    def entries(self) -> dict[int, list[int]]:
        """By tuple of saved values."""
        return {saved: entries(self.graph.inputs[saved], self.is_parameter) for saved in self.saved}

    def value(self, tie: int) -> int:
        """What a call is handed by a tie; `NO_NODE` for a parameter, also where another call was handed it."""
        value = self.unpacked(self.graph.inputs[tie][0])
        return NO_NODE if self.is_parameter(value) else value

    def is_parameter(self, value: int) -> bool:
        while value != NO_NODE and self.is_tie(value):
            value = self.graph.inputs[value][0]
        return value == NO_NODE

    def met_first(self, value: int, readers: Iterable[int]) -> int:
        """Of the readers of a value the one that MindSpore meets first; `NO_NODE` where that is not known. What is
        outside of all cells was put into the graph later and is met last."""
        place = {name: turn for turn, name in enumerate(self._readers.get(self._known_as(value), ()))}
        met = [node for node in readers if node < len(self.graph) and self._known_as(node) in place]

        def turn(node: int) -> tuple[bool, int]:
            return self.graph.name[node].count("/") < 2, place[self._known_as(node)]

        return min(met, key=turn, default=NO_NODE)

    @cached_property
    def _readers(self) -> dict[str, list[str]]:
        return {
            self._known_as(value): list(map(self._known_as, readers))
            for handed in self.handed.values()
            for value, readers in handed.readers.items()
        }

    def _known_as(self, node: int) -> str:
        """The same in all micro-batches."""
        return self.graph.unique[node] or without_number(self.graph.name[node])

    @cached_property
    def can_be_fused(self) -> list[bool]:
        """[nodes] see `can_be_fused`"""
        return can_be_fused(self.graph)

    @cached_property
    def chosen(self) -> dict[int, int]:
        """By operator the number of the cluster that MindSpore's pass chooses it for, before some are cut."""
        clusters = chosen(self.graph.primitive, self.graph.inputs, self.can_be_fused, self.barriers, self.saved)
        return {node: number for number, cluster in enumerate(clusters) for node in cluster}

    def batch_of(self, value: int) -> int | None:
        """The micro-batch whose layers made a value."""
        kernel = self.kernel_of.get(self.source(value)[0])
        return None if kernel is None else self.batch_of_pass.get(int(self.baseline.kernels.passing[kernel]))

    @cached_property
    def batch_of_pass(self) -> dict[int, int]:
        return {number: index for index, batch in enumerate(self.baseline.batches) for number in batch}

    def is_backward(self, node: int) -> bool:
        kernel = self.kernel_of.get(node)
        return kernel is not None and bool(self.baseline.kernels.backward[kernel])

    @cached_property
    def twins(self) -> frozenset[int]:
        """Kernels that the model itself computes again."""
        return frozenset(self.baseline.twin[self.baseline.twin >= 0].tolist())


def _commonest(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """By the first of each pair the second that is most often with it."""
    votes: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for key, value in pairs:
        votes[key][value] += 1
    return {key: held.most_common(1)[0][0] for key, held in votes.items()}
