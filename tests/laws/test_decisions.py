"""Every site has exactly one decision, and what is applied and logged is what is decided."""

from __future__ import annotations

from hypothesis import given

from swapconf.config.config import Config
from swapconf.decide.edits import Offload, edits
from swapconf.decide.expand import expand
from swapconf.decide.log_lines import lines
from swapconf.decide.patterns import primitives_below
from swapconf.decide.strategy import Recompute, Swap
from swapconf.models.network import Network
from swapconf.upstream.facts import Versions
from tests.laws.strategies import configs, networks

VERSIONS = Versions(mindspore="2.9.0")


@given(networks(), configs())
def test_every_site_has_exactly_one_decision(network: Network, cfg: Config) -> None:
    strategy = expand(cfg, network, VERSIONS)
    sites = [(layer.name, primitive.path) for layer in network.layers for primitive in layer.template.primitives]
    assert list(strategy.actions()) == sites
    for entry in strategy.layers:
        for decision in entry.plan.decisions.values():
            assert decision.reason.text
            if isinstance(decision.action, Swap):
                assert decision.requested is not None
                assert decision.requested.prefetch == decision.action.prefetch


@given(networks(), configs())
def test_swap_off_swaps_nothing(network: Network, cfg: Config) -> None:
    if not cfg.swap_on:
        assert not [a for a in expand(cfg, network, VERSIONS).actions().values() if isinstance(a, Swap)]


@given(networks(), configs())
def test_edits_flag_exactly_the_swapped_sites(network: Network, cfg: Config) -> None:
    strategy = expand(cfg, network, VERSIONS)
    for entry in strategy.layers:
        template = entry.layer.template
        flagged: dict[str, int] = {}
        for edit in edits(entry.plan, template, {}):
            if isinstance(edit, Offload):
                below = [primitive.path for primitive in primitives_below(edit.path, template)]
                assert not set(below) & set(flagged)  # no site is flagged twice
                flagged.update(dict.fromkeys(below, edit.prefetch))
        assert flagged == {
            path: action.prefetch for path, action in entry.plan.actions().items() if isinstance(action, Swap)
        }


@given(networks(), configs())
def test_a_set_line_means_effect_and_a_skip_line_none(network: Network, cfg: Config) -> None:
    strategy = expand(cfg, network, VERSIONS)
    for entry in strategy.layers:
        logged = lines(entry, strategy.swap_on)
        swapped = any(isinstance(action, Swap) for action in entry.plan.actions().values())
        assert any("swap at layer" in line and line.startswith("Set") for line in logged) == swapped
        for outcome in entry.plan.outcomes:
            if outcome.request.is_swap:
                assert (outcome.void is None) == bool(outcome.sites)


@given(networks(), configs())
def test_recomputed_and_swapped_never_meet(network: Network, cfg: Config) -> None:
    """A site below a recomputed operator is never swapped, unless the model or an exclusion says otherwise."""
    strategy = expand(cfg, network, VERSIONS)
    for entry in strategy.layers:
        for outcome in entry.plan.outcomes:
            if outcome.request.kind in ("recompute", "select_recompute") and not cfg.recompute.select_exclude:
                for primitive in primitives_below(outcome.request.operator, entry.layer.template):
                    if primitive.preset_recompute is not False:
                        assert isinstance(entry.plan.decisions[primitive.path].action, Recompute)
