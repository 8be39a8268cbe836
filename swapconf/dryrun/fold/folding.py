"""STRATEGY + MICRO-BATCHES -> FOLDS: which smaller models tell the memory of the whole one, as data.

A *share* is a stage's part of an interleave, a *row* some equal layers that follow each other in it (same template,
same decisions). A rank holds nothing of the layers of other stages, so one layer of each kind stays in each of their
shares. In its own shares each long row loses layers from its middle, and the step loses micro-batches. A fold is a
smallest run and steps, each of which is one further run: some rows longer by the same number of layers, or more
micro-batches. Rows that lack equally many layers grow in one step, as only the sum of what they add is needed.

Where layers are on no line, a step can still go to all of them at once: what a micro-batch adds is known from the
smallest run, of a layer or two of each kind, so that only one run has all layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from swapconf.decide.strategy import LayerStrategy, Strategy
from swapconf.dryrun.fold.micro_batches import MicroBatches
from swapconf.words.phrases import phrase

# the fewest layers of a row from which on memory is on a line, and every how many: measured with MindSpore 2.9.0
# (docs/explanation/folding.md). Without a pipeline, and with swap, memory alternates between odd and even numbers
SMALLEST, STRIDE = 4, 2
SMALLEST_PIPELINED, STRIDE_PIPELINED = 2, 1
# what a child takes, measured in one layer compiled: its start, a micro-batch of an own layer; and how compiling grows
# with the layers of all stages (DeepSeek-V3 671B: half as many layers again take 1.8 times the time)
_STARTING, _MICRO_BATCH, _GROWTH = 5.0, 0.5, 1.45
_WORTH = 0.8  # of the cost of the whole: what a single run may take, which leaves the files of another model
_UNCOUNTED = 8  # layers of a stage, where they are not told apart
# how often a fold with few layers that a far prefetch bends gives way to a run with all of them (two of two were met)
_GIVES_WAY = 0.5
_FAR = 32  # a quarter of the launches of a layer, from which on a prefetch is said to reach over several


class CannotFold(ValueError):
    """The model has to be run whole; the text says why."""


@dataclass(frozen=True, slots=True)
class LayerRow:
    """``length`` layers from ``first`` on, in one share: equal ones of the rank's own stage, or those of another stage,
    of which so many stay (``stays``). ``twin``: the first layer of an earlier row of the share whose layers are the
    same."""

    first: int
    length: int
    stays: int | None = None
    twin: int | None = None

    @property
    def own(self) -> bool:
        return self.stays is None

    @property
    def indices(self) -> range:
        return range(self.first, self.first + self.length)


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a model a run has: layers of each row, and micro-batches."""

    layers: tuple[int, ...]
    micro_batches: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """``rows``: all layers, in order; none where layers are not counted. ``small``, ``steps``: the runs to extrapolate
    from; a step differs from ``small`` in some rows or in the micro-batches. ``why_check``: why a further run has to
    confirm them, "" where it need not."""

    rows: tuple[LayerRow, ...]
    whole: Size
    small: Size
    steps: tuple[Size, ...] = ()
    why_check: str = ""

    @property
    def num_layers(self) -> int:
        """Of the whole model, without extra prediction layers."""
        return sum(row.length for row in self.rows)

    @property
    def own_layers(self) -> int:
        """Of the rank's own stage."""
        return sum(row.length for row in self.rows if row.own)

    @property
    def runs(self) -> tuple[Size, ...]:
        return (self.small, *self.steps)

    @property
    def check(self) -> Size:
        """A run two steps away in every direction, as far as the model goes."""
        size = self.small
        for step in self.steps:
            size = Size(
                layers=tuple(
                    _beyond(*one)
                    for one in zip(size.layers, self.small.layers, step.layers, self.whole.layers, strict=True)
                ),
                micro_batches=_beyond(
                    size.micro_batches, self.small.micro_batches, step.micro_batches, self.whole.micro_batches
                ),
            )
        return size

    @property
    def folded_rows(self) -> tuple[int, ...]:
        """Those of the own stage that lose layers."""
        return tuple(
            number
            for number, row in enumerate(self.rows)
            if row.own and self.small.layers[number] < self.whole.layers[number]
        )

    @property
    def full_run(self) -> int | None:
        """Which of ``runs`` has all layers of the rank, where others have fewer."""
        own = [number for number, row in enumerate(self.rows) if row.own]
        whole = [
            number
            for number, size in enumerate(self.runs)
            if all(size.layers[row] == self.whole.layers[row] for row in own)
        ]
        return whole[0] if whole and self.folded_rows else None

    @property
    def is_on_line_of_layers(self) -> bool:
        """Whether all runs have fewer layers than the rank."""
        return bool(self.folded_rows and self.steps) and self.full_run is None

    @property
    def folds_micro_batches(self) -> bool:
        return self.small.micro_batches < self.whole.micro_batches

    def kept(self, size: Size) -> tuple[int, ...]:
        """The layers that stay, by global index: a layer of the folded model is a position in here."""
        found: list[int] = []
        for row, left in zip(self.rows, size.layers, strict=True):
            front = -(-left // 2)
            found += [*row.indices[:front], *row.indices[row.length - (left - front) :]]
        return tuple(found)

    def distances(self, size: Size) -> tuple[float, ...]:
        """How often each step has to be taken from ``small`` to come to ``size``."""
        return tuple(
            next(
                (there - start) / (one - start)
                for start, one, there in zip(_numbers(self.small), _numbers(step), _numbers(size), strict=True)
                if one != start
            )
            for step in self.steps
        )

    def on_line(self, figures: Sequence[int], size: Size) -> int:
        """What a size has, where each step adds the same. ``figures``: of ``runs``, in their order."""
        small = figures[0]
        return round(
            small + sum((one - small) * step for one, step in zip(figures[1:], self.distances(size), strict=True))
        )

    @property
    def cost(self) -> float:
        """Of all runs, in layers compiled."""
        return self.expected_cost(reaches_far=False)

    def expected_cost(self, *, reaches_far: bool) -> float:
        """``reaches_far``: a prefetch probably does, so that where layers are left out a further run has to confirm."""
        is_checked = self.why_check or (reaches_far and self.is_on_line_of_layers)
        return sum(map(self._cost_of, self.runs)) + (self._cost_of(self.check) if is_checked else 0)

    @property
    def is_worth_it(self) -> bool:
        """A single run, which only leaves out layers of other stages, has to save more."""
        return self.cost < self.cost_of_whole * (1 if self.steps else _WORTH)

    @property
    def cost_of_whole(self) -> float:
        return self._cost_of(self.whole)

    def _cost_of(self, size: Size) -> float:
        own = [left for row, left in zip(self.rows, size.layers, strict=True) if row.own] or [_UNCOUNTED]
        return cost_of(sum(size.layers), sum(own), size.micro_batches)


def cost_of(layers: int, own: int, micro_batches: int) -> float:
    """Of one run, in layers compiled. ``own``: layers of the rank's stage."""
    return _STARTING + math.pow(layers, _GROWTH) + own * micro_batches * _MICRO_BATCH


def folds(strategy: Strategy | None, stage: int, found: MicroBatches, num_dense: int = 0) -> tuple[Fold, ...]:
    """How a model can be folded for a rank of ``stage``, the cheapest first; only what is worth it.
    ``strategy``: None where layers are not told apart. ``num_dense``: after so many layers others may follow, whatever
    is known of them. Raises CannotFold."""
    rows = rows_of(strategy, stage, num_dense) if strategy is not None else ()
    least = found.least if found.least is not None and found.count > found.least + found.stride else found.count
    is_unknown = strategy is not None and strategy.network.family is None
    is_steady = strategy is not None and not strategy.swap_on and any(not row.own for row in rows)
    smallest, stride = (SMALLEST_PIPELINED, STRIDE_PIPELINED) if is_steady else (SMALLEST, STRIDE)
    # where layers alternate (MindSpore 2.9.0 launches those of a router in one of two orders), two periods do not
    ways = {
        _fold(rows, left, every, found, count, is_unknown)
        for every in (stride, 2 * stride)
        for left in _choices(rows, smallest, every)
        for count in (least, found.count)
    }
    once = _all_layers_once(rows, found, least) if least < found.count and not found.why_check else None
    worth = [one for one in (*ways, once) if one is not None and one.is_worth_it]
    better = _cheapest_first(worth, is_far=reaches_far(strategy))
    if not better:
        raise CannotFold(
            found.why_not
            if found.why_not and found.count > 1
            else phrase("too few equal layers follow each other in the stage, and too few micro-batches")
        )
    return tuple(better)


def _cheapest_first(ways: Sequence[Fold], *, is_far: bool) -> list[Fold]:
    """By what each will probably cost."""
    instead = min((one.cost for one in ways if one.full_run is not None), default=0.0)

    def expected(one: Fold) -> float:
        gives_way = _GIVES_WAY * instead if is_far and one.is_on_line_of_layers else 0.0
        return one.expected_cost(reaches_far=is_far) + gives_way

    return sorted(ways, key=expected)


def reaches_far(strategy: Strategy | None) -> bool:
    """Whether a prefetch probably reaches over several layers."""
    return strategy is not None and strategy.longest_prefetch >= _FAR


def check(folded: Strategy | None, whole: Strategy, kept: Sequence[int]) -> None:
    """The folded config must decide for every layer what the whole one decides for it. Raises CannotFold."""
    if folded is None or folded.network.num_layers != len(kept):
        raise CannotFold(phrase("the config cannot be written with fewer layers"))
    before = {entry.layer.index: entry for entry in _decoder_layers(whole)}
    for entry in _decoder_layers(folded):
        twin = before[kept[entry.layer.index]]
        if not equal(entry, twin) or entry.layer.stage != twin.layer.stage:
            raise CannotFold(
                phrase("with fewer layers, layer {layer} would be treated otherwise", layer=twin.layer.name)
            )


def rows_of(strategy: Strategy, stage: int, num_dense: int) -> tuple[LayerRow, ...]:
    """All layers, as a rank of ``stage`` sees them. ``num_dense``: see `folds`."""
    layers = _decoder_layers(strategy)
    shares = [[*share] for _, share in groupby(layers, key=lambda entry: (entry.layer.interleave, entry.layer.stage))]
    rows: list[LayerRow] = []
    for share in shares:
        if share[0].layer.stage == stage:
            rows += _equal_rows(share, num_dense)
            continue
        *before, last = _kinds(share, num_dense)
        if share is shares[-1] and last.length > 1:  # extra layers are made like the last one
            rows += [*before, replace(last, length=last.length - 1, stays=0), LayerRow(last.indices[-1], 1, stays=1)]
        else:
            rows += [*before, last]
    return tuple(rows)


def _kinds(share: Iterable[LayerStrategy], num_dense: int) -> list[LayerRow]:
    """Of another stage: layers with experts send something of their own to the next stage (measured with DeepSeek-V3
    and MindSpore 2.9.0: one tensor more of each micro-batch), so one of each kind stays."""
    rows: list[LayerRow] = []
    before: LayerStrategy | None = None
    for entry in share:
        if before is not None and entry.layer.index != num_dense and before.layer.template == entry.layer.template:
            rows[-1] = replace(rows[-1], length=rows[-1].length + 1)
        else:
            rows.append(LayerRow(entry.layer.index, 1, stays=1))
        before = entry
    return rows


def _equal_rows(share: Iterable[LayerStrategy], num_dense: int) -> list[LayerRow]:
    rows: list[LayerRow] = []
    kinds: list[LayerStrategy] = []
    before: LayerStrategy | None = None
    for entry in share:
        if before is not None and entry.layer.index != num_dense and equal(before, entry):
            rows[-1] = replace(rows[-1], length=rows[-1].length + 1)
        else:
            if entry.layer.index == num_dense:
                kinds.clear()
            twin = next((kind.layer.index for kind in kinds if equal(kind, entry)), None)
            rows.append(LayerRow(entry.layer.index, 1, twin=twin))
            kinds += [entry] if twin is None else []
        before = entry
    return rows


def _choices(rows: Sequence[LayerRow], smallest: int, stride: int) -> list[dict[int, int]]:
    """Which rows to shorten, and to how many layers: none; those of other stages; the longest ones of the own stage,
    too."""
    others = {number: row.stays for number, row in enumerate(rows) if row.stays is not None}
    long = {number: row.length for number, row in enumerate(rows) if row.own and row.length > smallest + stride + 1}
    short = {number: smallest + (length - smallest) % stride for number, length in long.items()}
    return [
        {},
        others,
        *(
            {**others, **{number: short[number] for number, length in long.items() if length >= fewest}}
            for fewest in sorted(set(long.values()))
        ),
    ]


def _fold(
    rows: tuple[LayerRow, ...], left: Mapping[int, int], stride: int, found: MicroBatches, least: int, is_unknown: bool
) -> Fold:
    whole = Size(tuple(row.length for row in rows), found.count)
    small = Size(tuple(left.get(number, row.length) for number, row in enumerate(rows)), least)
    lacking = [row.length - size if row.own else 0 for row, size in zip(rows, small.layers, strict=True)]
    steps = [
        replace(
            small,
            layers=tuple(size + stride * (lack == together) for size, lack in zip(small.layers, lacking, strict=True)),
        )
        for together in sorted({lack for lack in lacking if lack})
    ]
    if least < found.count:
        steps.append(replace(small, micro_batches=least + found.stride))
    why = (
        phrase("the family is not known")
        if is_unknown and small.layers != whole.layers
        else found.why_check
        if least < found.count
        else ""
    )
    return Fold(rows=rows, whole=whole, small=small, steps=tuple(steps), why_check=why)


def _all_layers_once(rows: tuple[LayerRow, ...], found: MicroBatches, least: int) -> Fold | None:
    """The smallest run has two layers of the first row of each kind, and no other; None where that is all."""

    def few(row: LayerRow) -> int:
        if row.stays is not None:
            return row.stays
        return min(row.length, SMALLEST_PIPELINED) if row.twin is None else 0

    small = Size(tuple(map(few, rows)), least)
    most = replace(small, layers=tuple(row.length if row.own else few(row) for row in rows))
    if small == most:
        return None
    return Fold(
        rows=rows,
        whole=Size(tuple(row.length for row in rows), found.count),
        small=small,
        steps=(most, replace(small, micro_batches=least + found.stride)),
    )


def _beyond(size: int, start: int, one: int, whole: int) -> int:
    return size if one == start else min(start + 2 * (one - start), whole)


def _numbers(size: Size) -> tuple[int, ...]:
    return (*size.layers, size.micro_batches)


def _decoder_layers(strategy: Strategy) -> list[LayerStrategy]:
    """Those of the model itself, without extra prediction layers."""
    return [entry for entry in strategy.layers if entry.layer.name == str(entry.layer.index)]


def equal(one: LayerStrategy, other: LayerStrategy) -> bool:
    """Whether two layers are of one kind and treated alike."""
    if (
        one.layer.template != other.layer.template
        or one.plan.actions() != other.plan.actions()
        or one.plan.comm_recompute != other.plan.comm_recompute
    ):
        return False
    return bool(one.layer.template.operators) or _asked(one) == _asked(other)


def _asked(entry: LayerStrategy) -> list[tuple[str, str, int]]:
    """What is asked for in a layer of which no operator is known."""
    return [
        (outcome.request.kind, outcome.request.operator, outcome.request.prefetch) for outcome in entry.plan.outcomes
    ]
