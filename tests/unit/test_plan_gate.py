"""No plan is slower than what people use today and truly fits, whatever was predicted of that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swapconf.cli import planning
from swapconf.cli.main import main
from swapconf.config.config import EveryLayer, SwapOff
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.plan import simple
from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.gate import instead, rivals
from swapconf.plan.judge import NOISE, Judge, judge_of
from swapconf.plan.limits import Budget, Limits
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, uniform
from swapconf.plan.planned import Planned, Verdict, needed_bytes, plan
from swapconf.plan.runs import StageRun
from swapconf.upstream.launch_orders import Order
from tests.helpers import TRACES, packed, study_of
from tests.unit.planning import MadeUp, machines, made_up_judge

BUDGET = 322 << 20
SLOW: Mode = frozenset({Atom("recompute", ""), Atom("swap", "", 20)})


def true_runs(monkeypatch: pytest.MonkeyPatch, full_bytes: int) -> list[bool]:
    """Full recompute truly needs so much, every other plan twice its budget. Of each run whether it was of the
    former."""
    ran: list[bool] = []

    def run(study: Any, changes: Any, text: str, runs: Any, ranks: Any = ()) -> list[StageRun]:
        config, _ = from_document(parse(text, "train.yaml"))
        again = config.recompute
        ran.append(
            isinstance(config.swap, SwapOff)
            and again.full is not None
            and isinstance(again.full.layers, EveryLayer)
            and not again.select
        )
        needs = full_bytes if ran[-1] else 2 * BUDGET
        return [
            StageRun(
                rank=0, stage=0, folder=Path(), used_peak_bytes=needs, with_fragments_peak_bytes=needs, host_bytes=0
            )
        ]

    monkeypatch.setattr(planning, "run_plan", run)
    return ran


def planned(*more: str) -> tuple[int, dict[str, Any], str]:
    line = ["plan", str(TRACES / "llama.yaml"), "--from", str(TRACES / "llama_l2_none"), "--effort", "0.1"]
    line += ["--hardware", "ascend_910b2", "--budget", f"{BUDGET}B", "--beside", "0", "--confirm", "--format", "json"]
    result = CliRunner().invoke(main, [*line, *more])
    return result.exit_code, json.loads(result.stdout), result.stderr


def test_full_recompute_that_truly_fits_is_the_plan_where_true_runs_taught_that_nothing_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = true_runs(monkeypatch, BUDGET // 2)
    code, found, errors = planned()
    assert ran[0] is False
    assert ran[-1] is True
    assert code == 0
    assert found["verdict"] == "full"
    assert [rank["fits"] for rank in found["confirmed"]] == [True]
    assert found["sections"]["recompute_config"]["recompute"] is True
    assert "a true run decides" in errors
    assert found["needed_bytes"] <= BUDGET


def test_full_recompute_whose_true_run_does_not_fit_is_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = true_runs(monkeypatch, 2 * BUDGET)
    code, found, _ = planned()
    assert any(ran)
    assert code == 3
    assert found["verdict"] == "impossible"


def slower_than_full(judge: Judge) -> Planned:
    chosen, full = (judge.score(uniform(mode, judge.network)) for mode in (SLOW, RECOMPUTED))
    nothing = judge.score(uniform(KEEP, judge.network))
    return Planned(
        judge=judge, verdict=Verdict.PLANNED, chosen=chosen, simple={simple.NONE: nothing, simple.FULL: full}
    )


def under(share: float, learned: int = 0) -> Judge:
    """``share``: of the way from what full recompute needs to what no strategy needs."""
    one = made_up_judge(4, evaluator=MadeUp(1, fragments=lambda rank, key: 0))
    low, high = (one.limits.needed_bytes(one.pool_bytes(uniform(mode, one.network))) for mode in (RECOMPUTED, KEEP))
    limits = Limits(
        budget_bytes=int(low + share * (high - low)),
        workspace_bytes=one.limits.workspace_bytes,
        learned_bytes=(learned,),
    )
    return one.under(limits)


def test_what_would_fit_without_what_another_plan_taught_is_a_rival_where_it_is_faster() -> None:
    assert [name for name, _ in rivals(slower_than_full(under(0.1, learned=500)))] == [simple.FULL]
    assert not [*rivals(slower_than_full(under(0.1)))], "it fits, and the search has looked at it"


def test_what_may_save_more_than_is_predicted_is_a_rival_and_no_strategy_never_is() -> None:
    assert [name for name, _ in rivals(slower_than_full(under(-0.2)))] == [simple.FULL]
    assert not [*rivals(slower_than_full(under(-0.3)))]


def test_what_might_fit_is_a_rival_of_a_plan_that_truly_does_not_however_slow_it_is() -> None:
    made = slower_than_full(under(0.1))
    assert [name for name, _ in rivals(made, is_refuted=True)] == [simple.FULL]


def test_what_is_no_faster_is_no_rival() -> None:
    made = slower_than_full(under(0.1, learned=500))
    judge = made.judge.under(replace(made.judge.limits, budget_bytes=1 << 40))
    fits = judge.score(uniform(RECOMPUTED, judge.network))
    assert fits.fits
    assert not [*rivals(replace(made, chosen=fits))]


def test_a_rival_in_place_of_the_plan_needs_what_its_true_run_needed() -> None:
    made = slower_than_full(under(-0.2))
    full = uniform(RECOMPUTED, made.judge.network)
    predicted = made.judge.pool_bytes(full)[0]
    true = ConfirmedRank(
        rank=0,
        stage=0,
        predicted_used_bytes=predicted,
        used_bytes=predicted - 700,
        predicted_pool_bytes=predicted,
        pool_bytes=predicted - 700,
        most_bytes=1 << 40,
    )
    found = instead(made, full, [true])
    assert found.verdict is Verdict.FULL
    assert found.chosen.fits
    assert found.needed_bytes == predicted - 700 + made.judge.limits.workspace_bytes[0]


def test_with_fused_kernels_no_plan_is_slower_than_what_is_simple_and_predicted_to_fit() -> None:
    folder = TRACES / "fused" / "llama_plain"
    judge = judge_of(
        study_of(folder / "model.yaml"),
        [Path(packed(folder).folder)],
        machines()[0],
        Budget(card_bytes=1 << 60),
        slower_link=0.3,
        max_entries=6,
    )
    least, most = (needed_bytes(judge, uniform(mode, judge.network)) for mode in (RECOMPUTED, KEEP))
    for share in (0.0, 0.2, 0.6):
        found = plan(judge.under(replace(judge.limits, budget_bytes=int(least + share * (most - least)))), effort=0.05)
        fitting = [item.found.step_us for item in found.simple.values() if item.fits]
        assert fitting
        assert found.chosen.found.step_us <= min(fitting) * (1 + NOISE)
        assert {way.order for way in found.judge.ways(found.chosen.plan)} == {Order.RUN}
