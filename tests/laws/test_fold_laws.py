"""Whatever grows by equal amounts is told exactly by fewer layers and micro-batches."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from swapconf.decide.strategy import LayerPlan, LayerStrategy, Strategy
from swapconf.dryrun.effect.effect import Effect, Launch, Move
from swapconf.dryrun.fold.extrapolation import doubt, extrapolated, holds
from swapconf.dryrun.fold.folding import CannotFold, Fold, Size, folds
from swapconf.dryrun.fold.micro_batches import MicroBatches
from swapconf.dryrun.fold.samples import Sample
from swapconf.models.network import Layer, LayerTemplate, Network
from swapconf.upstream.scopes import Place

KINDS = [LayerTemplate(name=name, cell="Layer", operators=()) for name in ("dense", "moe", "other")]


@st.composite
def strategies(draw: st.DrawFn) -> Strategy:
    """Rows of several kinds, dealt to stages and interleaves in order."""
    lengths = draw(st.lists(st.integers(1, 15), min_size=1, max_size=4))
    kinds = [kind for number, length in enumerate(lengths) for kind in [KINDS[number % len(KINDS)]] * length]
    stages, interleaves = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    places = [(interleave, stage) for interleave in range(interleaves) for stage in range(stages)]
    ends = sorted(draw(st.lists(st.integers(0, len(kinds)), min_size=len(places) - 1, max_size=len(places) - 1)))
    of_layer = [
        place
        for place, (start, end) in zip(places, zip([0, *ends], [*ends, len(kinds)], strict=True), strict=True)
        for _ in range(start, end)
    ]
    layers = tuple(
        LayerStrategy(
            Layer(index=index, name=str(index), template=kind, interleave=place[0], stage=place[1]), LayerPlan({}, ())
        )
        for index, (kind, place) in enumerate(zip(kinds, of_layer, strict=True))
    )
    return Strategy(
        network=Network(family="llama", layers=tuple(entry.layer for entry in layers)),
        layers=layers,
        swap_on=draw(st.booleans()),
    )


@st.composite
def plans(draw: st.DrawFn) -> tuple[Strategy, int, Fold]:
    """A strategy, a stage of it, and one of its folds."""
    strategy = draw(strategies())
    stage = draw(st.sampled_from(sorted({entry.layer.stage for entry in strategy.layers})))
    count, least = draw(st.integers(1, 300)), draw(st.none() | st.integers(2, 20))
    try:
        found = folds(strategy, stage, MicroBatches(count=count, least=least, stride=draw(st.integers(1, 4))))
    except CannotFold:
        found = ()
    assume(found)
    return strategy, stage, draw(st.sampled_from(found))


@given(plans())
def test_what_stays_is_in_order_and_each_share_keeps_a_layer_of_each_kind(case: tuple[Strategy, int, Fold]) -> None:
    strategy, _, plan = case
    places = [(entry.layer.interleave, entry.layer.stage) for entry in strategy.layers]
    assert plan.kept(plan.whole) == tuple(range(len(places)))
    for size in (*plan.runs, plan.check):
        kept = plan.kept(size)
        assert list(kept) == sorted(set(kept))
        assert len(kept) == sum(size.layers)
        assert {places[index] for index in kept} == set(places)
        assert size.micro_batches <= plan.whole.micro_batches
        assert all(few <= all_ for few, all_ in zip(size.layers, plan.whole.layers, strict=True))
        for row in plan.rows:
            is_whole = {row.first, row.indices[-1]} <= set(kept)
            assert not row.own or is_whole or (plan.full_run is not None and row.twin in kept)
        kinds = [(place, entry.layer.template) for place, entry in zip(places, strategy.layers, strict=True)]
        of_kind = Counter(kinds[index] for index in kept)
        assert of_kind.keys() == set(kinds)


@given(plans())
def test_the_cheapest_fold_comes_first_and_costs_less_than_the_whole(case: tuple[Strategy, int, Fold]) -> None:
    strategy, stage, plan = case
    found = folds(strategy, stage, MicroBatches(count=plan.whole.micro_batches, least=plan.small.micro_batches))
    costs = [one.cost for one in found]
    assert costs == sorted(costs)
    assert costs[-1] < found[0].cost_of_whole


@given(plans(), st.data())
def test_what_is_on_a_line_is_told_to_the_byte(case: tuple[Strategy, int, Fold], data: st.DataObject) -> None:
    """At three places, with slopes of their own for every row and for micro-batches; the highest place may move."""
    _, _, plan = case
    amount = st.integers(-1000, 1000)
    slopes = [
        (
            data.draw(st.integers(10**6, 10**7)),
            data.draw(st.lists(amount, min_size=len(plan.rows), max_size=len(plan.rows))),
            data.draw(amount),
        )
        for _ in range(3)
    ]
    copies = [data.draw(st.integers(0, 1)) for _ in plan.rows]

    def ran(size: Size) -> Sample:
        highest = {
            ("Default", str(place)): start
            + size.micro_batches * each
            + sum(left * slope for row, left, slope in zip(plan.rows, size.layers, rows, strict=True) if row.own)
            for place, (start, rows, each) in enumerate(slopes)
        }
        peak = max(highest.values())
        moves = [
            Move(place=Place(str(index), "attention"), primitive="Mul", size_bytes=512, host_bytes=512)
            for index in plan.kept(size)
            for row, number in zip(plan.rows, copies, strict=True)
            if row.own and index in row.indices
            for _ in range(number * size.micro_batches)
        ]
        again = tuple(Launch(move.place, "Mul") for move in reversed(moves))
        own = frozenset(
            str(index) for index in plan.kept(size) for row in plan.rows if row.own and index in row.indices
        )
        return Sample(
            size=size,
            highest=highest,
            used_peak_bytes=peak,
            with_fragments_peak_bytes=peak + 7,
            effect=Effect(layers=own, moves=tuple(moves), host_peak_bytes=9, recomputed=again),
        )

    samples, whole = [ran(size) for size in plan.runs], ran(plan.whole)
    told = extrapolated(samples, plan, plan.whole)
    assert (told.highest, told.used_peak_bytes) == (whole.highest, whole.used_peak_bytes)
    assert told.with_fragments_peak_bytes == whole.with_fragments_peak_bytes
    assert (told.effect.layers, told.effect.host_peak_bytes) == (whole.effect.layers, 9)
    assert Counter(told.effect.moves) == Counter(whole.effect.moves)
    assert told.effect.recomputed_by_layer == whole.effect.recomputed_by_layer
    assert [*told.effect.recomputed_by_layer] == [*whole.effect.recomputed_by_layer]
    assert holds(samples, plan, ran(plan.check))  # also where the whole is no whole number of steps away
    if plan.steps and plan.full_run is None and len({one.top for one in (*samples, whole)}) > 1:
        assert doubt(samples, told, plan, 0)
