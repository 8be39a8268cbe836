"""Coarse plans and what a run tells of the layers of a layout, on a real trace of two layers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swapconf.layout.bounds import kind, least_bytes, least_us, likeness, tells
from swapconf.layout.coarse import coarse
from swapconf.layout.facts import Exchange, facts_of
from swapconf.layout.layout import Layout
from swapconf.plan import simple
from swapconf.plan.modes import KEEP, RECOMPUTED, Mode, uniform
from swapconf.timing import hardware
from swapconf.timing.collectives import collective_us
from swapconf.timing.parts import HIDDEN_MOST
from tests.unit.planning import real_judge

LAYOUT = Layout(data=2, tensors=4, stages=1, batch=1, micro_batches=2, deal=((2,),))
CARD = hardware.load("ascend_910b2")
ACTIVATION_BYTES = 4096 * 512 * 2


@pytest.mark.parametrize("budget", [318 << 20, 322 << 20, 330 << 20, 345 << 20])
def test_a_coarse_plan_fits_and_is_not_slower_than_what_people_use_today(budget: int) -> None:
    judge = real_judge(budget)
    found = coarse(judge)
    today = [judge.score(plan) for plan in simple.fixed(judge).values()]
    today += [judge.score(plan) for _, plan in simple.first_layers(judge) if judge.allows(plan)]
    fitting = [item.cost_us for item in today if item.fits]
    assert found.fits == bool(fitting)
    if fitting:
        assert found.cost_us <= min(fitting) * 1.01
    assert judge.asked < 60


def test_what_fits_without_a_strategy_needs_one_question() -> None:
    judge = real_judge()
    assert coarse(judge).plan == uniform(KEEP, judge.network)
    assert judge.asked == 1


def test_no_strategy_of_a_layout_gets_below_what_its_layers_hold_and_compute() -> None:
    judge = real_judge()
    facts = facts_of(LAYOUT, judge.evaluator)
    least = min(max(judge.used_bytes(uniform(mode, judge.network))) for mode in (KEEP, RECOMPUTED))
    assert 0 < least_bytes(LAYOUT, [facts]) < least
    assert 0 < least_us(LAYOUT, [facts], CARD) < judge.evaluation(uniform(KEEP, judge.network)).step_us


def test_what_is_cut_further_holds_a_share_and_what_is_cut_less_no_less() -> None:
    facts = facts_of(LAYOUT, real_judge().evaluator)
    half = Layout(data=1, tensors=8, stages=1, batch=1, micro_batches=2, deal=((2,),))
    sharded = Layout(data=2, tensors=4, stages=1, batch=1, micro_batches=2, shards_optimizer=True, deal=((2,),))
    whole = Layout(data=8, tensors=1, stages=1, batch=1, micro_batches=2, deal=((2,),))
    own = least_bytes(LAYOUT, [facts])
    assert least_bytes(half, [facts]) == own // 2
    assert least_bytes(sharded, [facts]) == 2 * (facts.shared_bytes // 2 + facts.gradient_bytes)
    assert least_bytes(whole, [facts]) == own
    assert kind(half) != kind(LAYOUT) != kind(sharded)


def test_stages_wait_for_those_before_them() -> None:
    facts = facts_of(LAYOUT, real_judge().evaluator)
    staged = Layout(data=1, tensors=4, stages=2, batch=1, micro_batches=4, deal=((1, 1),))
    assert least_us(staged, [facts], CARD) == pytest.approx((4 + 1) * facts.layer.us)
    uneven = Layout(data=1, tensors=4, stages=2, batch=1, micro_batches=4, deal=((3, 1),))
    assert least_us(uneven, [facts], CARD) == pytest.approx(4 * 3 * facts.layer.us)


def test_what_the_cards_of_a_tensor_exchange_is_waited_for_in_other_layouts_too() -> None:
    """Of the recorded run one behind attention and one behind feed_forward; backward the optimizer computes beside."""
    known = facts_of(replace(LAYOUT, micro_batches=1), real_judge().evaluator)
    assert known.layer.exchanges == {Exchange(primitive="AllReduce", whole_bytes=ACTIVATION_BYTES): 2}
    assert known.layer.us > known.layer.products_us + known.layer.rest_us
    assert known.outside.us > known.outside.products_us > 0
    for tensors, batch in ((2, 1), (8, 2)):
        other = replace(LAYOUT, tensors=tensors, data=1, batch=batch, micro_batches=1)
        each_us = collective_us("AllReduce", ACTIVATION_BYTES * batch, range(tensors), CARD)
        products_us = known.layer.products_us * batch * min(1.0, 4 / tensors)
        least = 2 * (products_us + 2 * each_us)
        assert least < least_us(other, [known], CARD) < least + 2 * known.layer.rest_us
        assert least_us(replace(other, is_sequence=True), [known], CARD) == pytest.approx(2 * products_us)


def test_the_layout_that_cuts_tensors_furthest_tells_most() -> None:
    one, alike, other = (replace(LAYOUT, tensors=tensors) for tensors in (8, 2, 1))
    assert likeness(one) == likeness(alike) != likeness(other)
    assert max(alike, one, key=tells) == one
    assert max(one, replace(alike, shards_optimizer=True), key=tells) != one


@pytest.mark.parametrize("mode", [KEEP, RECOMPUTED])
def test_the_parts_of_a_step_add_up_to_it_and_its_range_is_around_it(mode: Mode) -> None:
    judge = real_judge()
    plan = uniform(mode, judge.network)
    found = judge.parts(plan)
    assert found.step_us == pytest.approx(judge.evaluation(plan).step_us)
    assert float(found.of_group_us.sum()) == pytest.approx(found.step_us)
    assert 0 < found.gradients_us <= found.collectives_us
    assert found.collectives_us + found.copies_us == pytest.approx(max(judge.waits(plan).stall_us))
    low, high = found.range_us
    assert low < found.step_us < high
    assert found.step_us - low >= HIDDEN_MOST * found.gradients_us
