"""What each memory costs in time, of PyNative YAMLs: from recorded traces of two layers."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from swapconf.config.yaml_document import parse
from swapconf.plan.frontier import FRACTION, Frontier
from swapconf.plan.limits import Budget
from swapconf.plan.planned import Verdict
from swapconf.plan.pynative.budgets import chosen_again, frontier_of
from swapconf.plan.pynative.judge import NativeJudge, native_judge_of
from swapconf.plan.pynative.menu import uniform
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativePlan
from swapconf.plan.pynative.planned import Family, NativePlanned, families, plan
from swapconf.plan.pynative.simple import first_layers, simple
from swapconf.plan.written import write
from swapconf.report.next_steps import Asked
from swapconf.report.plan_figure import shown
from swapconf.report.plan_page import native_page, native_yaml_of
from swapconf.study.study import study_document
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.upstream.facts import Versions
from swapconf.whatif.pynative.question import NativeQuestion
from tests.helpers import TRACES, invoke, unpacked
from tests.unit.test_pynative_plan import NONE_BYTES, SEVERAL_CARDS, true_runs

PAIR = Versions(mindspore="2.10.0", mindformers="2.1.0")
NAMES = ("qwen3_l2_modules", "qwen3_l2_shards", "deepseek_v3_l2_tp2_ep2")
ANY_BYTES = 1 << 50

ASKED = Asked(again="swapconf plan train.yaml --budget 54GB", dry_run="swapconf dryrun train.yaml")


@cache
def folder_of(name: str) -> Path:
    return unpacked(TRACES / "pynative" / name)


@cache
def judge_of(name: str) -> NativeJudge:
    text = (folder_of(name) / "config.yaml").read_text(encoding="utf-8")
    return native_judge_of(
        study_document(parse(text, "train.yaml"), PAIR, {}),
        [folder_of(name)],
        Machine(hardware=hardware.load("ascend_910b2")),
        Budget(card_bytes=ANY_BYTES),
        slower_link=0.3,
        max_entries=6,
    )


@cache
def tried(name: str) -> tuple[Family, ...]:
    return tuple(families(judge_of(name)))


@cache
def planned(name: str, budget_bytes: int = ANY_BYTES) -> NativePlanned:
    return plan(judge_of(name).under(budget_bytes), tried(name))


@cache
def frontier(name: str, budget_bytes: int = ANY_BYTES) -> Frontier[NativePlan]:
    return frontier_of(planned(name, budget_bytes), tried(name))


def best_us(made: Frontier[NativePlan], budget_bytes: int) -> float:
    return min(point.step_us for point in made.points if point.needed_bytes <= budget_bytes)


@pytest.mark.parametrize("name", NAMES)
def test_more_memory_is_never_slower(name: str) -> None:
    made = frontier(name).points
    assert len(made) >= 2
    for less, more in itertools.pairwise(made):
        assert less.needed_bytes < more.needed_bytes
        assert less.step_us > more.step_us
    assert made[-1].step_us == pytest.approx(frontier(name).nothing.step_us, rel=FRACTION)


@pytest.mark.parametrize("name", NAMES)
def test_at_no_budget_a_simple_strategy_that_fits_is_faster(name: str) -> None:
    judge = judge_of(name)
    plain = [made for mode in (FULL, SWAP) for made in first_layers(judge, mode) if judge.allows(made)]
    assert len(plain) >= 3
    for made in plain:
        needed = judge.needed_bytes(made)
        assert best_us(frontier(name), round(needed * (1 + FRACTION))) <= judge.time(made).step_us * (1 + FRACTION)


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_for_the_memory_of_a_point_is_as_fast_as_the_point(name: str) -> None:
    """And needs no more. A search that takes what does not fit for a sign that no faster plan does said of full
    recompute of one layer of shards that nothing fits in what that needs."""
    judge = judge_of(name)
    for point in frontier(name).points:
        found = plan(judge.under(point.needed_bytes), tried(name))
        assert found.verdict is not Verdict.IMPOSSIBLE
        assert judge.needed_bytes(found.chosen) <= point.needed_bytes
        assert judge.time(found.chosen).step_us <= point.step_us * (1 + FRACTION)


@pytest.mark.parametrize("name", NAMES)
def test_of_all_plans_in_the_families_the_fastest_that_fits_is_planned(name: str) -> None:
    judge = judge_of(name)
    every = list(dict.fromkeys(itertools.chain.from_iterable(tried(name))))
    for budget in sorted({judge.needed_bytes(made) for made in every}):
        under = judge.under(budget)
        fastest = min(judge.cost_us(made) for made in every if under.fits(made))
        assert judge.cost_us(plan(under, tried(name)).chosen) <= fastest


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_the_plan_of_the_budget_is_on_it(name: str, share: float) -> None:
    judge = judge_of(name)
    low, high = (judge.needed_bytes(uniform(judge, mode)) for mode in (FULL, KEEP))
    budget = low + int(share * (high - low))
    found, made = planned(name, budget), frontier(name, budget)
    assert made.chosen.plan == chosen_again(found, made).chosen
    assert found.judge.fits(made.chosen.plan)
    assert made.chosen.step_us <= best_us(made, budget) * (1 + FRACTION)
    assert [point.step_us for point in made.points] == pytest.approx([point.step_us for point in frontier(name).points])


@pytest.mark.parametrize("name", NAMES)
def test_a_point_that_is_written_and_predicted_again_has_its_memory_and_its_time(name: str) -> None:
    judge, before = judge_of(name), (folder_of(name) / "config.yaml").read_text(encoding="utf-8")
    for point in frontier(name).points:
        text = write(before, parse(before, "train.yaml"), judge.config(point.plan), "a point")
        study = study_document(parse(text, "train.yaml"), PAIR, {})
        answer = NativeQuestion(folder_of(name), study).answer()
        assert answer.placement is not None
        assert point.needed_bytes == max(answer.safe_bytes, answer.placement.mapped_bytes)
        assert point.used_bytes == answer.prediction.used_peak_bytes
        assert point.moved_bytes == answer.moved_bytes
        assert point.step_us == judge.score(study.config).time.step_us


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_of_a_point_is_what_is_written(name: str) -> None:
    judge, before = judge_of(name), (folder_of(name) / "config.yaml").read_text(encoding="utf-8")
    for point in frontier(name).points:
        written = yaml.safe_load(write(before, parse(before, "train.yaml"), judge.config(point.plan), "a point"))
        shown_of_it = yaml.safe_load(native_yaml_of(judge, point.plan))
        for section in ("swap", "recompute"):
            if any(entry.is_swap == (section == "swap") for entry in point.plan.entries):
                assert written[section] == shown_of_it[section]


def test_the_simple_strategies_are_on_the_same_axes_fitting_or_not() -> None:
    judge = judge_of(NAMES[0]).under(NONE_BYTES * 8 // 10)
    made = frontier_of(plan(judge, tried(NAMES[0])), tried(NAMES[0]))
    assert [point.name for point in made.simple] == list(simple(judge))
    assert made.change(made.simple[0]) == 0
    assert any(point.needed_bytes > made.budget_bytes for point in made.simple)
    assert made.change(made.simple[1]) > 0.05


def test_what_is_better_than_the_plan_takes_its_place() -> None:
    """As where the search of the plan was ended early."""
    name, budget = NAMES[0], NONE_BYTES * 8 // 10
    full = uniform(judge_of(name), FULL)
    early = NativePlanned(judge=judge_of(name).under(budget), verdict=Verdict.FULL, chosen=full, is_interrupted=True)
    found = chosen_again(early, frontier_of(early, tried(name)))
    assert found.verdict is Verdict.PLANNED
    assert found.chosen == planned(name, budget).chosen


def test_what_true_runs_taught_of_a_budget_holds_up_to_it() -> None:
    judge = judge_of(NAMES[0]).under(NONE_BYTES)
    most = judge.used_bytes(uniform(judge, FULL))
    taught = replace(judge, most_used_bytes=(most,))
    made = frontier_of(plan(taught, tried(NAMES[0])), tried(NAMES[0]))
    assert all(point.used_bytes <= most or point.needed_bytes > NONE_BYTES for point in made.points)
    assert any(point.needed_bytes > NONE_BYTES for point in made.points)


# --- the command ------------------------------------------------------------------------------------------------------


def asked(folder: Path, budget: str, *more: str, text: str = "") -> Result:
    file = folder / "train.yaml"
    file.write_text(text or (folder_of(NAMES[0]) / "config.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    return invoke(
        "plan",
        file,
        "--budget",
        budget,
        "--from",
        folder_of(NAMES[0]),
        "--beside",
        "0",
        "--hardware",
        "ascend_910b2",
        *more,
    )


def record(folder: Path, budget: str, *more: str, text: str = "") -> dict[str, Any]:
    result = asked(folder, budget, "--format", "json", *more, text=text)
    assert result.exit_code in (0, 3), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_table_says_which_strategy_each_memory_takes(tmp_path: Path) -> None:
    result = asked(tmp_path, "6MB", "--frontier")
    assert result.exit_code == 0, result.output
    assert "memory that a card needs, with fragments, without the workspace of operators" in result.stdout
    rows = [line.split(maxsplit=4) for line in result.stdout.splitlines() if re.match(r"[Poabcd] +\d", line)]
    assert [row[0] for row in rows] == ["P", *"o" * len(frontier(NAMES[0]).points), *"abcd"]
    assert len({row[4] for row in rows if row[0] == "o"}) == len(frontier(NAMES[0]).points)
    assert any(row[4].startswith("recompute mlp, in all layers") for row in rows)
    assert result.stdout == asked(tmp_path, "6MB", "--frontier").stdout


def test_programs_get_the_points_and_nothing_where_they_did_not_ask(tmp_path: Path) -> None:
    found = record(tmp_path, "6MB", "--frontier")
    assert record(tmp_path, "6MB")["frontier"] is None
    for told, point in zip(found["frontier"], frontier(NAMES[0]).points, strict=True):
        assert told["needed_bytes"] == point.needed_bytes
        assert told["step_us_slower_link"] == point.step_us >= told["step_us"]
        assert told["change"] == frontier(NAMES[0]).change(point)
        entries = [(one["kind"] == "swap", one["operator"], tuple(one["layers"])) for one in told["entries"]]
        assert entries == [(one.is_swap, one.path, one.layers) for one in point.plan.entries]


def test_a_slower_link_is_in_all_of_its_times(tmp_path: Path) -> None:
    slow, fast = (record(tmp_path, "6MB", "--frontier", "--slower-link", share) for share in ("0.9", "0"))
    swapped = [
        next(one for one in found["simple"] if one["strategy"] == "the first layers swapped") for found in (slow, fast)
    ]
    assert swapped[0]["step_us_slower_link"] > swapped[1]["step_us_slower_link"]
    assert all(one["step_us_slower_link"] == pytest.approx(one["step_us"]) for one in fast["frontier"])


def test_a_budget_that_nothing_fits_in_is_told_as_without_and_what_others_cost(tmp_path: Path) -> None:
    for budget in ("2MB", "1MB"):
        plain, wide = asked(tmp_path, budget), asked(tmp_path, budget, "--frontier")
        assert plain.exit_code == wide.exit_code == 3
        assert plain.stdout.splitlines()[0] == wide.stdout.splitlines()[0]
        assert len(record(tmp_path, budget, "--frontier")["frontier"]) == len(frontier(NAMES[0]).points)


def test_the_plan_that_a_true_run_taught_is_the_one_that_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = int(NONE_BYTES * 0.85)
    ran = true_runs(monkeypatch, budget // 10, budget // 20)
    found = record(tmp_path, f"{budget}B", "--confirm", "--frontier", text=SEVERAL_CARDS)
    assert len(ran) == 2
    assert found["confirmed"][0]["fits"]
    fitting = [one["step_us_slower_link"] for one in found["frontier"] if one["needed_bytes"] <= budget]
    assert found["step_us"]["plan_slower_link"] <= min(fitting) * (1 + FRACTION)


def test_the_page_has_a_yaml_for_each_point_and_loads_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert asked(tmp_path, "6MB", "--html", str(page)).exit_code == 0
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="sections">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    sections = json.loads(found[1])
    judge = judge_of(NAMES[0])
    made = frontier(NAMES[0], 6 << 20)
    assert [item["text"] for item in sections] == [native_yaml_of(judge, point.plan) for point in shown(made)]
    assert not re.search(r'(src|href)="(?!data:)', re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    assert "without the workspace of operators" in text


def test_where_nothing_fits_the_page_says_so() -> None:
    name = NAMES[0]
    found = planned(name, 2 << 20)
    text = native_page(found, frontier_of(found, tried(name)), "train.yaml", 0.3, "1.2", ASKED)
    assert "No plan fits this budget." in text
