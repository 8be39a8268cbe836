"""The search for the best plan: what it finds, how much it asks, and that nothing but its input decides."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from swapconf.plan.judge import NOISE, Judge, Scored
from swapconf.plan.limits import Limits
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, Plan
from swapconf.plan.planned import Verdict, chosen_again, needed_bytes, plan
from swapconf.plan.search import Search
from tests.helpers import ROOT
from tests.unit.networks import config
from tests.unit.planning import MadeUp, made_up_judge, real_judge

MODES: list[Mode] = [
    KEEP,
    RECOMPUTED,
    frozenset({Atom("recompute", "attention")}),
    frozenset({Atom("swap", "", 20)}),
    frozenset({Atom("recompute", "feed_forward"), Atom("swap", "attention", 50)}),
]
_ACROSS = """
from tests.unit.test_plan_search import planned_across
print(planned_across())
"""


def under(judge: Judge, share: float) -> Judge:
    """A part of the way from the least that full recompute needs to what no strategy needs."""
    workspace = judge.limits.workspace_bytes
    low, high = (
        max(pool + more for pool, more in zip(judge.pool_bytes((mode,) * len(judge.layers)), workspace, strict=True))
        for mode in (RECOMPUTED, KEEP)
    )
    return judge.under(Limits(budget_bytes=int(low + share * (high - low)), workspace_bytes=workspace))


def exhaustive(judge: Judge) -> Scored:
    return min((judge.score(plan) for plan in itertools.product(MODES, repeat=len(judge.layers))), key=lambda s: s.rank)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4, 0.6, 0.8, 0.95])
@pytest.mark.parametrize(("layers", "stages"), [(4, 1), (4, 2)])
def test_it_is_as_good_as_asking_for_every_plan(layers: int, stages: int, share: float) -> None:
    best = exhaustive(under(made_up_judge(layers, stages, max_entries=99), share))
    found = Search(under(made_up_judge(layers, stages, max_entries=99), share), MODES).run(500)
    assert found.fits
    assert found.found.step_us <= 1.0005 * best.found.step_us


def test_it_asks_for_no_more_plans_than_it_may_but_for_those_that_it_starts_from() -> None:
    judge = under(made_up_judge(8), 0.5)
    before = judge.asked
    Search(judge, MODES).run(200)
    assert judge.asked - before <= 200


def test_it_starts_from_plans_that_it_is_given() -> None:
    judge = under(made_up_judge(6), 0.3)
    good = Search(under(made_up_judge(6), 0.3), MODES).run(600)
    assert Search(judge, [KEEP], progress=lambda asked: None).run(1, [good.plan]).rank <= good.rank


def test_every_plan_on_the_way_has_no_more_entries_than_allowed() -> None:
    judge = under(made_up_judge(4, max_entries=2), 0.4)
    search = Search(judge, MODES)
    assert len(search.run(200).entries) <= 2


def test_what_it_has_when_it_is_interrupted_is_the_best_so_far() -> None:
    judge = under(made_up_judge(6), 0.4)
    seen: list[int] = []

    def stop(asked: int) -> None:
        seen.append(asked)
        if asked > 60:
            raise KeyboardInterrupt

    search = Search(judge, MODES, stop)
    with pytest.raises(KeyboardInterrupt):
        search.run(500)
    assert search.best is not None
    assert seen == sorted(seen)
    best = min((judge.score(plan) for plan in judge.seen if judge.allows(plan)), key=lambda item: item.rank)
    assert search.best.rank == best.rank


def test_where_nothing_fits_the_least_that_is_over_is_found() -> None:
    judge = made_up_judge(3)
    nothing = judge.under(Limits(budget_bytes=100, workspace_bytes=judge.limits.workspace_bytes))
    found = Search(nothing, MODES).run(300)
    assert not found.fits
    assert found.over_bytes == min(nothing.score(plan).over_bytes for plan in itertools.product(MODES, repeat=3))


def _a_hair_over(lucky: Plan) -> MadeUp:
    """All plans take 9000 bytes with fragments, but one takes less by one."""

    def fragments(rank: int, key: Any) -> int:
        return 9000 - made.evaluate(config(4), [key]).ranks[0].used_peak_bytes - int(key[-1] == lucky)

    made = MadeUp(1, fragments=fragments)
    return made


def test_where_a_hair_is_missing_all_plans_are_asked_for_if_these_are_few() -> None:
    lucky = (MODES[4], MODES[0], MODES[3], MODES[2])
    limits = Limits(budget_bytes=9009, workspace_bytes=(10,))
    found = Search(made_up_judge(4, max_entries=99, evaluator=_a_hair_over(lucky)).under(limits), MODES).run(60)
    assert found.plan == lucky
    assert found.fits


@pytest.mark.parametrize(("budget_bytes", "layers"), [(8999, 4), (9009, 8)], ids=["more is missing", "too many plans"])
def test_else_a_search_keeps_to_what_it_may_ask_for(budget_bytes: int, layers: int) -> None:
    lucky = (MODES[4], MODES[0], MODES[3], MODES[2])
    limits = Limits(budget_bytes=budget_bytes, workspace_bytes=(10,))
    judge = made_up_judge(layers, max_entries=99, evaluator=_a_hair_over(lucky)).under(limits)
    before = judge.asked
    assert not Search(judge, MODES).run(60).fits
    assert judge.asked - before <= 60


# --- the same input, the same plan ------------------------------------------------------------------------------------


def planned_across() -> str:
    """Plans of three judges, and all that was asked on the way, as text."""
    told: list[object] = []
    for judge in (under(made_up_judge(6), 0.4), under(made_up_judge(6, 2), 0.2), under(real_judge(), 0.3)):
        found = plan(judge, effort=0.1)
        told.append([[sorted(mode) for mode in made] for made in [found.chosen.plan, *found.judge.seen]])
        told.append([sorted(mode) for mode in found.modes])
        told.append([(name, [sorted(mode) for mode in item.plan]) for name, item in found.simple.items()])
    return repr(told)


def test_the_same_input_gives_the_same_plan_and_asks_the_same_on_the_way() -> None:
    assert planned_across() == planned_across()


def test_the_order_of_sets_decides_nothing() -> None:
    """Text hashes otherwise in every process, and so sets of it are in another order."""
    told = [
        subprocess.run(
            [sys.executable, "-c", _ACROSS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    ]
    assert len(set(told)) == 1
    assert len(told[0]) > 1000


def test_a_plan_that_fits_only_in_the_order_of_the_run_without_a_strategy_is_not_chosen() -> None:
    """The fastest plan takes more in the order in which MindSpore itself would launch it; no other does."""
    usual = under(made_up_judge(4), 0.5)
    fastest = plan(usual).chosen
    keys = set(usual._asked(fastest.plan)[1])
    evaluator = MadeUp(1, more=lambda rank, key: 2000 if key in keys else 0)
    judge = under(made_up_judge(4, evaluator=evaluator), 0.5)
    found = plan(judge).chosen
    assert found.fits
    assert judge.is_settled(found.plan)
    assert not judge.score(fastest.plan).fits
    assert judge.used_bytes(fastest.plan)[0] == usual.used_bytes(fastest.plan)[0] + 2000
    assert found.plan != fastest.plan
    assert found.found.step_us >= fastest.found.step_us * (1 - NOISE)


def test_where_plans_fit_in_mindspores_own_order_alone_a_faster_one_than_the_lowest_is_sought() -> None:
    usual = made_up_judge(8).under(Limits(budget_bytes=1, workspace_bytes=(10,)))
    lowest = plan(usual)
    limits = replace(usual.limits, budget_bytes=lowest.needed_bytes - 1)
    judge = made_up_judge(8, evaluator=MadeUp(1, more=lambda rank, key: -100)).under(limits)
    found = plan(judge)
    assert found.verdict is not Verdict.IMPOSSIBLE
    assert found.chosen.fits
    assert found.chosen.cost_us < lowest.chosen.cost_us * (1 - NOISE)
    assert all(found.chosen.cost_us <= item.cost_us for item in found.simple.values() if item.fits)


def test_where_nothing_fits_what_needs_least_is_told_by_mindspores_own_order() -> None:
    """The lowest takes more in the order in which MindSpore itself would launch it; no other does."""
    limits = Limits(budget_bytes=1, workspace_bytes=(10,))
    usual = made_up_judge(8).under(limits)
    lowest = plan(usual)
    assert lowest.verdict is Verdict.IMPOSSIBLE
    keys = set(usual._asked(lowest.chosen.plan)[1])
    judge = made_up_judge(8, evaluator=MadeUp(1, more=lambda rank, key: 5000 if key in keys else 0)).under(limits)
    for found in (plan(judge), chosen_again(plan(judge))):
        assert found.verdict is Verdict.IMPOSSIBLE
        assert judge.is_settled(found.chosen.plan)
        assert found.chosen.plan != lowest.chosen.plan
        assert found.needed_bytes < needed_bytes(judge, lowest.chosen.plan)
        assert found.needed_bytes <= min(needed_bytes(judge, item.plan) for item in found.simple.values()) * (1 + NOISE)
