"""PLACED BASELINE + STRATEGY -> PREDICTION, in the order that MindSpore's own rules give the graph of the strategy.

A prediction has a time axis of its own: launch after launch, step after step, `TICKS` apart. What no kernel made, and
what lives on beyond its step, keeps its place among the kernels of the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swapconf.decide.strategy import Strategy
from swapconf.memory.trace_lifetimes import layer_of, scope_of_layer
from swapconf.trace.columns import Ints
from swapconf.trace.launch_graph import NO_NODE, LaunchGraph
from swapconf.trace.lifetimes import CATEGORIES, NEVER, TICKS, Category, Lifetimes
from swapconf.upstream.launch_orders import Order
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.bound import safe_peak_bytes
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.memory import SEND, Hold, Lives, Made, lives, whole_bytes
from swapconf.whatif.graph.moves import ADD
from swapconf.whatif.graph.prefetch import CopyCycle
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.graph.slices import GATHER
from swapconf.whatif.graph.strategy_graph import StrategyGraph, strategy_graph, unchanged
from swapconf.whatif.laid_out import SUM
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.predict import LaunchPlan, prediction, schedule
from swapconf.whatif.prediction import Moves, Prediction
from swapconf.whatif.swap import Windows

_FREED = TICKS // 2  # behind what is born with a launch


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphedBaseline:
    """A baseline with its graph. ``run``: None where that is not known."""

    prepared: PlacedBaseline
    run: RunGraph | None

    @classmethod
    def of(cls, prepared: PlacedBaseline, graph: LaunchGraph | None) -> GraphedBaseline:
        """``graph``: that of the same run, if its trace has it."""
        return cls(prepared=prepared, run=RunGraph.of(prepared.baseline, graph))

    @cached_property
    def _held(self) -> dict[Made, Hold]:
        """By block of the graph until when the baseline holds it, although nothing there reads the block: a launch, or
        the one in front of a Send, for which the main stream waits, or of what waits for the stream of the block."""
        assert self.run is not None
        lived, graph = lives(unchanged(self.run)), self.run.graph
        _, last = slots(self.prepared)
        kept: dict[Made, Hold] = {}
        for made, end in zip(lived.made, lived.end.tolist(), strict=True):
            kernel = int(last[made.row])
            node = self.run.node_of[kernel] if kernel < self.run.count else NO_NODE
            turn = lived.turn.get(node, -1)
            if turn > end:
                ahead = lived.order[turn + 1] if turn + 1 < len(lived.order) else NO_NODE
                is_sent = ahead != NO_NODE and graph.primitive[ahead] == SEND
                kept[made] = Hold(ahead, 1) if is_sent or self._awaits(ahead, made.node) else Hold(node, 0)
        return kept

    def _awaits(self, node: int, maker: int) -> bool:
        """Whether a launch of the main stream waits for the stream of another one."""
        assert self.run is not None
        stream, kernel_of = self.run.baseline.kernels.stream, self.run.kernel_of
        if node not in kernel_of or stream[kernel_of[node]] or not stream[kernel_of[maker]]:
            return False
        read = (self.run.source(given)[0] for given in self.run.graph.inputs[node] if given != NO_NODE)
        return any(stream[kernel_of[source]] == stream[kernel_of[maker]] for source in read if source in kernel_of)

    def predict(self, strategy: Strategy) -> Prediction:
        return self.prediction(strategy, schedule(self.prepared, strategy))

    def safe_peak_bytes(self, strategy: Strategy, predicted: Prediction) -> int:
        """A peak that the true run does not exceed. ``predicted``: what is predicted for the strategy."""
        return safe_peak_bytes(self.prepared, strategy, predicted.used_peak_bytes)

    def prediction(self, strategy: Strategy, plan: LaunchPlan) -> Prediction:
        """``plan``: of the strategy. Where the graph does not tell, as `predict.prediction`."""
        if self.run is None or self.run.is_inlined != strategy.lazy_inline:
            return prediction(self.prepared, plan)
        try:
            graph = strategy_graph(Asked(prepared=self.prepared, run=self.run, plan=plan))
            lived = lives(graph, self._held)
        except CopyCycle:
            return replace(prediction(self.prepared, plan), is_circular=True)
        except ValueError:  # what is predicted is no graph
            return prediction(self.prepared, plan)
        return _Predicted(prepared=self.prepared, graph=graph, lived=lived, windows=plan.windows).prediction()


def slots(prepared: PlacedBaseline) -> tuple[Ints, Ints]:
    """[blocks] the kernels behind whose first allocation each is born, and released."""
    blocks, before = prepared.baseline.blocks, prepared.baseline.kernels.before * TICKS
    born = np.searchsorted(before, blocks.start, side="right") - 1
    return born, np.searchsorted(before, blocks.end, side="right") - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class _Predicted:
    prepared: PlacedBaseline
    graph: StrategyGraph
    lived: Lives
    windows: Windows

    def prediction(self) -> Prediction:
        baseline = self.prepared.baseline
        primitive = self.graph.nodes.primitive
        again = sum(node in self.graph.again and primitive[node] not in VIEWS for node in self.lived.order)
        return Prediction(
            device=self._device(),
            moves=self._moves(),
            recomputed=again,
            steps=baseline.steps,
            order=Order.MINDSPORE,
            lasting_host_bytes=baseline.lasting_host_bytes,
        )

    @property
    def _length(self) -> int:
        return len(self.lived.order)

    def _launch(self, turn: Ints, step: int = 0) -> Ints:
        """When something is launched; what is in front of all has the time 0."""
        return np.asarray((turn + 1 + step * self._length) * TICKS)

    def _at(self, kernel: Ints) -> Ints:
        """When a kernel of the baseline is launched."""
        run, steps = self.graph.run, self.prepared.baseline.steps
        step, place = np.divmod(np.maximum(kernel, 0), run.count)
        turn = np.where(step < steps, step * self._length + self._turns[place], steps * self._length)
        return np.where(kernel < 0, 0, self._launch(turn))

    @cached_property
    def _turns(self) -> Ints:
        """[kernels of a step]"""
        return np.array([self.lived.turn.get(node, 0) for node in self.graph.run.node_of], dtype=np.int64)

    @cached_property
    def _rows(self) -> Ints:
        """[blocks of the step] the row of the baseline that each is like."""
        return np.array([made.row for made in self.lived.made], dtype=np.int64)

    @cached_property
    def _category(self) -> Ints:
        """[blocks of the step] what a strategy adds, as index into CATEGORIES; -1 for blocks of the baseline."""
        graph, categories = self.graph, np.full(len(self.lived.made), -1, dtype=np.int64)
        for index, made in enumerate(self.lived.made):
            if made.node in graph.back:
                categories[index] = CATEGORIES.index(Category.SWAP)
            elif made.node < graph.nodes.count:
                continue
            elif made.node in graph.again:
                categories[index] = CATEGORIES.index(Category.RECOMPUTED)
            elif made.node in graph.weights or made.node in graph.copies:
                categories[index] = CATEGORIES.index(Category.ACTIVATION)
        return categories

    @cached_property
    def _sums(self) -> dict[int, str]:
        """By block of the step the name of an Add that is not fused with its norm any more, of the layer that it ends;
        so of the block that comes back for it; and of what gathers a slice, which belongs to no layer."""
        run, baseline = self.graph.run, self.prepared.baseline
        scopes: dict[int, str] = {}
        for norm in self.graph.sums:
            kernel = run.kernel_of[norm]
            makers = baseline.added(kernel)
            scope = scope_of_layer(baseline.kernels.name[max(makers)]) if makers else ""
            scopes |= {row: f"{scope}/{ADD}" for row in baseline.made[kernel][SUM : SUM + 1] if scope}
        nodes, name_of = self.graph.nodes, dict[int, str]()
        for index, made in enumerate(self.lived.made):
            if made.node >= nodes.count and nodes.primitive[made.node] == GATHER:
                name_of[index] = nodes.name[made.node]
            elif made.row in scopes:
                name_of[index] = scopes[made.row]
        return name_of

    def _in_step(self, rows: Ints, step: int) -> Ints:
        """The rows of the same blocks in another step."""
        if not step:
            return rows
        made, maker, count = self.prepared.baseline.made, self.prepared.baseline.maker, self.graph.run.count
        later_rows = []
        for row in rows.tolist():
            kernel = int(maker[row])
            later = made.get(kernel + step * count, []) if kernel >= 0 else []
            place = made[kernel].index(row) if kernel >= 0 else 0
            later_rows.append(later[place] if place < len(later) else row)
        return np.array(later_rows, dtype=np.int64)

    def _device(self) -> Lifetimes:
        blocks, steps = self.prepared.baseline.blocks, self.prepared.baseline.steps
        born, last = slots(self.prepared)
        is_new, turn = self._category >= 0, np.arange(len(self.lived.made))
        start, end, origin, category, size = [], [], [], [], []
        own = np.full(len(turn), NO_NODE, dtype=np.int64)
        own[list(self._sums)] = range(len(self._sums))
        for step in range(steps):
            rows = self._in_step(self._rows, step)
            freed = self._launch(self.lived.end, step) + _FREED
            beyond = ~is_new & (last[rows] >= (step + 1) * self.graph.run.count)
            later = np.where(blocks.end[rows] == NEVER, NEVER, self._at(last[rows]) + _FREED)
            start.append(self._launch(self.lived.born, step) + turn - np.searchsorted(self.lived.born, self.lived.born))
            end.append(np.where(beyond, later, freed))
            origin.append(rows)
            category.append(self._category)
            size.append(self.lived.size_bytes)
        merged = np.array(self.lived.merged, dtype=np.int64)
        made_rows = [rows[~is_new] for rows in origin] + [self._in_step(merged, step) for step in range(steps)]
        rest = self._rest(np.concatenate(made_rows))
        start.append(self._at(born[rest]) + np.arange(len(rest)) % _FREED)
        end.append(np.where(blocks.end[rest] == NEVER, NEVER, self._at(last[rest]) + _FREED))
        origin.append(rest)
        category.append(np.full(len(rest), -1, dtype=np.int64))
        size.append(blocks.size_bytes[rest])
        columns = (*map(np.concatenate, (start, end, origin, category, size)),)
        named = np.concatenate([*[own] * steps, np.full(len(rest), NO_NODE)])
        return _lifetimes(blocks, columns, named, tuple(self._sums.values()))

    def _rest(self, made_rows: Ints) -> Ints:
        """Blocks of the baseline that no launch of the step makes: not those of kernels that are not launched, nor
        constants that are merged."""
        baseline, graph = self.prepared.baseline, self.graph
        launched = np.array([node in self.lived.turn for node in graph.run.node_of], dtype=np.bool_)
        gone = (baseline.maker >= 0) & ~launched[baseline.maker % graph.run.count]
        gone[made_rows] = True
        gone[list(graph.merged)] = True
        return np.concatenate([np.flatnonzero(~gone), np.array(graph.constants, dtype=np.int64)])

    def _moves(self) -> Moves:
        """Row by row the copies of each step."""
        baseline, steps, turn = self.prepared.baseline, self.prepared.baseline.steps, self.lived.turn
        out = {copy: node for node, copy in self.graph.out.items() if node in turn}
        backs: dict[int, list[int]] = {}
        for node, copy in self.graph.back.items():
            if node in turn:
                backs.setdefault(copy, []).append(node)
        window = np.array(sorted(out), dtype=np.int64)
        ends = {made.node: int(end) for made, end in zip(self.lived.made, self.lived.end, strict=True)}
        copied = np.array([turn[out[copy]] for copy in window.tolist()], dtype=np.int64)
        freed = np.array([self.lived.released[out[copy]] for copy in window.tolist()], dtype=np.int64)
        turns = [sorted(turn[node] for node in backs.get(copy, ())) or [-1] for copy in window.tolist()]
        last = [max((ends.get(node, 0) for node in backs.get(copy, ())), default=-1) for copy in window.tolist()]
        unread = np.array([copy not in backs for copy in window.tolist()], dtype=np.bool_)
        returned, kept, until = (
            np.where(unread, copied, np.array(places, dtype=np.int64))
            for places in ([given[0] for given in turns], [given[-1] for given in turns], last)
        )

        def of_steps(turns: Ints, behind: int = 0) -> Ints:
            return np.concatenate([self._launch(turns, step) + behind for step in range(steps)])

        row = self.windows.row[window]
        return Moves(
            sites=self.prepared.sites.names,
            site=np.tile(self.windows.site[window], steps),
            size_bytes=np.tile(whole_bytes(baseline, row), steps),
            host_bytes=np.tile(baseline.host_bytes[row], steps),
            prefetch=np.tile(self.windows.prefetch[window], steps),
            copied=of_steps(copied),
            released=of_steps(np.maximum(freed, self._kept_until(window, out)), _FREED),
            returned=of_steps(returned, 1),
            used=of_steps(until),
            end=of_steps(until, _FREED),
            kept=of_steps(kept, 1),
            unread=np.tile(unread, steps),
            underflows=np.tile(np.isin(window, [*self.graph.stops.underflows]), steps),
            stranded=np.tile(np.isin(window, [*self.graph.stops.stranded]), steps),
        )

    def _kept_until(self, window: Ints, out: dict[int, int]) -> Ints:
        """The last launch for which the device memory of what is copied is held."""
        ends = {(made.node, made.row): int(end) for made, end in zip(self.lived.made, self.lived.end, strict=True)}
        nodes, row = self.graph.nodes, self.windows.row
        last_launches = []
        for copy in window.tolist():
            value = nodes.inputs[out[copy]][0]
            while not nodes.is_kernel(value):
                value = nodes.inputs[value][0]
            last_launches.append(ends.get((value, int(row[copy])), -1))
        return np.array(last_launches, dtype=np.int64)


def _lifetimes(blocks: Lifetimes, columns: Sequence[Ints], named: Ints, names: tuple[str, ...]) -> Lifetimes:
    """Blocks like those of the baseline, in order of birth. ``columns``: start, end, origin, category and size.
    ``named``: the row of ``names`` of those that have another name than these, and so another layer."""
    order = np.argsort(columns[0], kind="stable")
    start, end, origin, category, size, named = (column[order] for column in (*columns, named))
    is_new, has_own = category >= 0, named >= 0
    layers = np.array([*map(layer_of, names), NO_NODE])
    return Lifetimes(
        start=start,
        end=end,
        size_bytes=size,
        is_persistent=blocks.is_persistent[origin] & ~is_new,
        category=np.where(is_new, category, blocks.category[origin]).astype(blocks.category.dtype),
        layer=np.where(has_own, layers[named], blocks.layer[origin]).astype(blocks.layer.dtype),
        name=np.where(has_own, len(blocks.names) + named, blocks.name[origin]).astype(blocks.name.dtype),
        names=(*blocks.names, *names),
    )
