"""STRATEGY GRAPH -> LIVES: from which launch to which each block is held.

A block is held from the launch of its kernel to that of its last reader, as the runtime counts. What another stream
reads is held until the main stream waits for that one (see `streams.released`); it also waits before each Send for what
that stream did before. What is copied to the host is held until 3 N launches behind the copy, as in `swap.freed`. What
the baseline holds longer than that is held as long. A view of a parameter has a block of its own where the backward
pass is handed it, and none where it is handed what was copied to the host; so has one that a gradient turns (measured
with MindSpore 2.9.0: weights of experts).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, SAME_VALUE, TUPLE, LaunchGraph
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.graph.nodes import MOVE, Nodes
from swapconf.whatif.graph.run_graph import NO_KERNEL
from swapconf.whatif.graph.strategy_graph import StrategyGraph
from swapconf.whatif.laid_out import GRADIENT_VIEW, SUM
from swapconf.whatif.prepare import ALIGNMENT
from swapconf.whatif.streams import released

SEND = "Send"


class Made(NamedTuple):
    """A block, by the node that makes it, and the row of the baseline that it is like."""

    node: int
    row: int


class Hold(NamedTuple):
    """Until a node is launched, or some launches before that."""

    node: int
    before: int


@dataclass(frozen=True, kw_only=True)
class Lives:
    """Of one step.

    Attributes:
        order: The launches: nodes that the baseline launches, or that the strategy adds.
        made: The blocks; ``born``, ``end``: [blocks] the first and the last launch of each; ``size_bytes``: [blocks].
        released: By node of a copy to the host the launch behind which the device memory is free.
        merged: Rows of the baseline whose kernels show another block now.
    """

    order: list[int]
    made: list[Made]
    born: Ints
    end: Ints
    size_bytes: Ints
    released: Mapping[int, int]
    merged: Sequence[int] = ()

    @cached_property
    def turn(self) -> dict[int, int]:
        return {node: turn for turn, node in enumerate(self.order)}


def lives(graph: StrategyGraph, held: Mapping[Made, Hold] | None = None) -> Lives:
    """``held``: by block of the baseline until when it is held, although nothing reads it. Raises ValueError where
    nodes wait for one another in a circle."""
    return _HeldBlocks(graph).lives(held or {})


def whole_bytes(baseline: Baseline, rows: Ints) -> Ints:
    """On the device, also of what is inside a fused kernel of the baseline and takes none there."""
    size, host = baseline.blocks.size_bytes[rows], baseline.host_bytes[rows]
    return np.where(size > 0, size, host + ALIGNMENT * (host > ALIGNMENT))  # the pool adds 32 bytes to each


def _launches(clusters: Sequence[int]) -> tuple[Ints, Ints]:
    """By turn the first and the last one of the same launch. ``clusters``: by turn the fused kernel, NO_NODE for none;
    operators of one stand together."""
    number = np.array(clusters, dtype=np.int64)
    is_first = np.ones(len(number), dtype=np.bool_)
    is_first[1:] = (number[1:] == NO_NODE) | (number[1:] != number[:-1])
    first = np.flatnonzero(is_first)
    launch = np.cumsum(is_first) - 1
    return first[launch], np.append(first[1:], len(number))[launch] - 1


class _HeldBlocks:
    def __init__(self, graph: StrategyGraph) -> None:
        self._graph, self._nodes, self._run = graph, graph.nodes, graph.run
        self._baseline = graph.run.baseline
        kernel_of, count = self._run.kernel_of, self._nodes.count
        self.order = [node for node in graph.order if node >= count or node in kernel_of]
        self._begin, self._finish = _launches([self._nodes.cluster[node] for node in self.order])
        self._turn = {node: turn for turn, node in enumerate(self.order)}
        self._seen: dict[int, tuple[Made, ...]] = {}

    def lives(self, held: Mapping[Made, Hold]) -> Lives:
        made = [block for node in self.order for block in self._blocks(node) if block.node == node]
        number = {block: index for index, block in enumerate(made)}
        born = self._begin[[self._turn[block.node] for block in made]]
        block, reader = self._reads(number)
        until = self._until(born[block], reader)
        end = self._finish[born]
        np.maximum.at(end, block, self._finish[until])
        for kept, (node, before) in held.items():
            if kept in number and node in self._turn and kept.node not in self._graph.unreturned:
                end[number[kept]] = max(end[number[kept]], self._turn[node] - before)
        freed = {copy: int(self._finish[launch]) for copy, launch in self._released().items()}
        for copy, launch in freed.items():
            for shown in self._blocks(self._nodes.inputs[copy][0]):
                if shown in number:
                    end[number[shown]] = max(end[number[shown]], launch)
        merged = [row for node in sorted(self._merged) for row in self._baseline.made[self._run.kernel_of[node]]]
        return Lives(
            order=self.order,
            made=made,
            born=born,
            end=end,
            size_bytes=self._sizes(made, block, reader),
            released=freed,
            merged=merged,
        )

    def _sizes(self, made: Sequence[Made], block: Ints, reader: Ints) -> Ints:
        """Of what is fused otherwise than in the baseline: what is handed on inside a kernel alone takes no memory, and
        what was, and is not any more, does."""
        rows = np.array([item.row for item in made], dtype=np.int64)
        size = self._baseline.blocks.size_bytes[rows]
        if not self._nodes.is_fused:
            return size
        cluster = np.array(self._nodes.cluster, dtype=np.int64)
        nodes = np.array([item.node for item in made], dtype=np.int64)
        maker = cluster[nodes]
        order = np.array(self.order, dtype=np.int64)
        outside = np.zeros(len(made), dtype=np.bool_)
        outside[block[cluster[order[reader]] != maker[block]]] = True
        outside[[index for index, item in enumerate(made) if item in self._copied]] = True
        read = np.zeros(len(made), dtype=np.bool_)
        read[block] = True
        whole = whole_bytes(self._baseline, rows)
        clusters = [*self._run.graph.cluster, *[NO_NODE] * (len(cluster) - self._nodes.count)]
        is_as_before = (maker == np.array(clusters, dtype=np.int64)[nodes]) & (nodes < self._nodes.count)
        return np.where(is_as_before & ~outside, size, np.where(outside | ~read | (maker == NO_NODE), whole, 0))

    @cached_property
    def _copied(self) -> frozenset[Made]:
        """What is copied to the host."""
        return frozenset(block for copy in self._graph.out for block in self._blocks(self._nodes.inputs[copy][0]))

    def _reads(self, number: Mapping[Made, int]) -> tuple[Ints, Ints]:
        """(block, launch) of each use; a copy to the host holds its block longer, by a rule of its own."""
        pairs = [
            (number[block], turn)
            for turn, node in enumerate(self.order)
            if node not in self._graph.out
            for given in self._nodes.inputs[node]
            for block in self._blocks(given)
            if block in number
        ]
        block, reader = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return block, reader

    @cached_property
    def _stream(self) -> Ints:
        kernels = [self._run.kernel_of.get(node, self._graph.copies.get(node, NO_KERNEL)) for node in self.order]
        return np.append(self._baseline.kernels.stream, 0)[kernels]

    def _until(self, born: Ints, reader: Ints) -> Ints:
        waits, awaited = self._sends()
        position, maker = np.concatenate([reader, waits]), np.concatenate([born, awaited])
        reads = np.concatenate([self._stream[reader], np.zeros(len(waits), dtype=np.int64)])
        until = released(position, reads, maker, self._stream[maker], np.arange(len(self.order)))
        return np.asarray(until[: len(reader)])

    def _sends(self) -> tuple[Ints, Ints]:
        """(What waits for a stream that sends: the next Send, and what the baseline lets wait for one; the launch
        before each on that stream)."""
        pairs, last, sending = list[tuple[int, int]](), dict[int, int](), 0
        awaiting = {self._run.node_of[kernel] for kernel in self._baseline.awaits_send if kernel < self._run.count}
        for turn, (node, stream) in enumerate(zip(self.order, self._stream.tolist(), strict=True)):
            is_send = self._nodes.primitive[node] == SEND
            sending = stream if is_send else sending
            if sending and (is_send or node in awaiting) and sending in last:
                pairs.append((turn, last[sending]))
            last[stream] = turn
        waits, awaited = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return waits, awaited

    def _released(self) -> dict[int, int]:
        copies = [(turn, node) for turn, node in enumerate(self.order) if node in self._graph.out]
        if not copies or self._graph.windows is None:
            return {}
        prefetch = self._graph.windows.prefetch
        is_main = [
            turn
            for turn, node in enumerate(self.order)
            if self._stream[turn] == 0 and self._nodes.primitive[node] != MOVE
        ]
        main, ends = np.array(is_main, dtype=np.int64), np.unique(self._finish)
        launch, last = np.searchsorted(ends, self._finish), len(ends) - 1
        due = [ends[min(launch[turn] + 3 * int(prefetch[self._graph.out[node]]), last)] for turn, node in copies]
        free = main[np.minimum(np.searchsorted(main, due), len(main) - 1)]
        free = np.minimum.accumulate(free[::-1])[::-1]  # copies run in order, on one stream
        return {node: int(launch) for (_, node), launch in zip(copies, free, strict=True)}

    def _blocks(self, node: int) -> tuple[Made, ...]:
        """The blocks that a node shows."""
        while node != NO_NODE and self._nodes.primitive[node] in SAME_VALUE:
            node = self._nodes.inputs[node][0]
        if node == NO_NODE:
            return ()
        if node not in self._seen:
            self._seen[node] = tuple(self._shown(node))
        return self._seen[node]

    def _shown(self, node: int) -> Iterator[Made]:
        nodes, primitive = self._nodes, self._nodes.primitive[node]
        if primitive == TUPLE:
            for given in nodes.inputs[node]:
                yield from self._blocks(given)
        elif primitive == ITEM:
            yield from self._taken(node)
        elif nodes.is_kernel(node):
            rows = self._rows(node)
            yield from (Made(node, row) for row in rows)
            if not rows and nodes.inputs[node] and primitive not in (MOVE, SEND):
                yield from self._blocks(nodes.inputs[node][0])

    def _taken(self, node: int) -> tuple[Made, ...]:
        given = self._nodes.inputs[node][0]
        if given in self._run.saved:
            return self._blocks(self._nodes.inputs[given][self._nodes.item[node]])
        blocks = self._blocks(given)
        return blocks[min(self._nodes.item[node], len(blocks) - 1) :][:1] if blocks else ()

    @cached_property
    def _merged(self) -> frozenset[int]:
        """Views that had a block of their own, and show what they read now."""
        made, kernel_of = self._baseline.made, self._run.kernel_of
        return frozenset(
            node for node in (*self._no_longer_saved, *self._no_longer_turned) if made.get(kernel_of[node])
        )

    @property
    def _no_longer_saved(self) -> Iterator[int]:
        """Views of parameters that no backward pass is handed any more."""
        run, nodes = self._run, self._nodes
        before = {value for saved in run.saved for value in run.graph.inputs[saved]}
        gone = before - {value for saved in run.saved for value in nodes.inputs[saved]}
        for node in gone & run.kernel_of.keys() & self._turn.keys():
            if nodes.primitive[node] in VIEWS and run.graph.primitive[run.graph.inputs[node][0]] == LOAD:
                yield node

    @property
    def _no_longer_turned(self) -> Iterator[int]:
        """Views in the forward pass that no gradient turns any more: what is to be turned lies for itself."""
        run, nodes = self._run, self._nodes
        before = self._turned(range(nodes.count), run.graph)
        if before:
            now = self._turned(self.order, nodes)
            yield from (node for node in before - now if node in self._turn and not run.is_backward(node))

    def _turned(self, order: Iterable[int], graph: LaunchGraph | Nodes) -> set[int]:
        """Views that a gradient turns."""
        primitive, inputs = graph.primitive, graph.inputs
        turned = set[int]()
        for node in order:
            value = inputs[node][0] if primitive[node] == GRADIENT_VIEW else NO_NODE
            while value != NO_NODE and primitive[value] in {DEPEND, ITEM}:
                is_saved = primitive[value] == ITEM and inputs[value][0] in self._run.saved
                value = inputs[inputs[value][0]][int(graph.item[value])] if is_saved else inputs[value][0]
            if value != NO_NODE and primitive[value] in VIEWS:
                turned.add(value)
        return turned

    def _rows(self, node: int) -> list[int]:
        """The rows that the blocks of a kernel are like."""
        graph, made = self._graph, self._baseline.made
        if node in self._merged:
            return []
        if node in graph.back and graph.windows is not None:
            return [int(graph.windows.row[graph.back[node]])]
        if node in graph.weights:
            return [graph.weights[node]]
        parted = next((norm for norm, added in graph.sums.items() if added == node), None)
        if parted is not None:
            return made[self._run.kernel_of[parted]][SUM : SUM + 1]
        kernel = self._run.kernel_of.get(node, graph.copies.get(node, NO_KERNEL))
        rows = made.get(kernel, []) if kernel != NO_KERNEL else []
        if node in graph.adds:
            return rows[SUM : SUM + 1]
        return rows[:SUM] if node in graph.sums or node in graph.norms else rows
