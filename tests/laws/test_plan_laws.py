"""What holds of every plan, on a real trace and on costs that are made up."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.config.rewriting import asked
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.config.yaml_text import format_config
from swapconf.decide.compact import compact
from swapconf.decide.expand import expand
from swapconf.models.network import Network
from swapconf.plan.judge import NOISE, Judge
from swapconf.plan.limits import Limits
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, Plan, config_of, entries, fitted, num_ranges, uniform
from swapconf.plan.planned import Planned, Verdict, needed_bytes, plan
from swapconf.plan.regular import HARDLY, words
from swapconf.upstream.facts import Versions
from swapconf.words.findings import has_errors
from swapconf.words.units import runs, spans
from tests.helpers import RECORDED_WITH
from tests.laws.strategies import networks
from tests.unit.networks import config
from tests.unit.planning import made_up_judge, real_judge, study

FEW = settings(max_examples=5, deadline=None)
judges = st.one_of(
    st.builds(made_up_judge, st.integers(1, 6), max_entries=st.integers(1, 8)),
    st.builds(made_up_judge, st.sampled_from([4, 8]), st.sampled_from([2, 4]), max_entries=st.integers(1, 8)),
    st.just("real"),
)
shares = st.floats(-0.3, 1.1)


def under(judge: Judge | str, share: float, host_budget_bytes: int | None = None) -> Judge:
    """``share``: of the way from what full recompute needs to what no strategy needs. A judge that is new each time."""
    one = real_judge() if isinstance(judge, str) else judge
    low, high = (needed_bytes(one, uniform(mode, one.network)) for mode in (RECOMPUTED, KEEP))
    return one.under(
        Limits(
            budget_bytes=int(low + share * (high - low)),
            workspace_bytes=one.limits.workspace_bytes,
            host_budget_bytes=host_budget_bytes,
        )
    )


def planned(judge: Judge | str, share: float, host_budget_bytes: int | None = None) -> Planned:
    return plan(under(judge, share, host_budget_bytes), effort=0.1)


@given(judges, shares, st.none() | st.integers(0, 4000))
@FEW
def test_what_is_chosen_fits_its_limits_or_nothing_does(judge: Judge | str, share: float, host: int | None) -> None:
    found = planned(judge, share, host)
    limits = found.judge.limits
    pools = found.judge.pool_bytes(found.chosen.plan)
    fits = all(size <= most for size, most in zip(pools, limits.pool_bytes, strict=True)) and (
        host is None or found.judge.host_bytes(found.chosen.found) <= host
    )
    assert fits is found.chosen.fits is (found.verdict is not Verdict.IMPOSSIBLE)
    assert len(found.chosen.entries) <= found.judge.max_entries
    if not fits:
        assert not any(item.fits for item in found.simple.values() if found.judge.allows(item.plan))


@given(judges, st.floats(-0.6, -0.1))
@FEW
def test_where_nothing_fits_no_simple_strategy_needs_less_than_the_lowest(judge: Judge | str, share: float) -> None:
    found = planned(judge, share)
    if found.verdict is Verdict.IMPOSSIBLE:
        alive = [item for item in found.simple.values() if not item.found.crashes]
        allowed = [item.plan for item in alive if found.judge.allows(item.plan)]
        assert found.needed_bytes <= min(needed_bytes(found.judge, made) for made in allowed) * (1 + NOISE)


@given(judges, shares)
@FEW
def test_what_a_plan_needs_is_the_most_of_all_ranks(judge: Judge | str, share: float) -> None:
    found = planned(judge, share)
    pools = found.judge.pool_bytes(found.chosen.plan)
    workspace = found.judge.limits.workspace_bytes
    assert found.needed_bytes == max(pool + more for pool, more in zip(pools, workspace, strict=True))
    assert (found.needed_bytes <= found.judge.limits.budget_bytes) is found.chosen.fits


@given(judges, shares)
@FEW
def test_no_simple_strategy_that_fits_is_faster(judge: Judge | str, share: float) -> None:
    found = planned(judge, share)
    allowed = [item for item in found.simple.values() if item.fits and found.judge.allows(item.plan)]
    assert all(found.chosen.found.step_us <= (1 + NOISE) * item.found.step_us for item in allowed)


@given(judges, st.lists(shares, min_size=2, max_size=3))
@settings(max_examples=4, deadline=None)
def test_a_larger_budget_is_never_slower_for_one_judge_that_is_asked_upwards(
    judge: Judge | str, budgets: list[float]
) -> None:
    one = under(judge, 1.0)
    steps = []
    for share in sorted(budgets):
        found = plan(under(one, share), effort=0.1)
        if found.chosen.fits:
            steps.append(found.chosen.found.step_us)
    assert all(more <= (1 + NOISE + HARDLY) * less for less, more in itertools.pairwise(steps))


@pytest.mark.parametrize("shares", [(-0.1, 0.05, 0.2, 0.4, 0.6, 0.9)])
def test_a_larger_budget_is_never_slower_on_a_real_trace_whoever_is_asked(shares: tuple[float, ...]) -> None:
    steps = [
        found.chosen.found.step_us for share in shares if (found := plan(under("real", share), effort=0.15)).chosen.fits
    ]
    assert len(steps) > 4
    assert all(more <= (1 + NOISE + HARDLY) * less for less, more in itertools.pairwise(steps))


@given(judges, shares)
@FEW
def test_regular_layers_never_break_the_budget_hardly_cost_and_are_said_in_no_more_ranges(
    judge: Judge | str, share: float
) -> None:
    found = planned(judge, share)
    if found.fastest is None or not found.fastest.fits:
        return
    fastest, chosen, base = found.fastest, found.chosen, found.judge.base
    assert chosen.fits
    assert chosen.found.step_us <= (1 + HARDLY) * fastest.found.step_us
    assert num_ranges(chosen.plan, base) <= num_ranges(fastest.plan, base)
    assert words(found.judge, chosen.plan) <= words(found.judge, fastest.plan)


@given(st.sets(st.integers(0, 60)))
def test_spans_are_the_numbers_each_once_in_no_more_pieces_than_there_are_runs(numbers: set[int]) -> None:
    found = spans(numbers)
    assert [number for first, last, step in found for number in range(first, last + 1, step)] == sorted(numbers)
    assert all(step == 1 or last - first >= 2 * step for first, last, step in found)
    assert len(found) <= len(runs(numbers))


@given(judges, shares)
@FEW
def test_a_plan_has_only_what_its_layers_have(judge: Judge | str, share: float) -> None:
    found = planned(judge, share)
    layers = found.judge.layers
    assert len(found.chosen.plan) == len(layers)
    assert all(fitted(mode, layer.template) == mode for mode, layer in zip(found.chosen.plan, layers, strict=True))
    assert entries(found.chosen.plan) == tuple(sorted(frozenset().union(*found.chosen.plan)))


@given(judges, shares)
@FEW
def test_the_sum_of_what_is_shown_is_the_plan(judge: Judge | str, share: float) -> None:
    """Each entry with its layers; all of them together are the plan, and what one costs is told from the whole."""
    found = planned(judge, share)
    again: list[Mode] = [KEEP] * len(found.chosen.plan)
    for worth in found.worth:
        without = list(found.chosen.plan)
        for index in worth.layers:
            again[index] |= {worth.atom}
            without[index] -= {worth.atom}
        less = found.judge.evaluation(tuple(without))
        assert worth.cost_us == found.chosen.found.step_us - less.step_us
        assert worth.moved_bytes == found.chosen.found.moved_bytes - less.moved_bytes
    assert tuple(again) == found.chosen.plan


# --- a plan is a strategy, and its YAML says the same ----------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> tuple[Network, Plan]:
    """Any atoms on any layers, as far as the layers have them; a prefetch of an operator is one wherever it is swapped,
    or not: both can be said."""
    network = draw(networks())
    paths = sorted({operator.path for template in network.templates for operator in template.operators})
    atoms = st.one_of(
        st.builds(Atom, st.just("recompute"), st.sampled_from(["", *paths])),
        st.builds(Atom, st.just("swap"), st.sampled_from(["", *paths]), st.integers(1, 30)),
    )
    modes = draw(st.lists(st.frozensets(atoms, max_size=3), min_size=1, max_size=3))
    return network, tuple(fitted(draw(st.sampled_from(modes)), layer.template) for layer in network.layers)


@given(plans(), st.sampled_from([RECORDED_WITH, Versions(mindspore="2.6.0", mindformers="1.5.0")]))
def test_any_plan_survives_its_yaml(made: tuple[Network, Plan], versions: Versions) -> None:
    network, wanted = made
    base = config(len(wanted))
    written = config_of(wanted, base)
    again, findings = from_document(parse(format_config(written), "plan.yaml"))
    assert not has_errors(findings)
    assert asked(again) == asked(written)
    assert expand(again, network, versions).actions() == expand(written, network, versions).actions()


@pytest.mark.parametrize("share", [-0.2, 0.0, 0.3, 0.6, 0.9])
def test_a_plan_for_a_real_trace_survives_its_yaml(share: float) -> None:
    found = planned("real", share)
    written = found.judge.config(found.chosen.plan)
    again, findings = from_document(parse(format_config(written), "plan.yaml"))
    network = study().network
    assert network is not None
    assert not has_errors(findings)
    assert expand(again, network, RECORDED_WITH).actions() == expand(written, network, RECORDED_WITH).actions()


@given(plans())
def test_what_is_judged_has_swap_on_where_what_is_written_has(made: tuple[Network, Plan]) -> None:
    """With swap on MindSpore keeps lazy inline, so that both predict the same."""
    network, wanted = made
    judged = config_of(wanted, config(len(wanted)))
    written = compact(expand(judged, network, RECORDED_WITH), judged, RECORDED_WITH)
    assert judged.swap_on or not written.swap_on
    if not judged.swap_on:
        assert expand(judged, network, RECORDED_WITH).actions() == expand(written, network, RECORDED_WITH).actions()
