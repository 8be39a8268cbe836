"""A run that recomputes what is decided is never blamed; one that recomputes other layers always is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from hypothesis import assume, given
from hypothesis import strategies as st

from swapconf.config.config import Config, FullRecompute, LayerIndices, ListedSwap, RecomputeConfig
from swapconf.decide.expand import expand
from swapconf.decide.strategy import Recompute as Recomputed
from swapconf.decide.strategy import Strategy
from swapconf.dryrun.effect.compare_recompute import MISSING, UNDECIDED, compare
from swapconf.dryrun.effect.effect import Effect, Held, Launch
from swapconf.models.network import LayerTemplate, Network
from swapconf.upstream.facts import Versions
from swapconf.upstream.scopes import Place
from tests.laws.strategies import NOWHERE, configs, networks, templates
from tests.unit.networks import config, network

VERSIONS = Versions(mindspore="2.9.0")
COUNT = 4
layer_sets = st.sets(st.integers(0, COUNT - 1))


def run_of(strategy: Strategy, layers: Collection[str]) -> Effect:
    """What a run shows that does what is decided: a decided site is recomputed, of any other one the tensor is held."""
    again, held = [], set()
    for entry in strategy.layers:
        for path, decision in entry.plan.decisions.items():
            kind = entry.layer.template.by_path[path].type
            place = Place(entry.layer.name, path.rpartition(".")[0])
            if isinstance(decision.action, Recomputed):
                again.append(Launch(place, kind))
            else:
                held.add(Held(place, kind, frozenset({Launch(place, "Mul")})))
    return Effect(layers=frozenset(layers), moves=(), host_peak_bytes=0, recomputed=tuple(again), held=frozenset(held))


def whole(layers: Collection[int]) -> Config:
    """Recompute of whole layers, by index."""
    full = FullRecompute(layers=LayerIndices(tuple(sorted(layers))), origin=NOWHERE)
    return config(COUNT, swap=ListedSwap(given_entries=0), recompute=RecomputeConfig(full=full))


def has_a_clear_kernel(template: LayerTemplate) -> bool:
    """A kind of kernel in a cell of whose sites the model itself neither sets nor forbids any."""
    presets: dict[tuple[str, str], set[bool | None]] = defaultdict(set)
    for operator in template.primitives:
        presets[operator.path.rpartition(".")[0], operator.type].add(operator.preset_recompute)
    return {None} in presets.values()


@given(networks(), configs())
def test_a_run_that_does_what_is_decided_has_no_finding(net: Network, cfg: Config) -> None:
    strategy = expand(cfg, net, VERSIONS)
    assert compare(strategy, run_of(strategy, [layer.name for layer in net.layers]), NOWHERE) == ()


@given(templates(), layer_sets, layer_sets)
def test_every_layer_that_differs_is_told_and_no_other(
    template: LayerTemplate, decided: set[int], ran: set[int]
) -> None:
    assume(has_a_clear_kernel(template))
    net = network(COUNT, template)
    strategy, other = expand(whole(decided), net, VERSIONS), expand(whole(ran), net, VERSIONS)
    for index in range(COUNT):
        rules = {finding.rule for finding in compare(strategy, run_of(other, [str(index)]), NOWHERE)}
        expected = MISSING if index in decided - ran else UNDECIDED if index in ran - decided else None
        assert rules == ({expected} if expected else set())
