"""A plan beside the true runs of it: what fits, and what the next plan has to leave free."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from swapconf.plan.confirmed import confirm, learned
from swapconf.plan.judge import Judge, Scored
from swapconf.plan.modes import RECOMPUTED, uniform
from swapconf.plan.planned import needed_bytes
from swapconf.plan.runs import NoRun, StageRun, traces_of
from tests.unit.planning import made_up_judge


def judged(spare_bytes: int) -> tuple[Judge, Scored]:
    """A plan of two stages with so much room on the tightest."""
    judge = made_up_judge(4, 2)
    plan = uniform(RECOMPUTED, judge.network)
    judge = judge.under(replace(judge.limits, budget_bytes=needed_bytes(judge, plan) + spare_bytes))
    return judge, judge.score(plan)


def runs(judge: Judge, chosen: Scored, *, more_used: int = 0, more_pool: int = 0, is_placed: bool) -> list[StageRun]:
    """Of the plan; each with so much more than was predicted."""
    ranks = zip(judge.evaluator.ranks, chosen.found.ranks, judge.pool_bytes(chosen.plan), strict=True)
    return [
        StageRun(
            rank=rank,
            stage=stage,
            folder=Path(f"rank_{rank}"),
            used_peak_bytes=memory.used_peak_bytes + more_used,
            with_fragments_peak_bytes=pool + more_pool,
            host_bytes=0,
            is_placed=is_placed,
        )
        for (rank, stage), memory, pool in ranks
    ]


def test_a_run_that_needs_more_with_fragments_than_there_is_breaks_the_plan_and_is_learned_from() -> None:
    judge, chosen = judged(spare_bytes=10)
    found = confirm(judge, chosen, runs(judge, chosen, more_pool=50, is_placed=True))
    assert not all(rank.fits for rank in found)
    assert learned(found, (0, 60)) == (50, 60)


@pytest.mark.parametrize(("more_used", "fits"), [(0, True), (10, True), (50, False)])
def test_fragments_that_come_from_a_line_are_not_held_against_a_plan(more_used: int, fits: bool) -> None:
    judge, chosen = judged(spare_bytes=10)
    found = confirm(judge, chosen, runs(judge, chosen, more_used=more_used, more_pool=5000, is_placed=False))
    assert all(rank.fits for rank in found) is fits
    assert learned(found, (0, 0)) == (more_used, more_used)
    assert not any(rank.is_placed for rank in found)


def test_a_folded_run_without_a_trace_tells_why_it_left_none() -> None:
    judge, chosen = judged(spare_bytes=10)
    first, *others = runs(judge, chosen, is_placed=False)
    told = replace(first, note="no trace of the whole model was made of it: something")
    with pytest.raises(NoRun, match=r"rank_0 left no trace of the whole model \(.*: something\)"):
        traces_of([told, *others])
