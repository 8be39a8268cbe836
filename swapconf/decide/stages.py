"""LAYERS + PIPELINE -> STAGES: how mindformers deals layers to pipeline stages, and what a count per stage selects.

The rule is mindformers 1.9.0's (LayerSetting): every stage of every interleave gets the even share plus its offset,
dealt in order, interleave by interleave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from swapconf.config.config import EveryLayer, LayerCounts, LayerIndices, LayerSelection, Pipeline
from swapconf.words.phrases import phrase, plural


class BadDeal(ValueError):
    """The layers cannot be dealt like this; the text says why."""


@dataclass(frozen=True, slots=True)
class StageMap:
    """``shares[interleave][stage]``: number of layers. ``places[layer]``: its (interleave, stage). ``guessed``: the
    layers cannot be dealt like this, so that nothing more may be concluded from it."""

    shares: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, int], ...]
    pipeline: Pipeline
    guessed: bool = False

    def pipeline_stage(self, layer: int) -> int:
        """The stage that runs a layer; with zero_bubble_v the second half of the pipeline runs backwards."""
        interleave, stage = self.places[layer]
        physical = stage + self.pipeline.start_stage
        if self.pipeline.zero_bubble_v and interleave == 1:
            return self.pipeline.num_stages - 1 - physical
        return physical

    def selected(self, layers: LayerSelection) -> frozenset[int]:
        """The layers that exist and are selected. Raises BadDeal when counts do not fit the stages."""
        everyone = frozenset(range(len(self.places)))
        if isinstance(layers, EveryLayer):
            return everyone
        if isinstance(layers, LayerIndices):
            return everyone & frozenset(layers.indices)
        counts = [count for row in self._per_share(layers) for count in row]
        shares = [share for row in self.shares for share in row]
        first = accumulate(shares, initial=0)  # the global index of the first layer of each share
        return frozenset(start + step for start, count in zip(first, counts, strict=False) for step in range(count))

    def selection(self, layers: frozenset[int], free: frozenset[int] = frozenset()) -> EveryLayer | LayerCounts | None:
        """What a list says of these layers with swap off (R3): all of them, else `counts`."""
        return EveryLayer() if len(layers) == len(self.places) else self.counts(layers, free)

    def counts(self, layers: frozenset[int], free: frozenset[int] = frozenset()) -> LayerCounts | None:
        """What selects these layers, and of others only ``free`` ones; None where no counts do. A count for each stage
        goes before one for each interleave of it."""
        last = {self.places[layer]: layer for layer in sorted(layers)}
        between = frozenset(
            layer for layer in free if layer < len(self.places) and layer < last.get(self.places[layer], -1)
        )
        for wanted in () if self.guessed else dict.fromkeys((layers, layers | between)):
            rows = [[0] * len(row) for row in self.shares]
            for interleave, stage in (self.places[layer] for layer in wanted):
                rows[interleave][stage] += 1
            summed = tuple(map(sum, zip(*rows, strict=True)))
            if self.pipeline.zero_bubble_v and len(rows) > 1:
                rows[1].reverse()
            for made in (LayerCounts((summed,), False), LayerCounts(tuple(map(tuple, rows)), True)):
                if self.selected(made) == wanted:
                    return made
        return None

    def _per_share(self, layers: LayerCounts) -> list[list[int]]:
        stages, rows = self.pipeline.num_stages, layers.counts
        check_lengths(layers, self.pipeline)
        if not layers.per_interleave:
            return self._dealt_out(rows[0])
        if self.pipeline.zero_bubble_v:
            rows = (rows[0], tuple(reversed(rows[1])), *rows[2:])
        return [
            [
                share if count is None else min(max(count, 0), share)
                for count, share in zip((*row, *[0] * (stages - len(row))), shares, strict=True)
            ]
            for row, shares in zip(rows, self.shares, strict=True)
        ]

    def _dealt_out(self, row: tuple[int | None, ...]) -> list[list[int]]:
        """One number per stage is handed out to its interleaves in turn."""
        counts = [[0] * self.pipeline.num_stages for _ in self.shares]
        for stage, number in enumerate(row):
            total = sum(shares[stage] for shares in self.shares)
            left = total if number is None else min(max(number, 0), total)
            while left:
                for interleave, shares in enumerate(self.shares):
                    if left and counts[interleave][stage] < shares[stage]:
                        counts[interleave][stage] += 1
                        left -= 1
        return counts


def check_lengths(layers: LayerCounts, pipeline: Pipeline) -> None:
    """Raises BadDeal where there are more counts than stages, or lists than interleaves."""
    stages, interleaves, rows = pipeline.num_stages, pipeline.num_interleaves, layers.counts
    if any(len(row) > stages for row in rows):
        raise BadDeal(
            plural(
                stages,
                "{counts} counts for {count} pipeline stage",
                "{counts} counts for {count} pipeline stages",
                counts=max(map(len, rows)),
            )
        )
    if layers.per_interleave and len(rows) != interleaves:
        raise BadDeal(
            plural(
                interleaves,
                "{lists} lists for {count} interleave",
                "{lists} lists for {count} interleaves",
                lists=len(rows),
            )
        )


def guess(num_layers: int, pipeline: Pipeline) -> StageMap:
    """A deal where `deal` refuses, so that all else can still be said: the rest goes to the first stages."""
    interleaves = pipeline.num_interleaves if pipeline.num_stages * pipeline.num_interleaves <= num_layers else 1
    parts = pipeline.num_stages * interleaves
    flat = [num_layers // parts + (part < num_layers % parts) for part in range(parts)]
    shares = [flat[first : first + pipeline.num_stages] for first in range(0, parts, pipeline.num_stages)]
    places = [
        (interleave, stage)
        for interleave, row in enumerate(shares)
        for stage, share in enumerate(row)
        for _ in range(share)
    ]
    return StageMap(
        tuple(map(tuple, shares)), tuple(places), replace(pipeline, num_interleaves=interleaves), guessed=True
    )


def deal(num_layers: int, pipeline: Pipeline) -> StageMap:
    """The stage of every layer. Raises BadDeal with mindformers' own condition when the offset does not fit."""
    stages, interleaves = pipeline.num_stages, pipeline.num_interleaves
    if stages * interleaves > num_layers + 2:  # the first and the last may be empty; lists of stages can be huge
        raise BadDeal(phrase("a stage in the middle would have no layer"))
    offset = _offset(num_layers, pipeline) if stages * interleaves > 1 else [[0]]
    even = num_layers // (stages * interleaves)
    shares = [[even + extra for extra in row] for row in offset]
    flat = [share for row in shares for share in row]
    if min(flat) < 0 or any(share < 1 for share in flat[1:-1]):
        raise BadDeal(
            phrase("a stage in the middle would have no layer")
            if min(flat) >= 0
            else phrase("a stage would have fewer than 0 layers")
        )
    if pipeline.zero_bubble_v and interleaves > 1:
        shares[1].reverse()
    places = [
        (interleave, stage)
        for interleave, row in enumerate(shares)
        for stage, share in enumerate(row)
        for _ in range(share)
    ]
    return StageMap(tuple(map(tuple, shares)), tuple(places[:num_layers]), pipeline)


def _offset(num_layers: int, pipeline: Pipeline) -> list[list[int]]:
    stages, interleaves = pipeline.num_stages, pipeline.num_interleaves
    given = pipeline.offset
    if given in (((0,),), ()):
        given = ((0,) * stages,)
    if any(len(row) != stages for row in given):
        raise BadDeal(
            phrase(
                "`offset` has {numbers} numbers for {stages} pipeline stages",
                numbers=max(map(len, given)),
                stages=stages,
            )
        )
    if len(given) not in (1, interleaves):
        raise BadDeal(
            phrase(
                "`offset` has {lists} lists for {interleaves} interleaves", lists=len(given), interleaves=interleaves
            )
        )
    rest = num_layers % (stages * interleaves)
    total = sum(map(sum, given))
    if total != rest:
        raise BadDeal(
            phrase(
                "`offset` sums to {total}, but {layers} layers over {stages} stages x {interleaves} "
                "interleaves leave {rest} over",
                total=total,
                layers=num_layers,
                stages=stages,
                interleaves=interleaves,
                rest=rest,
            )
        )
    rows = given if len(given) == interleaves else given * interleaves
    return [list(row) for row in rows]
