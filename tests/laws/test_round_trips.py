"""Text and config, config and strategy: there and back again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swapconf.config.config import Config, LayerCounts, Pipeline
from swapconf.config.rewriting import asked
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.config.yaml_text import format_config
from swapconf.decide.compact import CannotCompact, compact
from swapconf.decide.cover import needs_no_name
from swapconf.decide.expand import decide, expand
from swapconf.decide.patterns import escaped
from swapconf.decide.stages import deal
from swapconf.decide.strategy import LayerStrategy, Recompute, Request, Strategy, Swap
from swapconf.models.network import Network
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin
from tests.laws.strategies import configs, networks
from tests.unit.networks import config

MEASURED = Versions(mindspore="2.9.0")
DOCUMENTED = Versions(mindspore="2.6.0", mindformers="1.5.0")


@given(configs(names=st.text(min_size=1, max_size=12)))
def test_parse_undoes_format(cfg: Config) -> None:
    again, findings = from_document(parse(format_config(cfg), "law.yaml"))
    assert [finding.rule for finding in findings if finding.rule != "yaml-trap"] == []  # a name such as 0E0
    assert asked(again) == asked(cfg)


@given(networks(), configs(), st.sampled_from([MEASURED, DOCUMENTED]))
def test_expand_undoes_compact(network: Network, cfg: Config, versions: Versions) -> None:
    strategy = expand(cfg, network, versions)
    try:
        compacted = compact(strategy, config(network.num_layers), versions)
    except CannotCompact:
        # only what a config cannot say: an exclusion, or (as documented) a swap that a recomputed reader voids
        actions = strategy.actions().values()
        assert any(isinstance(action, Recompute) for action in actions) or has_exclusion(cfg)
        return
    assert_same(expand(compacted, network, versions), strategy)


def assert_same(again: Strategy, strategy: Strategy) -> None:
    """The same action at every site, but where a swap surely has nothing to move."""
    for one, other in zip(strategy.layers, again.layers, strict=True):
        wanted, found = one.plan.actions(), other.plan.actions()
        for path, action in wanted.items():
            idle = isinstance(action, Swap) and needs_no_name(one.layer.template.by_path[path], wanted)
            assert found[path] == action or (idle and not isinstance(found[path], Recompute))
        assert other.plan.comm_recompute == one.plan.comm_recompute


def has_exclusion(cfg: Config) -> bool:
    return bool(cfg.recompute.select_exclude)


@given(networks(), st.data())
def test_any_choice_of_swapped_primitives_can_be_said(network: Network, data: st.DataObject) -> None:
    """Not only strategies that came from a config: an arbitrary prefetch at every site."""
    nowhere = Origin(file="law.yaml")
    layers = []
    for layer in network.layers:
        chosen = {p.path: data.draw(st.integers(0, 3)) for p in layer.template.primitives}
        asked = tuple(
            Request("op_swap", path, nowhere, prefetch, escaped(path)) for path, prefetch in chosen.items() if prefetch
        )
        layers.append(LayerStrategy(layer, decide(layer.template, asked, False, "")))
    strategy = Strategy(network=network, layers=tuple(layers), swap_on=True)
    again = expand(compact(strategy, config(network.num_layers), MEASURED), network, MEASURED)
    assert_same(again, strategy)


@given(networks(), configs())
def test_compacted_config_survives_its_own_text(network: Network, cfg: Config) -> None:
    strategy = expand(cfg, network, MEASURED)
    try:
        compacted = compact(strategy, config(network.num_layers), MEASURED)
    except CannotCompact:
        return
    again, findings = from_document(parse(format_config(compacted), "law.yaml"))
    assert not findings
    assert asked(again) == asked(compacted)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.data())
def test_counts_say_what_counts_select(stages: int, interleaves: int, share: int, v: bool, data: st.DataObject) -> None:
    pipeline = Pipeline(num_stages=stages, num_interleaves=interleaves, zero_bubble_v=v and interleaves == 2)
    dealt = deal(stages * interleaves * share, pipeline)
    row = st.tuples(*[st.none() | st.integers(0, 9)] * stages)
    nested = data.draw(st.booleans())
    rows = data.draw(st.tuples(*[row] * (interleaves if nested else 1)))
    layers = dealt.selected(LayerCounts(rows, nested))
    again = dealt.counts(layers)
    assert again is not None
    assert dealt.selected(again) == layers


@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_counts_name_no_layer_that_they_may_not(stages: int, share: int, data: st.DataObject) -> None:
    dealt = deal(stages * share, Pipeline(num_stages=stages))
    some = st.frozensets(st.integers(0, stages * share - 1))
    layers, free = data.draw(some), data.draw(some)
    counts = dealt.counts(layers, free)
    prefixes = (range(stage * share, stage * share + n) for stage in range(stages) for n in range(share + 1))
    whole = frozenset[int]().union(*(prefix for prefix in prefixes if layers | free >= set(prefix)))
    assert (counts is not None) == (layers <= whole)
    if counts is not None:
        assert layers <= dealt.selected(counts) <= layers | free
