"""STAGE of a layout + SOURCES -> COMPOSED: its trace from those of other layouts, or the reason why it has to be run.

Layers first: of two sources with different numbers of them as many as the stage has are grown. Then micro-batches: as
many as the stage has, in all and in flight. At last the blocks are laid out as MindSpore's pool would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swapconf.dryrun.composing.arranged import arranged
from swapconf.dryrun.composing.batch import Batch, with_batch
from swapconf.dryrun.composing.offers import Offer, chosen
from swapconf.dryrun.composing.ordered import ordered
from swapconf.dryrun.composing.passes import passes
from swapconf.dryrun.composing.peers import Seat, moved
from swapconf.dryrun.composing.rearranged import rearranged
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.stage import Stage
from swapconf.dryrun.fold.part_words import AND
from swapconf.dryrun.growing.graph_kernels import of_graph
from swapconf.dryrun.growing.grown import grown
from swapconf.dryrun.growing.layers import Numbering, layer_in, with_layer
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.steps import steps
from swapconf.dryrun.growing.whole import Run, Whole, placed, with_graph
from swapconf.dryrun.rank_order import cluster_of
from swapconf.trace.launch_graph import LaunchGraph
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
        micro_batch_bytes: What one more micro-batch adds to its peak, as far as a fold told it.
    """

    trace: Trace
    pool: PoolRecord = UNTOLD
    micro_batch_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """What a dry run of a stage would leave behind. ``sources``: those that it is made of, one or two.
    ``micro_batches``: in its step. ``graph``: on which MindSpore would decide the order of its launches, None where
    the sources have none."""

    stage: Stage
    trace: Trace
    graph: LaunchGraph | None = None
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
    found = _rearranged(_whole(source), source, stage, count)
    first = stage.rows[0].first
    if source.stage.rows[0].first != first:
        found = _numbered(found, source, first, is_whole=True)
    found = replace(found, trace=placed(found.trace, _run(source)))
    return _in_place(found, (source,), stage, count)


def _of_two(stage: Stage, small: Source, big: Source, count: int) -> Composed:
    wanted = stage.lengths
    row = next(number for number, (one, two) in enumerate(zip(small.lengths, big.lengths, strict=True)) if one != two)
    one, two = (_part(source, row, wanted, big) for source in (small, big))
    found = with_graph(one, two, range(sum(wanted)), wanted[row])
    if found.graph is None and None not in (one.graph, two.graph):
        raise CannotCompose(found.why)
    found = _rearranged(found, big, stage, count)
    first = stage.rows[0].first
    named = _renamed(found, [first + index for index in range(sum(wanted))])
    return _in_place(replace(named, trace=placed(named.trace, _run(big))), (small, big), stage, count)


def _part(source: Source, row: int, wanted: Sequence[int], like: Source) -> Run:
    """A source, of whose rows one is to grow, with the micro-batches of the other one."""
    found = _whole(source)
    if (source.in_flight, source.micro_batches) != (like.in_flight, like.micro_batches):
        found = _rearranged(found, source, like.stage, like.micro_batches)
    found = _numbered(found, source, 0)
    return Run(
        trace=placed(found.trace, _run(source)),
        graph=found.graph,
        kept=_kept(source, row, wanted),
        first=sum(wanted[:row]),
        size=source.stage.rows[row].length,
        pool=source.pool,
    )


def _whole(source: Source) -> Whole:
    return Whole(trace=source.trace, graph=source.trace.launch_graph)


def _rearranged(found: Whole, source: Source, stage: Stage, count: int) -> Whole:
    """``found``, which has the micro-batches of ``source``, with as many as the stage has, in all and in flight, and as
    many rows in a batch; in the order in which MindSpore would launch it, where the graph that decides it is known."""
    here, there = (
        Batch.of(number, one.settings, one.cluster)
        for number, one in ((source.micro_batches, source.stage), (count, stage))
    )
    run = steps(with_batch(found.trace, here, there))
    taken = passes(run, source.micro_batches)
    if taken.in_flight != source.in_flight:
        raise CannotCompose(
            phrase(
                "the run keeps {found} micro-batches in flight, and its stage would keep {expected}",
                found=taken.in_flight,
                expected=source.in_flight,
            )
        )
    made = arranged(run, taken, stage.in_flight(count), count, stage.role.last_pairs)
    if found.graph is None:
        if stage.role.is_middle:  # up to 2 % of the pool hang on the order
            raise CannotCompose(phrase("the graph that decides the order of its launches was not kept with the run"))
        return Whole(trace=rearranged(made))
    as_launched = ordered(made, found.graph)
    trace = rearranged(as_launched.made)
    return Whole(trace=trace, graph=as_launched.named(trace.step))


def _numbering(whole_: Sequence[int]) -> Numbering:
    return Numbering(whole=whole_, first=0, size=0, stride=1)


def _numbered(found: Whole, source: Source, start: int, *, is_whole: bool = False) -> Whole:
    """With the layers of the stage counted from ``start``. ``is_whole``: as in the whole model, in which a layer of
    another stage keeps its number: what is compiled once for all layers with experts bears the name of the first."""
    rows = source.stage.rows
    first, count = rows[0].first, sum(row.length for row in rows)
    total = source.stage.study.config.model.num_layers or 0
    layers = []
    for index in range(total):
        is_own = first <= index < first + count
        stays = is_whole and not start <= index < start + count
        layers.append(start + index - first if is_own else index if stays else _ELSEWHERE + index)
    return _renamed(found, layers)


def _renamed(found: Whole, layers: Sequence[int]) -> Whole:
    """``layers``: by layer its new number."""
    trace, graph = grown(steps(found.trace), (), _numbering(layers), 0, {}), found.graph
    if graph is not None:
        names = {found.trace.step[place].name: trace.step[place].name for place in of_graph(found.trace.step)}
        graph = replace(graph, name=tuple(names.get(name) or _with_layer(name, layers) for name in graph.name))
    return Whole(trace=trace, graph=graph, why=found.why)


def _with_layer(name: str, layers: Sequence[int]) -> str:
    layer = layer_in(name)
    return name if layer < 0 else with_layer(name, layers[layer])


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


def _in_place(found: Whole, sources: tuple[Source, ...], stage: Stage, count: int) -> Composed:
    """As the first rank of its stage."""
    here, there = (Seat(cluster=cluster_of(one.study.document), stage=one.number) for one in (sources[-1].stage, stage))
    return Composed(
        stage=stage,
        trace=replace(moved(found.trace, here, there), folder="", rank=stage.rank),
        graph=found.graph,
        sources=sources,
        micro_batches=count,
    )
