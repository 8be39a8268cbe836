"""A plan of a PyNative YAML: a larger budget never makes it slower, it keeps its limits, and the YAML says it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.config.yaml_document import parse
from swapconf.plan.planned import Verdict
from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativeMode, NativePlan
from swapconf.plan.pynative.planned import families, plan
from swapconf.plan.written import write
from swapconf.study.study import study_document
from tests.unit.test_pynative_plan import NONE_BYTES, PAIR, PLAIN, judge_under

BUDGETS = st.integers(min_value=NONE_BYTES // 2, max_value=NONE_BYTES * 9 // 8)
PATHS = sorted(judge_under(NONE_BYTES).paths[0])
MODES = st.one_of(
    st.sampled_from([KEEP, FULL, SWAP]),
    st.frozensets(st.sampled_from([path for path in PATHS if "." not in path]), min_size=1).map(NativeMode),
    st.sampled_from(PATHS).map(lambda path: NativeMode(frozenset({path}))),
    st.sampled_from(PATHS).map(lambda path: NativeMode(moved=frozenset({path}))),
)


@cache
def planned(budget_bytes: int) -> tuple[NativeJudge, NativePlan, Verdict]:
    judge = judge_under(NONE_BYTES)
    under = replace(judge, limits=replace(judge.limits, budget_bytes=budget_bytes))
    found = plan(under, families(judge))
    return under, found.chosen, found.verdict


@given(BUDGETS, BUDGETS)
def test_a_larger_budget_never_makes_a_slower_plan(one: int, other: int) -> None:
    (_, small, is_found), (judge, large, _) = planned(min(one, other)), planned(max(one, other))
    if is_found is not Verdict.IMPOSSIBLE:
        assert judge.cost_us(large) <= judge.cost_us(small)
        assert judge.fits(large)


@given(BUDGETS)
def test_a_plan_is_within_its_limits_or_there_is_none(budget_bytes: int) -> None:
    judge, chosen, verdict = planned(budget_bytes)
    assert (judge.needed_bytes(chosen) <= budget_bytes) is (verdict is not Verdict.IMPOSSIBLE)
    ((safe,), (mapped,)) = judge.safe_bytes(chosen), judge.mapped_bytes(chosen)
    assert judge.needed_bytes(chosen) == max(safe, mapped or 0)


@settings(max_examples=40)
@given(st.tuples(MODES, MODES.filter(lambda mode: not mode.is_swapped)))
def test_every_plan_survives_the_yaml_and_back(modes: tuple[NativeMode, NativeMode]) -> None:
    judge = judge_under(NONE_BYTES)
    made = NativePlan(modes)
    text = write(PLAIN, parse(PLAIN, "t.yaml"), judge.config(made), "planned by swapconf for a law")
    read = study_document(parse(text, "t.yaml"), PAIR, {}).config
    assert judge.stages[0].question.parts(read) == judge.stages[0].question.parts(judge.config(made))
    again = write(text, parse(text, "t.yaml"), judge.config(made), "planned by swapconf for a law")
    assert again == text
    gone = write(text, parse(text, "t.yaml"), judge.config(NativePlan((KEEP, KEEP))), "planned by swapconf for a law")
    assert not judge.stages[0].question.parts(study_document(parse(gone, "t.yaml"), PAIR, {}).config).again
