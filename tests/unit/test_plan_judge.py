"""What a plan is worth under limits, and what is asked for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swapconf.plan.judge import Judge
from swapconf.plan.limits import Cards, Limits
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, Plan
from swapconf.plan.planned import needed_bytes
from tests.unit.planning import EVERYTHING, MadeUp, made_up_judge

SWAPPED: Mode = frozenset({Atom("swap", "", 20)})
ATTENTION: Mode = frozenset({Atom("recompute", "attention")})


def with_fragments(fragments: int, budget_bytes: int = EVERYTHING, num_layers: int = 2, num_stages: int = 1) -> Judge:
    """Every rank needs as much beside what it uses."""
    return made_up_judge(
        num_layers, num_stages, budget_bytes, evaluator=MadeUp(num_stages, fragments=lambda rank, key: fragments)
    )


def used(judge: Judge, plan: Plan) -> list[int]:
    return [rank.used_peak_bytes for rank in judge.evaluation(plan).ranks]


def test_what_fits_has_nothing_over_and_its_bytes_with_fragments() -> None:
    judge = with_fragments(50)
    found = judge.score((KEEP, KEEP))
    assert found.fits
    assert found.over_bytes == found.used_over_bytes == 0
    assert found.pool_bytes == (used(judge, found.plan)[0] + 50,)
    assert found.found == judge.evaluation(found.plan)


@pytest.mark.parametrize(("room", "fits"), [(50, True), (49, False)])
def test_fragments_and_workspace_count_to_the_last_byte(room: int, fits: bool) -> None:
    judge = with_fragments(50)
    budget = used(judge, (KEEP, KEEP))[0] + judge.limits.workspace_bytes[0] + room
    found = judge.under(Limits(budget_bytes=budget, workspace_bytes=judge.limits.workspace_bytes)).score((KEEP, KEEP))
    assert found.fits is fits
    assert found.used_over_bytes == 0
    assert found.over_bytes == (0 if fits else 1)


def test_what_is_beside_the_pool_and_what_was_learned_leave_less() -> None:
    limits = Limits(budget_bytes=1000, workspace_bytes=(10, 20), beside_bytes=100, learned_bytes=(5, 0))
    assert limits.pool_bytes == (885, 880)
    assert limits.over_bytes([900, 879]) == 15


def test_a_card_may_have_less_room_than_the_budget_says() -> None:
    limits = Limits(budget_bytes=1000, workspace_bytes=(10, 20), room_bytes=800)
    assert limits.pool_bytes == (790, 780)
    assert limits.needed_bytes([500, 600]) == 620
    assert replace(limits, room_bytes=2000).pool_bytes == (990, 980)


def test_what_does_not_fit_without_fragments_is_not_placed() -> None:
    judge = with_fragments(50)
    tight = judge.under(Limits(budget_bytes=1000, workspace_bytes=(10,)))
    found = tight.score((KEEP, ATTENTION))
    assert found.pool_bytes is None
    assert not found.fits
    assert found.used_over_bytes == used(judge, found.plan)[0] - 990
    assert found.over_bytes > found.used_over_bytes  # fragments are reckoned with


def test_what_fits_comes_before_what_does_not_then_the_fastest_then_the_least_over() -> None:
    judge = with_fragments(50)
    budget = used(judge, (RECOMPUTED, KEEP))[0] + 60
    tight = judge.under(Limits(budget_bytes=budget, workspace_bytes=(10,)))
    ordered = sorted(
        (tight.score(plan) for plan in [(KEEP, KEEP), (RECOMPUTED, RECOMPUTED), (ATTENTION, KEEP), (RECOMPUTED, KEEP)]),
        key=lambda item: item.rank,
    )
    assert [item.plan for item in ordered] == [
        (RECOMPUTED, KEEP),
        (RECOMPUTED, RECOMPUTED),
        (ATTENTION, KEEP),
        (KEEP, KEEP),
    ]


def test_what_is_slower_than_a_plan_that_fits_is_not_placed_until_it_is_asked_for() -> None:
    judge = with_fragments(50)
    best = judge.score((KEEP, KEEP))
    assert judge.score((RECOMPUTED, KEEP), better_than=best).pool_bytes is None
    assert judge.score((RECOMPUTED, KEEP)).fits


def test_a_plan_is_asked_for_once_whatever_the_limits() -> None:
    made = MadeUp(1)
    judge = made_up_judge(2, evaluator=made)
    before = judge.asked
    judge.evaluation((KEEP, RECOMPUTED))
    judge.under(Limits(budget_bytes=10, workspace_bytes=(1,))).score((KEEP, RECOMPUTED))
    judge.score((KEEP, RECOMPUTED))
    assert judge.asked == before + 1
    assert judge.seen == [(KEEP, KEEP), (KEEP, RECOMPUTED)]


def test_what_makes_mindspore_crash_never_fits() -> None:
    judge = with_fragments(50)
    found = judge.score((frozenset({Atom("swap", "", 1)}), KEEP))
    assert not found.fits
    assert judge.score((KEEP, KEEP)).rank < found.rank


def test_the_host_has_a_budget_of_its_own() -> None:
    judge = made_up_judge(2, host_budget_bytes=1000)
    whole, half = judge.score((SWAPPED, SWAPPED)), judge.score((SWAPPED, KEEP))
    assert judge.host_bytes(whole.found) == 1200
    assert not whole.fits
    assert whole.over_bytes == 200
    assert half.fits


def test_ranks_of_a_host_share_it() -> None:
    cards = Cards(num_devices=16, num_stages=2, per_host=8)
    assert cards.host_bytes({0: 3, 1: 5}) == 40
    assert Cards(num_devices=8, num_stages=2, per_host=8).host_bytes({0: 3, 1: 5}) == 32


def test_a_rank_is_asked_again_only_where_its_own_layers_change_or_operators_are_selected_for_the_first_time() -> None:
    made = MadeUp(2)
    judge = made_up_judge(4, num_stages=2, evaluator=made)
    for plan in ((SWAPPED, KEEP, KEEP, KEEP), (SWAPPED, KEEP, KEEP, SWAPPED), (SWAPPED, KEEP, KEEP, ATTENTION)):
        judge.evaluation(plan)
    plain, other, selected = made.asked[-3:]
    assert plain[0] == other[0]
    assert plain[1] != other[1]
    assert selected[0] != plain[0]  # some cells are built otherwise where operators are selected


def test_the_least_budget_of_a_plan_is_that_of_the_rank_that_needs_most() -> None:
    judge = made_up_judge(4, num_stages=2, evaluator=MadeUp(2))
    limits = Limits(budget_bytes=EVERYTHING, workspace_bytes=(10, 11), beside_bytes=100, learned_bytes=(7, 0))
    plan: Plan = (RECOMPUTED, RECOMPUTED, RECOMPUTED, KEEP)
    first, second = judge.pool_bytes(plan)
    needed = needed_bytes(judge.under(limits), plan)
    assert needed == max(first + 10 + 100 + 7, second + 11 + 100)
    for budget, fits in ((needed, True), (needed - 1, False)):
        tight = Limits(budget_bytes=budget, workspace_bytes=(10, 11), beside_bytes=100, learned_bytes=(7, 0))
        assert judge.under(tight).score(plan).fits is fits


def test_it_is_told_which_stages_fit() -> None:
    judge = with_fragments(50, num_layers=4, num_stages=2)
    plan: Plan = (KEEP,) * 4
    first, second = judge.pool_bytes(plan)
    assert first > second
    assert judge.under(Limits(budget_bytes=second + 11, workspace_bytes=(10, 11))).stage_fits(plan) == [False, True]
    assert judge.stage_fits(plan) == [True, True]


def test_plans_with_too_many_entries_are_not_allowed() -> None:
    judge = made_up_judge(2, max_entries=2)
    assert judge.allows((SWAPPED, ATTENTION))
    assert not judge.allows((SWAPPED | ATTENTION, RECOMPUTED))
