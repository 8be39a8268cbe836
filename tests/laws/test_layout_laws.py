"""The search of layouts on worlds that are made up: it finds what asking everything would find, under every budget."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swapconf.layout.bounds import ending, least_bytes, least_us
from swapconf.layout.facts import Exchange, Facts, Part, Whole
from swapconf.layout.found import Fate, Final, Found, Tried
from swapconf.layout.layout import Deal, Layout
from swapconf.layout.legal import Wishes, layouts
from swapconf.layout.runs import Refused
from swapconf.layout.search import LAST, Limit, Search
from swapconf.timing import hardware
from swapconf.timing.collectives import collective_us
from swapconf.timing.parts import StepParts, difference_us

OWN = Layout(data=2, tensors=2, stages=2, batch=1, micro_batches=8, deal=((2, 2),))
CARD = hardware.load("ascend_910b2")
TFLOPS, LAYER_BYTES, OPERATIONS, ACTIVATION_BYTES = 300.0, 960_000, 4e9, 1 << 16


class Made:
    """A world by chance: layers of a layout hold and compute what a cut leaves of them, and more by chance; a step
    takes as long as `least_us` and more by chance, and a strategy that is needed adds to it. ``composes``: of some
    layouts stages are composed, which tells their steps a little wrong."""

    def __init__(self, seed: int, budget_bytes: int, *, composes: bool = False) -> None:
        self.seed, self.budget_bytes, self.composes = seed, budget_bytes, composes
        self.truly: set[Layout] = set()
        self.ran: list[Layout] = []
        self.planned: list[Layout] = []
        self.asked_small: list[Layout] = []

    def chance(self, layout: Layout, what: str) -> float:
        return random.Random(f"{self.seed} {layout} {what}").random()

    def facts(self, layout: Layout) -> Facts:
        kind = Layout(data=1, tensors=layout.tensors, stages=1, batch=layout.batch, is_sequence=layout.is_sequence)
        cut = layout.tensors * (layout.data if layout.shards_optimizer else 1)
        exchange = Exchange(
            primitive="AllGather" if layout.is_sequence else "AllReduce", whole_bytes=ACTIVATION_BYTES * layout.batch
        )
        waits_us = 2 * collective_us(exchange.primitive, exchange.whole_bytes, range(layout.tensors), CARD)
        products_us = 1e6 * OPERATIONS * layout.batch / layout.tensors / (TFLOPS * 1e12)
        rest_us = products_us * (1 + self.chance(kind, f"po{layout.shards_optimizer}"))
        layer = Part(
            us=products_us + rest_us + (waits_us if layout.tensors > 1 else 0.0),
            products_us=products_us,
            rest_us=rest_us,
            exchanges=Counter({exchange: 2} if layout.tensors > 1 else {}),
        )
        return Facts(
            layout=layout,
            shared_bytes=LAYER_BYTES // cut,
            gradient_bytes=LAYER_BYTES // 4 // layout.tensors if layout.micro_batches > 1 else 0,
            layer=layer,
            outside=layer,
            whole=Whole(
                micro_us=layout.micro_batches * layer.us + rest_us * self.chance(kind, "first"),
                round_us=layer.us,
                behind_us=rest_us * self.chance(kind, "behind"),
            ),
        )

    def floor_us(self, layout: Layout) -> float:
        return least_us(layout, [self.facts(layout)], CARD) * (1 + 0.3 * self.chance(layout, "floor"))

    def held(self, layout: Layout) -> int:
        """Without a strategy; the least that one leaves is half of what is more than weights."""
        return int(least_bytes(layout, [self.facts(layout)]) * (1 + self.chance(layout, "held")))

    def low(self, layout: Layout) -> int:
        """What the leanest strategy needs."""
        least = least_bytes(layout, [self.facts(layout)])
        return least + (self.held(layout) - least) // 2

    def planned_us(self, layout: Layout) -> float:
        """The more is missing, the longer."""
        held, low = self.held(layout), self.low(layout)
        if low > self.budget_bytes:
            return inf
        missing = max(0, held - self.budget_bytes) / max(held - low, 1)
        return self.floor_us(layout) * (1 + 0.3 * missing)

    def composed(self, layout: Layout) -> int:
        """Stages of it that are composed, unless all are run."""
        if not self.composes or layout in self.truly:
            return 0
        return int(layout.stages * self.chance(layout, "composed"))

    def told_us(self, layout: Layout) -> float:
        """Of what is composed something else is told than is true."""
        off = 0.02 * (self.chance(layout, "off") - 0.5) if self.composed(layout) else 0.0
        return self.planned_us(layout) * (1 + off)

    def run(self, wanted: Sequence[Layout], *, truly: bool = False) -> tuple[list[Tried], list[Refused]]:
        ranks = {layout: self.ranks([layout], truly=truly) for layout in wanted}
        self.ran += wanted
        self.truly |= {*wanted} if truly else set()
        bad = [layout for layout in wanted if self.is_refused(layout)]
        tried = [
            Tried(
                layout=layout,
                facts=self.facts(layout),
                ranks=ranks[layout],
                composed=self.composed(layout),
                floor_us=self.floor_us(layout),
                coarse_us=self.planned_us(layout) * (1 + 0.1 * self.chance(layout, "coarse")),
                over_bytes=max(0.0, 1.2 * self.low(layout) - self.budget_bytes),
            )
            for layout in wanted
            if layout not in bad
        ]
        return tried, [Refused(layout=layout, rule="", why="no") for layout in bad]

    def is_refused(self, layout: Layout) -> bool:
        return layout != OWN and self.chance(layout, "refused") < 0.1

    def plan(self, layout: Layout) -> Final:
        self.planned.append(layout)
        return Final(layout=layout, cost_us=self.told_us(layout))

    def small(self, wanted: Sequence[Layout]) -> list[Facts]:
        """Of some nothing is told."""
        self.asked_small += wanted
        return [self.facts(layout) for layout in wanted if self.chance(layout, "small") < 0.8]

    def ranks(self, wanted: Sequence[Layout], *, truly: bool = False) -> int:
        """One rank of each stage; of what was run before those that were composed."""
        return sum(
            self.composed(layout) if layout in self.ran else layout.stages - (0 if truly else self.composed(layout))
            for layout in wanted
        )


def found(world: Made, most_runs: int = 10_000, most_plans: int = 10_000) -> Found:
    limit = Limit(usable_bytes=world.budget_bytes, hardware=CARD, runs=most_runs, plans=most_plans)
    return Search(world=world, layouts=layouts(OWN, 8, Wishes()), own=OWN, limit=limit).run()


def best_us(world: Made) -> float:
    """Of all, each planned."""
    return min(world.planned_us(layout) for layout in layouts(OWN, 8, Wishes()) if not world.is_refused(layout))


SEEDS, BUDGETS = st.integers(0, 10_000), st.integers(200_000, 6_000_000)


@settings(max_examples=60, deadline=None)
@given(SEEDS, BUDGETS)
def test_the_best_of_all_is_found_without_planning_all(seed: int, budget: int) -> None:
    world = Made(seed, budget)
    answer = found(world)
    assert answer.finals[0].cost_us == best_us(Made(seed, budget))
    everything = set(layouts(OWN, 8, Wishes()))
    assert {item.layout for item in answer.finals} | {item.layout for item in answer.lost} == everything
    assert len(answer.finals) + len(answer.lost) == len(everything)
    assert len(world.planned) < len(everything)


@settings(max_examples=40, deadline=None)
@given(SEEDS, BUDGETS, st.integers(0, 2_000_000))
def test_a_larger_budget_is_never_slower(seed: int, budget: int, more: int) -> None:
    assert found(Made(seed, budget + more)).finals[0].cost_us <= found(Made(seed, budget)).finals[0].cost_us


@settings(max_examples=40, deadline=None)
@given(SEEDS, BUDGETS, st.integers(2, 40), st.integers(0, 5))
def test_however_little_may_be_asked_it_is_no_worse_than_the_layout_of_the_yaml(
    seed: int, budget: int, runs: int, plans: int
) -> None:
    world = Made(seed, budget)
    answer = found(world, runs, plans)
    assert answer.finals[0].cost_us <= world.planned_us(OWN)
    assert answer.ran <= runs
    assert len(world.planned) <= plans + 1


@settings(max_examples=20, deadline=None)
@given(SEEDS, BUDGETS, st.integers(2, 40))
def test_the_same_input_gives_the_same_answer(seed: int, budget: int, runs: int) -> None:
    assert found(Made(seed, budget), runs) == found(Made(seed, budget), runs)


@settings(max_examples=60, deadline=None)
@given(SEEDS, BUDGETS, st.integers(2, 60))
def test_of_the_best_three_nothing_is_composed_as_long_as_runs_are_left(seed: int, budget: int, runs: int) -> None:
    world = Made(seed, budget, composes=True)
    answer = found(world, runs, 5)
    assert answer.ran <= runs
    composed = {item.layout: item.composed for item in answer.tried}
    for final in answer.finals[:LAST]:
        assert not composed[final.layout] or composed[final.layout] > runs - answer.ran
    if answer.finals[0].cost_us < inf and not composed[answer.finals[0].layout]:
        assert answer.finals[0].cost_us == world.planned_us(answer.finals[0].layout)


@settings(max_examples=60, deadline=None)
@given(SEEDS, BUDGETS)
def test_composed_traces_that_tell_a_little_wrong_lead_to_nothing_slower_than_that(seed: int, budget: int) -> None:
    answer = found(Made(seed, budget, composes=True))
    if (best := best_us(Made(seed, budget))) < inf:
        assert answer.finals[0].cost_us <= best * 1.0101


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_no_bound_is_above_what_a_layout_holds_and_takes(seed: int) -> None:
    world = Made(seed, 1)
    everything = layouts(OWN, 8, Wishes())
    for known in random.Random(seed).sample(everything, 3):
        for layout in everything:
            facts = [world.facts(known)]
            assert least_bytes(layout, facts) <= world.held(layout) + 4 * max(layout.layers_of_stage)
            assert least_us(layout, facts, CARD) <= world.floor_us(layout) * (1 + 1e-9)


class Ideal(Made):
    """Nothing by chance: layers hold and take what a cut leaves of them, and nothing is waited for."""

    def chance(self, layout: Layout, what: str) -> float:
        return 1.0 if what == "refused" else 0.0

    def facts(self, layout: Layout) -> Facts:
        made = super().facts(layout)
        us = made.layer.products_us + made.layer.rest_us
        layer = replace(made.layer, us=us, exchanges=Counter())
        return replace(made, layer=layer, outside=Part(), whole=Whole(micro_us=layout.micro_batches * us))


@settings(max_examples=30, deadline=None)
@given(SEEDS, BUDGETS)
def test_a_small_model_is_asked_once_of_what_steps_end_alike(seed: int, budget: int) -> None:
    world = Made(seed, budget)
    found(world)
    endings = [ending(layout) for layout in world.asked_small]
    assert len(endings) == len(set(endings))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 4), min_size=4, max_size=4), min_size=1, max_size=2),
    st.integers(1, 4),
    st.lists(st.floats(0, 30), max_size=5),
    st.floats(0, 50),
    st.integers(1, 8),
    st.booleans(),
)
def test_layers_that_are_unlike_the_others_never_make_a_bound_too_high(
    rows: list[list[int]], stages: int, first: list[float], head: float, micro_batches: int, knows_all: bool
) -> None:
    """Layers take 10, but for the first ones, by which a whole layout tells of all."""
    deal = tuple(tuple(row[:stages]) for row in rows)
    layout = Layout(data=2, tensors=1, stages=stages, micro_batches=micro_batches, deal=deal)
    assume(sum(layout.layers_of_stage) >= len(first))
    of_layers = [*first, *[10.0] * 100]
    taken = [0.0] * stages
    for chunk in deal:
        for stage, count in enumerate(chunk):
            taken[stage] += sum(of_layers[:count])
            del of_layers[:count]
    taken[-1] += head
    before = [sum(taken[:stage]) if len(deal) == 1 else 0.0 for stage in range(stages)]
    true_us = max(micro_batches * own + waited for own, waited in zip(taken, before, strict=True))
    few = replace(layout, deal=((1,) * stages,))
    beside = head + (sum(first) - 10.0 * len(first) if stages == 1 else 0.0)  # two small models tell it so
    told = Facts(layout=few, shared_bytes=0, gradient_bytes=0, layer=Part(us=10.0), outside=Part(us=max(0.0, beside)))
    known = [replace(told, unlike=len(first))]
    if knows_all:
        known.append(replace(told, layer=Part(us=min([10.0, *first])), outside=Part()))
    bound_us = least_us(layout, known, CARD)
    assert bound_us <= true_us * (1 + 1e-9)
    assert bound_us == pytest.approx(true_us) or first


@settings(max_examples=30, deadline=None)
@given(SEEDS, BUDGETS)
def test_what_is_far_over_is_not_planned_where_something_fits(seed: int, budget: int) -> None:
    world = Made(seed, budget)
    answer = found(world)
    over = {item.layout for item in answer.lost if item.fate is Fate.OVER}
    assert not over.intersection(world.planned)
    assert all(1.2 * world.low(layout) > 1.25 * budget for layout in over)
    assert not over or any(item.cost_us < inf for item in answer.finals)


@settings(max_examples=60, deadline=None)
@given(BUDGETS)
def test_more_cards_are_never_slower_at_the_same_batch(budget: int) -> None:
    best = []
    for cards in (4, 8, 16, 32):
        limit = Limit(usable_bytes=budget, hardware=CARD, runs=10_000, plans=10_000)
        own = OWN if cards == OWN.cards else None
        answer = Search(world=Ideal(0, budget), layouts=layouts(OWN, cards, Wishes()), own=own, limit=limit).run()
        best.append(answer.finals[0].cost_us if answer.finals else inf)
    assert best == sorted(best, reverse=True)


class Shifting(Made):
    """Layers of one layout that may be elsewhere: each stage takes as long as its layers, the last one longer by its
    head, and the slowest decides. ``head``: in layers."""

    def __init__(self, seed: int, budget_bytes: int, head: float) -> None:
        super().__init__(seed, budget_bytes)
        self.head = head

    def busy(self, layout: Layout) -> list[float]:
        (counts,) = layout.deal
        return [count + self.head * (stage == len(counts) - 1) for stage, count in enumerate(counts)]

    def planned_us(self, layout: Layout) -> float:
        return 1e6 * max(self.busy(layout))

    def run(self, wanted: Sequence[Layout], *, truly: bool = False) -> tuple[list[Tried], list[Refused]]:
        tried, refused = super().run(wanted, truly=truly)
        return [replace(item, floor_us=0.0, shifts=self.near(item.layout)) for item in tried], refused

    def is_refused(self, layout: Layout) -> bool:
        return layout != STAGED and self.chance(layout, "refused") < 0.05

    def near(self, layout: Layout) -> tuple[Deal, ...]:
        (counts,) = layout.deal
        busy = self.busy(layout)
        giver = busy.index(max(busy))
        return tuple(
            (tuple(count + (at == taker) - (at == giver) for at, count in enumerate(counts)),)
            for taker in range(len(counts))
            if taker != giver and counts[giver] > 1
        )


STAGED = Layout(data=1, tensors=1, stages=4, batch=1, micro_batches=8, deal=((4, 4, 4, 4),))


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.floats(0, 6), st.integers(4, 200))
def test_layers_are_shifted_as_long_as_that_is_faster_and_never_to_something_slower(
    seed: int, head: float, runs: int
) -> None:
    world = Shifting(seed, 1 << 40, head)
    limit = Limit(usable_bytes=1 << 40, hardware=CARD, runs=runs)
    answer = Search(world=world, layouts=[STAGED], own=STAGED, limit=limit).run()
    best = answer.finals[0]
    assert best.cost_us <= world.planned_us(STAGED)
    assert sum(best.layout.layers_of_stage) == 16
    assert answer.ran <= max(runs, 4)
    is_out = answer.ran + STAGED.stages > runs  # of what may be run, so that nothing near was tried any more
    last = min(answer.tried, key=lambda item: (item.coarse_us, item.floor_us, item.layout))  # by what the search knows
    known = {item.layout for item in answer.tried} | {item.layout for item in answer.lost}
    for deal in world.near(last.layout):
        other = replace(last.layout, deal=deal)
        assert is_out or other in known or world.planned_us(other) >= best.cost_us


def test_an_interrupt_leaves_what_was_found_until_then() -> None:
    class Interrupted(Made):
        def run(self, wanted: Sequence[Layout], *, truly: bool = False) -> tuple[list[Tried], list[Refused]]:
            if len(self.ran) > 2:
                raise KeyboardInterrupt
            return super().run(wanted, truly=truly)

    world = Interrupted(1, 6_000_000)
    answer = found(world)
    assert answer.is_interrupted
    assert answer.tried
    assert world.planned[0] == OWN  # what was run until then is planned
    assert len(world.planned) <= 2
    assert answer.finals[0].cost_us <= min(item.coarse_us for item in answer.tried)
    assert any(item.fate is Fate.NOT_RUN for item in answer.lost)


def test_layers_dealt_otherwise_that_promise_more_are_run_and_planned_too() -> None:
    class Dealing(Made):
        def plan(self, layout: Layout) -> Final:
            final = super().plan(layout)
            better = ((3, 1),) if layout == OWN else None
            return Final(layout=layout, cost_us=final.cost_us, deal=better)

    world = Dealing(3, 6_000_000)
    found(world)
    assert any(layout.deal == ((3, 1),) for layout in world.ran)


def test_what_was_not_run_for_lack_of_runs_is_told() -> None:
    answer = found(Made(5, 6_000_000), most_runs=4)
    assert any(item.fate is Fate.NOT_RUN for item in answer.lost)


FINITE = st.floats(0.1, 1000)
STEPS = st.lists(FINITE, min_size=3, max_size=3).map(
    lambda us: StepParts(
        step_us=sum(us),
        of_group_us=np.array(us),
        spread=((0.5, 1.5), (0.9, 1.2), (1.0, 1.4)),
        gradients_us=us[0] / 2,
        collectives_us=us[0],
        copies_us=0.0,
        bubble_us=0.0,
    )
)


@given(STEPS, STEPS)
def test_a_difference_is_the_other_way_round_from_the_other_side(one: StepParts, other: StepParts) -> None:
    there, back = difference_us(one, other), difference_us(other, one)
    assert there[1] <= there[0] <= there[2]
    assert back == pytest.approx((-there[0], -there[2], -there[1]))


@given(STEPS)
def test_what_is_alike_cancels_out(one: StepParts) -> None:
    assert difference_us(one, one) == (0.0, 0.0, 0.0)


@given(STEPS, st.integers(0, 2), st.floats(1, 100))
def test_a_difference_is_no_less_sure_than_the_kernels_that_differ(one: StepParts, group: int, more: float) -> None:
    longer = one.of_group_us.copy()
    longer[group] += more
    other = StepParts(
        step_us=one.step_us + more,
        of_group_us=longer,
        spread=one.spread,
        gradients_us=one.gradients_us,
        collectives_us=0.0,
        copies_us=0.0,
        bubble_us=0.0,
    )
    low, high = one.spread[group]
    between, least, most = difference_us(one, other)
    assert between == pytest.approx(more)
    assert (least, most) == pytest.approx((low * more, high * more))
