"""Plans as a person would write them: ranges and strides of layers, few modes, where that hardly costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from swapconf.plan.arranged import arranged, nearby
from swapconf.plan.judge import Judge
from swapconf.plan.limits import Limits
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, Plan, config_of, is_counted, num_ranges
from swapconf.plan.planned import Planned, Verdict, plan
from swapconf.plan.regular import HARDLY, regular
from swapconf.report.plan_text import verdict_lines
from swapconf.report.plan_told import layers_told
from swapconf.whatif.evaluation import Evaluation
from swapconf.words.units import Span, spans
from tests.unit.planning import MadeUp, made_up_judge, study

SWAP: Mode = frozenset({Atom("swap", "", 20)})
NORM: Mode = frozenset({Atom("recompute", "attention")})


def judge(layers: int = 8, stages: int = 1, evaluator: MadeUp | None = None) -> Judge:
    """Without fragments, so that what a plan needs does not depend on which of its layers have which mode."""
    made = evaluator or MadeUp(stages, fragments=lambda rank, key: 0)
    return made_up_judge(layers, stages, evaluator=made)


def within(one: Judge, made: Plan) -> Judge:
    """Just enough for a plan."""
    budget = one.limits.needed_bytes(one.pool_bytes(made))
    return one.under(Limits(budget_bytes=budget, workspace_bytes=one.limits.workspace_bytes))


def regular_of(one: Judge, made: Plan, most: int = 200) -> Plan:
    one.settle(made)
    return regular(one, one.score(made), [], most).plan


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_numbers_are_told_in_ranges_and_strides() -> None:
    assert spans([0, 2, 4, 5, 6, 9]) == [Span(0, 4, 2), Span(5, 6), Span(9, 9)]
    assert spans([]) == []
    assert layers_told(range(26)) == "0-25"
    assert layers_told(range(0, 31, 2)) == "every 2nd of 0-30"
    assert layers_told([0, 3, 6, 8, 12, 16]) == "every 3rd of 0-6, one in 4 of 8-16"
    assert layers_told([1, 3]) == "1, 3"


def test_an_entry_of_all_layers_has_no_range_and_counts_for_each_stage_are_one() -> None:
    base = judge(8, 2).base
    assert num_ranges((RECOMPUTED,) * 8, base) == 0
    assert num_ranges((SWAP, KEEP) * 4, base) == 1
    first = (RECOMPUTED, KEEP, KEEP, KEEP) * 2
    two_stages = config_of(first, replace(base, pipeline=replace(base.pipeline, num_stages=2)))
    assert is_counted(first, two_stages)
    assert num_ranges(first, two_stages) == 1
    assert num_ranges(first, base) == 2
    assert num_ranges((SWAP, KEEP, KEEP, KEEP) * 2, two_stages) == 2


# --- arrangements -----------------------------------------------------------------------------------------------------


def test_all_arrangements_have_the_layers_of_a_plan_or_few_others_and_one_of_them_is_in_blocks() -> None:
    one, made = judge(8), (SWAP, KEEP, RECOMPUTED, SWAP, KEEP, KEEP, SWAP, KEEP)
    found = [item.plan for item in arranged(one, made)]
    assert len(set(found)) == len(found)
    assert (SWAP,) * 3 + (KEEP,) * 4 + (RECOMPUTED,) in found
    assert (SWAP, KEEP) * 3 + (KEEP, RECOMPUTED) in found
    assert (KEEP,) * 4 + (SWAP,) * 4 in found
    assert all(len(item) == 8 and set(item) <= {SWAP, KEEP, RECOMPUTED} for item in found)


def test_nearby_plans_put_one_entry_in_order_or_change_two_layers() -> None:
    made = (SWAP, KEEP, SWAP, RECOMPUTED)
    found = list(nearby(judge(4), made))
    assert (SWAP | frozenset(), SWAP, KEEP, RECOMPUTED) in found
    assert (KEEP, KEEP, KEEP, RECOMPUTED) in found
    assert (SWAP, SWAP, SWAP, RECOMPUTED) in found


# --- what is chosen ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [1, 2])
def test_layers_that_are_as_good_anywhere_come_in_one_range_of_each_stage(stages: int) -> None:
    made = (NORM, KEEP, KEEP, NORM, KEEP, NORM, NORM, KEEP)
    one = within(judge(8, stages), made)
    found = regular_of(one, made)
    assert num_ranges(found, one.base) == 1
    assert sum(mode == NORM for mode in found) == 4
    assert one.score(found).fits
    assert one.score(found).found.step_us == one.score(made).found.step_us


class _Dear(MadeUp):
    """A step takes longer by a share where neighbours have the same mode."""

    share = 0.0

    def evaluate(self, config: Any, keys: Any, machine: int = 0) -> Evaluation:
        found = super().evaluate(config, keys, machine)
        modes = keys[0][-1]
        same = any(mode and mode == other for mode, other in pairwise(modes))
        return replace(found, step_us=found.step_us * (1 + self.share * same))


@pytest.mark.parametrize(("share", "is_regular"), [(0.5 * HARDLY, True), (2 * HARDLY, False)])
def test_regular_layers_are_taken_where_they_cost_less_than_three_thousandths(share: float, is_regular: bool) -> None:
    evaluator = _Dear(1, fragments=lambda rank, key: 0)
    evaluator.share = share
    made = (NORM, KEEP, KEEP, NORM, KEEP, NORM, KEEP, KEEP, NORM, KEEP)
    one = within(judge(10, evaluator=evaluator), made)
    found = regular_of(one, made)
    assert (found == (NORM,) * 4 + (KEEP,) * 6 or found == (KEEP,) * 6 + (NORM,) * 4) is is_regular
    if not is_regular:  # each second one has no neighbour
        assert layers_told([index for index, mode in enumerate(found) if mode]).startswith("every 2nd of")


def test_a_regular_plan_is_no_slower_than_a_simple_one_that_fits() -> None:
    evaluator = _Dear(1, fragments=lambda rank, key: 0)
    evaluator.share = 0.5 * HARDLY
    made = (NORM, KEEP, KEEP, NORM, KEEP, KEEP, KEEP, NORM)
    one = within(judge(8, evaluator=evaluator), made)
    simple = (KEEP, NORM, KEEP, NORM, KEEP, KEEP, NORM, KEEP)
    one.settle(made)
    found = regular(one, one.score(made), [simple], 200)
    assert found.found.step_us <= one.score(simple).found.step_us


def test_what_fits_only_in_the_order_of_the_run_is_not_chosen_for_its_ranges() -> None:
    made = (NORM, KEEP, KEEP, NORM, KEEP, NORM)

    def more(rank: int, key: Any) -> int:
        modes = key[-1]
        return 500 * any(mode and mode == other for mode, other in pairwise(modes))

    one = within(judge(6, evaluator=MadeUp(1, fragments=lambda rank, key: 0, more=more)), made)
    found = regular_of(one, made)
    assert one.is_settled(found)
    assert one.score(found).fits
    assert not any(mode and mode == other for mode, other in pairwise(found))


@pytest.mark.parametrize(("dear", "prefetch"), [(False, 50), (True, 100)])
def test_a_prefetch_that_check_warns_of_is_chosen_only_where_a_shorter_one_costs_time(
    dear: bool, prefetch: int
) -> None:
    class _Late(MadeUp):
        def evaluate(self, config: Any, keys: Any, machine: int = 0) -> Evaluation:
            found = super().evaluate(config, keys, machine)
            is_late = any(0 < atom.prefetch < 100 for mode in keys[0][-1] for atom in mode)
            return replace(found, step_us=found.step_us * (1 + 2 * HARDLY * (dear and is_late)))

    made = (frozenset({Atom("swap", "", 100)}),) * 8
    one = within(judge(8, evaluator=_Late(1, fragments=lambda rank, key: 0)), made)
    found = regular_of(one, made)
    assert {atom.prefetch for mode in found for atom in mode} == {prefetch}


def test_no_more_plans_are_asked_for_than_may_be() -> None:
    made = (NORM, KEEP, SWAP, NORM, RECOMPUTED, NORM, SWAP, KEEP)
    one = within(judge(8), made)
    one.settle(made)
    before = one.score(made)
    asked = one.asked
    regular(one, before, [], 5)
    assert one.asked - asked <= 5 + 6  # what is asked for in MindSpore's own order is evaluated anew


def test_what_regular_layers_cost_is_known_from_a_plan() -> None:
    one = judge(8)
    budget = one.limits.needed_bytes(one.pool_bytes((NORM, KEEP, KEEP, NORM, KEEP, NORM, NORM, KEEP)))
    found = plan(one.under(Limits(budget_bytes=budget, workspace_bytes=one.limits.workspace_bytes)), effort=0.2)
    assert found.fastest is not None
    assert found.chosen.found.step_us <= found.fastest.found.step_us * (1 + HARDLY)


@pytest.mark.parametrize("share", [0.5 * HARDLY, 0.0])
def test_one_line_tells_what_regular_layers_cost_where_they_do(share: float) -> None:
    evaluator = _Dear(1, fragments=lambda rank, key: 0)
    evaluator.share = share
    made, blocks = (NORM, KEEP, NORM, KEEP, KEEP, KEEP, KEEP, NORM), (NORM,) * 3 + (KEEP,) * 5
    one = within(judge(8, evaluator=evaluator), made)
    found = Planned(judge=one, verdict=Verdict.PLANNED, chosen=one.score(blocks), simple={}, fastest=one.score(made))
    lines = [str(line) for line in verdict_lines(found, study())]
    told = [line for line in lines if "easy to read" in line]
    assert told == (
        [
            "layers in ranges that are easy to read cost 0.15% of a step: the fastest plan that was found has 3 of "
            "them, this one 1"
        ]
        if share
        else []
    )
    assert any("recompute attention, in layers 0-2" in line for line in lines)


def test_strides_are_told_as_such() -> None:
    made = (NORM, KEEP) * 4
    one = within(judge(8), made)
    found = Planned(judge=one, verdict=Verdict.PLANNED, chosen=one.score(made), simple={})
    assert any("recompute attention, in layers every 2nd of 0-6" in line for line in verdict_lines(found, study()))
