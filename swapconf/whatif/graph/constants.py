"""What recomputed cells make of constants, such as the halves of a rotary table -> nodes for the backward pass; and
the literals that a strategy adds, or lets MindSpore merge.

MindSpore 2.9.0 makes the node again for the recomputed cells of all layers and micro-batches together, in stages of a
pipeline in front of the last for each micro-batch, without lazy inline for each layer. With lazy inline it waits for
nothing, as it reads a constant alone, and that constant lies on the device once more; without, it waits as what runs
again does (measured).

Mirrors recompute (frontend/optimizer/irpass/recompute.cc) and CSE of what depends on constants alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from swapconf.trace.launch_graph import DEPEND, NO_NODE, TUPLE
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.cse import Tables
from swapconf.whatif.graph.gates import Gates
from swapconf.whatif.graph.moves import MoveTos
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.graph.ties import Ties
from swapconf.whatif.prepare import ALIGNMENT

_CONSTANT = CATEGORIES.index(Category.CONSTANT)
_FAR = 4  # nodes between a constant and what is made of it
_OF_CONSTANTS = frozenset({"CumSum", "Split"})
_OF_OUT, _SHARED = 3, 2  # literals of a copy to the host, and what such copies share


@dataclass
class Constants(GraphChange):
    """``kernel_of``: by added node the kernel of the baseline that it is like."""

    tables: Tables
    ties: Ties
    gates: Gates
    kernel_of: dict[int, int] = field(default_factory=dict)
    _made: dict[tuple[int, int], int] = field(default_factory=dict)

    def again(self, value: int, reader: int) -> int:
        """A value as the backward pass reads it for ``reader``, a kernel of the forward pass; `NO_NODE` where it is
        that of the forward pass."""
        source, _ = self.run.source(value)
        is_inside = self.asked.root[reader] != NO_CELL or self.asked.is_left_out(reader)
        if not is_inside or not self._is_constant(source):
            return NO_NODE
        gate = NO_NODE if self.run.is_inlined else self.gates.of(reader, self.asked.part(reader))
        return self.tables.shown(value, self._copy(source, self._sharing(reader), gate))

    def _sharing(self, reader: int) -> int:
        """The same for all that have one copy."""
        passing = int(self.baseline.kernels.passing[reader])
        if not self.run.is_inlined:
            return passing
        return self.run.batch_of_pass.get(passing, 0) if self.baseline.is_sent_gradients else 0

    def _copy(self, source: int, sharing: int, gate: int) -> int:
        """``gate``: what the first input waits for."""
        if (source, sharing) not in self._made:
            run, nodes = self.run, self.nodes
            inputs = [
                given if given == NO_NODE else self.tables.shown(given, self._copy(run.source(given)[0], sharing, gate))
                for given in run.graph.inputs[source]
            ]
            if inputs[:1] == [NO_NODE]:
                inputs[0] = self.ties.gated(NO_NODE, gate)
            new = nodes.add(nodes.primitive[source], inputs, nodes.name[source])
            self._made[source, sharing] = new
            self.kernel_of[new] = run.kernel_of[source]
        return self._made[source, sharing]

    def _is_constant(self, node: int, far: int = 0) -> bool:
        """Made of constants alone: parameters, too, are no nodes, but are not what these primitives read."""
        if node not in self.run.kernel_of or self.run.is_backward(node) or far > _FAR:
            return False
        given = [value for value in self.run.graph.inputs[node] if value != NO_NODE]
        if not given:
            return self.run.graph.primitive[node] in _OF_CONSTANTS
        return all(self._is_constant(self.run.source(value)[0], far + 1) for value in given)

    def rows(self) -> list[int]:
        """Blocks of the baseline that lie on the device once more. A trace does not tell who reads a constant: it is
        as large as what is cut out of it, each rounded up for itself."""
        baseline, blocks = self.baseline, self.baseline.blocks
        constants = np.flatnonzero((baseline.maker < 0) & (blocks.category == _CONSTANT))
        rows = list[int]()
        node_of = {kernel: node for node, kernel in self.kernel_of.items()}
        for kernel, node in node_of.items():
            if any(given != NO_NODE and given < self.nodes.count for given in self.nodes.inputs[node]):
                continue
            parts = blocks.size_bytes[baseline.made[kernel]]
            more = parts.sum() - blocks.size_bytes[constants]
            rows += constants[(more >= 0) & (more <= len(parts) * ALIGNMENT)][:1].tolist()
        return rows


# --- literals ---------------------------------------------------------------------------------------------------------


def rows_of_literals(asked: Asked, moves: MoveTos, again: Iterable[int]) -> list[int]:
    """The literals that lie on the device for what a strategy adds: 512 bytes each, tens of KiB in all. For each a
    block of the baseline that is like it; none where it has no constant so small. ``again``: kernels of what runs
    again.

    A copy reads two, where to and whether to wait; other primitives read shapes, types and the like. MindSpore 2.9.0
    shares them among micro-batches. Where each use has one of its own (see `_has_own_literals`), it leaves four for
    each copy to the host that comes back and three for one that does not, and those that what runs again reads.
    Elsewhere a copy to the host has one of its own where the forward pass reads, too, what it copies, in steps of one
    micro-batch always, and the others share two; legacy models, and the last stage of a pipeline, share all (measured
    in 190 runs of random strategies: copies to about three literals, a few less under the parallel optimizer; of what
    runs again to about 15 %).
    """
    blocks = asked.baseline.blocks
    alike = np.flatnonzero((blocks.category == _CONSTANT) & (blocks.size_bytes == ALIGNMENT))
    return [int(row) for row in alike[:1]] * (_of_copies(asked, moves) + _of_again(asked, again))


def merged_literals(asked: Asked) -> Sequence[int]:
    """Rows of the literals of the baseline that a strategy does not leave on the device, as its uses share them.

    Those that no launch reads stand for them: of what each func graph has for itself the back end reads one (measured
    with MindSpore 2.9.0, TeleChat3 in a last stage: 185 of 565 are read, 190 to 201 lie there with recomputed cells).
    """
    is_merged = _has_typed_results(asked) and _calls_cells(asked)
    return asked.baseline.unread_literals if is_merged else ()


def _has_own_literals(asked: Asked) -> bool:
    """Whether each use of a literal has a value node of its own, which lies on the device, read or not.

    CSE of the front end (``cse_after_recomputation``) merges equal value nodes of a func graph. Behind it
    ``BackendPass`` (frontend/jit/ps/pass.cc) infers types again where `make_tuple_from_fprop_eliminate` changed what
    forward passes return; that makes a value node for each use, and the back end, whose CSE merges what reads them,
    keeps all (``graph_value_nodes`` of KernelGraph). In stages that a later one sends gradients it is always so.
    """
    return asked.baseline.is_sent_gradients or (_has_typed_results(asked) and not _calls_cells(asked))


def _has_typed_results(asked: Asked) -> bool:
    """Whether that pass changed the baseline, but for stages in which it always does."""
    return asked.is_mcore and not asked.baseline.is_sent_gradients and has_flat_results(asked.run)


def has_flat_results(run: RunGraph) -> bool:
    """Whether the results of forward passes, of which all but the loss are constants in mcore, stand one by one in
    front of the saved values, not in a tuple of their own."""
    primitive, inputs = run.graph.primitive, run.graph.inputs

    def is_flat(first: int, second: int) -> bool:
        while first != NO_NODE and primitive[first] == DEPEND:
            first = inputs[first][0]
        return first != NO_NODE and primitive[first] != TUPLE and second == NO_NODE

    results = [inputs[saved][:2] for saved in run.forward_tuples]
    return bool(results) and all(len(pair) > 1 and is_flat(*pair) for pair in results)


def _calls_cells(asked: Asked) -> bool:
    """A recomputed cell that reads parameters is called with a state, so that what the forward pass returns waits for
    that (see `returned`): it is a Depend, not a tuple, and `make_tuple_from_fprop_eliminate` leaves it alone."""
    return bool((asked.called != NO_CELL).any())


def _of_copies(asked: Asked, moves: MoveTos) -> int:
    baseline, face = asked.baseline, asked.windows.face
    windows = list(moves.out)
    if not windows:
        return 0
    if _has_own_literals(asked):
        returned = {window for window, _ in moves.back}
        return _of_one_batch(asked, (int(face[window]) for window in [*windows * _OF_OUT, *returned]))
    if baseline.is_piped or not asked.is_mcore:
        return 0
    if baseline.is_accumulated:
        windows = [window for window in windows if moves.is_read(window)]
    return _SHARED + _of_one_batch(asked, (int(face[window]) for window in windows))


def _of_again(asked: Asked, again: Iterable[int]) -> int:
    if not _has_own_literals(asked):
        return 0
    return _of_one_batch(asked, _each(asked, again))


def _each(asked: Asked, kernels: Iterable[int]) -> Iterator[int]:
    """Each kernel as often as it reads what is no node."""
    for kernel in kernels:
        yield from [kernel] * asked.run.graph.inputs[asked.run.node_of[kernel]].count(NO_NODE)


def _of_one_batch(asked: Asked, kernels: Iterable[int]) -> int:
    """How many there are in the micro-batch that has most, of each layer."""
    columns, most = asked.baseline.kernels, Counter[int]()
    layer, passing = columns.layer, columns.passing
    for (number, _), count in Counter((int(layer[kernel]), int(passing[kernel])) for kernel in kernels).items():
        most[number] = max(most[number], count)
    return most.total()
