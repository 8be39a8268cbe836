"""Memory against the time of a step: what lies on the frontier, and its pictures."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from functools import cache

import pytest

from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.decide.expand import expand
from swapconf.plan.budgets import front_of, frontier_of
from swapconf.plan.frontier import Frontier
from swapconf.plan.judge import Judge
from swapconf.plan.modes import KEEP, RECOMPUTED, Plan, uniform
from swapconf.plan.planned import Planned, Verdict, needed_bytes, plan
from swapconf.report.next_steps import Asked
from swapconf.report.plan_chart import chart, points, scale_top
from swapconf.report.plan_figure import frontier_figure, shown
from swapconf.report.plan_page import page, yaml_of
from swapconf.report.plan_told import in_words
from swapconf.words.findings import has_errors
from swapconf.words.units import show_bytes
from tests.unit.planning import made_up_judge, real_judge, study
from tests.unit.test_plan_search import MODES, under

ASKED = Asked(again="swapconf plan train.yaml --budget 54GB", dry_run="swapconf dryrun train.yaml")


@cache
def planned() -> Planned:
    return plan(under(real_judge(), 0.4), effort=0.3)


@cache
def frontier() -> Frontier[Plan]:
    return frontier_of(planned(), asked=80)


def best_of(judge: Judge) -> list[tuple[int, float]]:
    """(bytes that it needs, step) of all that was seen and nothing else is better than, from scratch."""
    all_of_them = [
        (needed_bytes(judge, made), judge.evaluation(made).step_us)
        for made in judge.seen
        if judge.allows(made) and not judge.evaluation(made).crashes
    ]
    return sorted(
        one
        for one in set(all_of_them)
        if not any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in all_of_them)
    )


def test_no_point_is_better_than_another() -> None:
    made = frontier().points
    assert len(made) > 2
    for less, more in itertools.pairwise(made):
        assert less.needed_bytes < more.needed_bytes
        assert less.step_us > more.step_us


@pytest.mark.parametrize(("layers", "stages"), [(3, 1), (4, 2)])
def test_all_that_is_seen_lies_on_or_behind_the_front(layers: int, stages: int) -> None:
    judge = made_up_judge(layers, stages)
    for made in itertools.product(MODES, repeat=layers):
        judge.evaluation(made)
    found = [(needed, judge.evaluation(made).step_us) for needed, made in front_of(judge)]
    for needed, step_us in best_of(judge):
        assert any(other <= 1.001 * needed and time <= 1.001 * step_us for other, time in found)


def test_what_could_not_lie_on_the_front_is_not_placed() -> None:
    judge = made_up_judge(4)
    for made in itertools.product(MODES, repeat=4):
        judge.evaluation(made)
    placed: list[Plan] = []
    pools = judge.pool_bytes

    def counted(made: Plan) -> tuple[int, ...]:
        placed.append(made)
        return pools(made)

    judge.pool_bytes = counted  # type: ignore[method-assign, assignment]
    front_of(judge)
    assert 0 < len(placed) < 0.5 * len(judge.seen)


def test_searches_at_other_budgets_add_to_what_was_known() -> None:
    alone = front_of(planned().judge)
    for needed, made in alone:
        step_us = planned().judge.evaluation(made).step_us
        assert any(
            point.needed_bytes <= 1.001 * needed and point.step_us <= 1.001 * step_us for point in frontier().points
        )


def test_the_work_is_bounded_and_the_same_each_time() -> None:
    def told() -> list[tuple[int, float]]:
        judge = under(made_up_judge(5), 0.4)
        found = frontier_of(plan(judge, effort=0.2), asked=80)
        return [(point.needed_bytes, point.step_us) for point in found.points]

    assert told() == told()


def test_the_simple_strategies_are_on_the_same_axes_fitting_or_not() -> None:
    names = {point.name for point in frontier().simple}
    assert len(names) == len(frontier().simple) >= 5
    assert any(point.needed_bytes > frontier().budget_bytes for point in frontier().simple)
    none = next(point for point in frontier().simple if not point.entries)
    assert frontier().change(none) == 0
    full = next(point for point in frontier().simple if point.plan == uniform(RECOMPUTED, planned().judge.network))
    assert frontier().change(full) == pytest.approx(0.1, abs=0.05)


def test_points_and_simple_strategies_are_told_in_mindspores_own_order() -> None:
    judge = planned().judge
    assert len(frontier().points) > 2
    for point in (*frontier().points, frontier().chosen, *frontier().simple):
        assert judge.is_settled(point.plan)


def test_a_point_is_what_its_plan_is() -> None:
    judge = planned().judge
    for point in (*frontier().points, frontier().chosen, *frontier().simple):
        assert point.needed_bytes == needed_bytes(judge, point.plan)
        assert point.step_us == judge.evaluation(point.plan).step_us >= point.nominal_us
        assert point.host_bytes == judge.host_bytes(judge.evaluation(point.plan))


def test_a_frontier_of_a_plan_that_was_not_needed_or_does_not_fit_can_be_made() -> None:
    for share, verdict in ((1.2, Verdict.NOT_NEEDED), (-1.0, Verdict.IMPOSSIBLE)):
        found = plan(under(real_judge(), share), effort=0.1)
        assert found.verdict is verdict
        made = frontier_of(found, asked=16)
        assert made.points
        assert chart(made)
        assert page(found, made, study(), 0.3, "1.2", ASKED)


# --- in the terminal --------------------------------------------------------------------------------------------------


def test_the_chart_has_the_plan_and_the_budget_and_fits_in_a_terminal() -> None:
    lines = chart(frontier())
    drawn = "\n".join(line for line in lines if "|" in line[:11])
    assert drawn.count("P") == 1
    assert all(len(line) <= 80 for line in lines)
    assert sum("|" in line[11:] for line in lines) > 8


def test_the_table_names_the_plan_and_each_strategy_with_what_it_takes() -> None:
    printed = points(frontier())
    marks = [row[0] for row in printed.rows]
    assert marks == ["P", *"o" * len(frontier().points), *"abcdefgh"[: len(frontier().simple)]]
    of_simple = [row for row in printed.rows if row[0] in "abcdefgh"]
    assert [(row[1], row[-1]) for row in of_simple] == [
        (show_bytes(point.needed_bytes), point.name) for point in frontier().simple
    ]
    asked = [in_words(point.entries, 2) for point in frontier().points]
    assert [row[-1] for row in printed.rows if row[0] == "o"] == [words or "no swap, no recompute" for words in asked]
    assert any("recompute" in words for words in asked)


def test_what_is_far_slower_is_marked_and_does_not_set_the_scale() -> None:
    top = scale_top(frontier())
    slow = replace(frontier().points[0], step_us=100 * frontier().nothing.step_us, needed_bytes=1000)
    made = replace(frontier(), points=(slow, *frontier().points))
    assert scale_top(made) == top
    assert points(made).rows[1][3].endswith("^")
    assert not points(made).rows[0][3].endswith("^")


def test_a_single_point_can_be_drawn() -> None:
    made = replace(frontier(), points=(frontier().nothing,), chosen=frontier().nothing, simple=())
    assert chart(made)


# --- as a page --------------------------------------------------------------------------------------------------------


def embedded(text: str, name: str) -> object:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_every_point_of_the_figure_has_its_sections() -> None:
    figure = frontier_figure(frontier(), "frontier")
    numbers = sorted(number for trace in figure["data"] for number in trace["customdata"])
    drawn = shown(frontier())
    assert numbers == list(range(len(drawn)))
    for trace in figure["data"]:
        for number, share in zip(trace["customdata"], trace["y"], strict=True):
            assert share == pytest.approx(100 * frontier().change(drawn[number]), abs=1e-3)
    sections = embedded(page(planned(), frontier(), study(), 0.3, "1.2", ASKED), "sections")
    assert isinstance(sections, list)
    assert [item["text"] for item in sections] == [yaml_of(planned().judge, point.plan) for point in drawn]


def test_what_a_page_says_for_a_plan_decides_that_plan() -> None:
    judge = planned().judge
    network = study().network
    assert network is not None
    for point in frontier().points:
        again, findings = from_document(parse(yaml_of(judge, point.plan), "plan.yaml"))
        assert not has_errors(findings)
        wanted = judge.evaluator.strategy(judge.config(point.plan))
        assert (
            expand(replace(again, model=study().config.model), network, study().versions).actions() == wanted.actions()
        )


def test_the_page_runs_what_its_policy_names_and_loads_nothing() -> None:
    text = page(planned(), frontier(), study(), 0.3, "1.2", ASKED)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].count("sha256-") == len(re.findall(r"<script>", text)) == 3
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!data:)', markup)


def test_names_stay_text_and_lines_stay_lines() -> None:
    hostile = replace(study(), document=replace(study().document, file="<b>&.yaml"))
    text = page(planned(), frontier(), hostile, 0.3, "1.2", ASKED)
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "<b>" not in markup
    assert "&lt;b&gt;&amp;.yaml" in markup
    shown_text = re.search(r'id="section-text">(.*?)</code>', markup, re.DOTALL)
    assert shown_text is not None
    assert shown_text[1].replace("&#39;", "'").strip() == yaml_of(planned().judge, planned().chosen.plan).strip()


def test_a_page_without_a_frontier_has_no_picture_and_no_script() -> None:
    text = page(planned(), None, study(), 0.3, "1.2", ASKED)
    assert "<script" not in text
    assert "Side by side" in text
    assert "recompute_config:" in text


def test_the_table_has_the_plan_and_all_simple_strategies() -> None:
    text = re.sub(r"<script.*?</script>", "", page(planned(), None, study(), 0.3, "1.2", ASKED), flags=re.DOTALL)
    rows = re.findall(r"<tr><td class=\"words\">([^<]*)</td>", text)
    assert rows == ["the plan", *map(str, planned().simple), "the YAML as it is"]
    assert KEEP in planned().modes
