"""STAGE of a layout + SOURCES -> COMPOSED: its trace from those of other layouts, or the reason why it has to be run.

Micro-batches first: each source gets as many as the stage has, in all and in flight. Then layers: of two sources with
different numbers of them as many as the stage has are grown. At last the blocks are laid out as MindSpore's pool would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swapconf.dryrun.composing.arranged import arranged
from swapconf.dryrun.composing.batch import with_batch
from swapconf.dryrun.composing.offers import Offer, chosen
from swapconf.dryrun.composing.passes import passes
from swapconf.dryrun.composing.peers import Seat, moved
from swapconf.dryrun.composing.rearranged import rearranged
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.stage import Stage
from swapconf.dryrun.fold.part_words import AND
from swapconf.dryrun.growing.grown import grown
from swapconf.dryrun.growing.layers import Numbering
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.settled import settled
from swapconf.dryrun.growing.steps import steps
from swapconf.dryrun.growing.whole import Run, placed, whole
from swapconf.dryrun.rank_order import cluster_of
from swapconf.trace.lifetimes import UNTOLD, PoolRecord
from swapconf.trace.trace import Trace
from swapconf.words.phrases import joined, phrase

_ELSEWHERE = 1_000_000  # layers of other stages, which a trace may name


@dataclass(frozen=True, kw_only=True, slots=True)
class Source(Offer):
    """A dry run of a stage.

    Attributes:
        trace: Of a rank of the stage, whole or grown, without swap and recompute or with what the stage asks for, too.
        pool: What the run said of its pool.
    """

    trace: Trace
    pool: PoolRecord = UNTOLD


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """What a dry run of a stage would leave behind. ``sources``: those that it is made of, one or two.
    ``micro_batches``: in its step."""

    stage: Stage
    trace: Trace
    sources: tuple[Source, ...]
    micro_batches: int

    @property
    def words(self) -> str:
        """Where it is from."""
        layers = (sum(one.lengths) for one in self.sources)
        return phrase(
            "composed from dry runs of {layers} layers with {in_flight} of {micro_batches} micro-batches in flight",
            layers=joined(AND, map(str, layers)),
            micro_batches=self.sources[-1].micro_batches,
            in_flight=self.sources[-1].in_flight,
        )


def composed(stage: Stage, sources: Sequence[Source], micro_batches: int | None = None) -> Composed:
    """The trace of the first rank of ``stage`` as a dry run would leave it behind, from one source that has as many
    layers, or from two that have fewer. Sources that are not like it are left alone. ``micro_batches``: in the step of
    the trace, by default all of the layout; memory is nearly the same from one more on than there are stages.

    Raises CannotCompose: this stage has to be run, for the reason in its text.
    """
    count = micro_batches or stage.micro_batches
    found = chosen(stage, sources, count)
    try:
        if len(found) == 1:
            return _of_one(stage, found[0], count)
        return _of_two(stage, found[0], found[1], count)
    except CannotGrow as reason:
        raise CannotCompose(str(reason)) from None


def _of_one(stage: Stage, source: Source, count: int) -> Composed:
    found = _rearranged(source, stage, count)
    first = stage.rows[0].first
    if source.stage.rows[0].first != first:
        found = _numbered(found, source, first)
    return _in_place(placed(found, _run(source)), (source,), stage, count)


def _of_two(stage: Stage, small: Source, big: Source, count: int) -> Composed:
    wanted = stage.lengths
    row = next(number for number, (one, two) in enumerate(zip(small.lengths, big.lengths, strict=True)) if one != two)
    one, two = (_part(source, row, wanted, stage, count) for source in (small, big))
    found = whole(one, two, range(sum(wanted)), wanted[row])
    first = stage.rows[0].first
    named = grown(steps(found), (), _numbering([first + index for index in range(sum(wanted))]), 0, {})
    return _in_place(placed(named, _run(big)), (small, big), stage, count)


def _part(source: Source, row: int, wanted: Sequence[int], stage: Stage, count: int) -> Run:
    """A source with the micro-batches of the stage, of whose rows one is to grow."""
    found = _numbered(_rearranged(source, stage, count), source, 0)
    return Run(
        trace=placed(found, _run(source)),
        kept=_kept(source, row, wanted),
        first=sum(wanted[:row]),
        size=source.stage.rows[row].length,
        pool=source.pool,
    )


def _rearranged(source: Source, stage: Stage, count: int) -> Trace:
    """With as many micro-batches as the stage has, in all and in flight, and as many rows in a batch."""
    trace = with_batch(settled(source.trace), source.micro_batches, count)
    found = steps(trace)
    taken = passes(found, source.micro_batches)
    if taken.in_flight != source.in_flight:
        raise CannotCompose(
            phrase(
                "the run keeps {found} micro-batches in flight, and its stage would keep {expected}",
                found=taken.in_flight,
                expected=source.in_flight,
            )
        )
    return rearranged(arranged(found, taken, stage.in_flight(count), count))


def _numbering(whole_: Sequence[int]) -> Numbering:
    return Numbering(whole=whole_, first=0, size=0, stride=1)


def _numbered(trace: Trace, source: Source, start: int) -> Trace:
    """With the layers of the stage counted from ``start``."""
    rows = source.stage.rows
    first, count = rows[0].first, sum(row.length for row in rows)
    total = source.stage.study.config.model.num_layers or 0
    layers = [start + index - first if first <= index < first + count else _ELSEWHERE + index for index in range(total)]
    return grown(steps(trace), (), _numbering(layers), 0, {})


def _kept(source: Source, row: int, wanted: Sequence[int]) -> list[int]:
    """The layers of the source as the stage counts them from 0, those that it lacks being from the middle of a row."""
    found: list[int] = []
    start = 0
    for number, (mine, all_) in enumerate(zip(source.stage.rows, wanted, strict=True)):
        front = -(-mine.length // 2) if number == row else mine.length
        found += [*range(start, start + front), *range(start + all_ - (mine.length - front), start + all_)]
        start += all_
    return found


def _run(source: Source) -> Run:
    return Run(trace=source.trace, kept=(), first=0, size=0, pool=source.pool)


def _in_place(trace: Trace, sources: tuple[Source, ...], stage: Stage, count: int) -> Composed:
    """As the first rank of its stage."""
    here, there = (Seat(cluster=cluster_of(one.study.document), stage=one.number) for one in (sources[-1].stage, stage))
    return Composed(
        stage=stage,
        trace=replace(moved(trace, here, there), folder="", rank=stage.rank),
        sources=sources,
        micro_batches=count,
    )
