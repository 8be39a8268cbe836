"""Three dialects: what two of them can both say survives the way there and back; what changes is named."""

from __future__ import annotations

from dataclasses import replace

import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swapconf.config.config import (
    Config,
    Dialect,
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
    SwapOff,
)
from swapconf.config.layer_ranges import parse as parse_range
from swapconf.config.layer_ranges import spell
from swapconf.config.rewriting import asked, without_places
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.config.yaml_text import dump, format_config
from swapconf.decide.expand import expand
from swapconf.decide.patterns import matches
from swapconf.decide.rules import check_all
from swapconf.decide.rules.case import Case
from swapconf.migrate.migrate import MigrationOrder, migrate
from swapconf.migrate.pattern_forms import to_elements, to_module_path
from swapconf.migrate.report import Fate, anything_lost
from swapconf.migrate.to_graph import to_graph
from swapconf.migrate.to_pynative import to_pynative
from swapconf.models.network import LayerTemplate
from swapconf.upstream.facts import Versions
from tests.laws.strategies import NOWHERE, configs, patterns, places, templates
from tests.unit.networks import config, network

VERSIONS = Versions(mindspore="2.9.0")
NUM_LAYERS = 4


# --- patterns -------------------------------------------------------------------------------------------------------


elements = st.sampled_from(
    ["attention", "flash_attention", ".*", "w.", "(attention|norm)", "flash_.*", "wq|add", "norm|mul"]
)


@given(st.lists(elements, min_size=1, max_size=3).map(r"\.".join), templates())
def test_a_translated_pattern_matches_the_same_paths(pattern: str, template: LayerTemplate) -> None:
    path = to_module_path(pattern)
    assert path is not None
    by_names = {operator.path for operator in matches(pattern, template)}
    as_a_whole = {operator.path for operator in template.operators if regex.fullmatch(path, operator.path)}
    assert as_a_whole == by_names


@given(
    st.lists(
        st.sampled_from(["attention", ".*", "w.", "a|b", "(attention|norm)", "flash_.*", "x?"]), min_size=1, max_size=3
    ).map(r"\.".join)
)
def test_a_pattern_survives_the_way_there_and_back(pattern: str) -> None:
    path = to_module_path(pattern)
    assert path is not None
    assert to_elements(path) in (pattern, None)
    if "|" not in pattern.replace("(attention|norm)", "") or r"\." not in pattern:
        assert to_elements(path) == pattern


module_paths = st.lists(
    st.sampled_from(["attention", "[^.]*", "w[^.]", "(attention|norm)", "wq|norm", ".*", "add?"]),
    min_size=1,
    max_size=3,
).map(r"\.".join)


@given(module_paths, templates())
def test_a_pattern_translated_back_matches_the_same_paths(path: str, template: LayerTemplate) -> None:
    pattern = to_elements(path)
    assume(pattern is not None)
    assert pattern is not None
    by_names = {operator.path for operator in matches(pattern, template)}
    assert by_names == {operator.path for operator in template.operators if regex.fullmatch(path, operator.path)}


@given(st.sets(st.integers(0, 40)))
def test_ranges_name_the_same_layers(layers: set[int]) -> None:
    assert {layer for text in spell(layers) for layer in parse_range(text)} == layers


# --- legacy and mcore -----------------------------------------------------------------------------------------------


def document(cfg: Config, *, legacy: bool = False) -> str:
    """A YAML of an mcore model around the sections."""
    head = f"use_legacy: {legacy}\nmodel:\n  model_config:\n    model_type: law\n    num_layers: {NUM_LAYERS}\n"
    return head + format_config(replace(cfg, dialect=Dialect.LEGACY))


@settings(max_examples=40)
@given(configs(names=st.text(min_size=1, max_size=12)))
def test_legacy_to_mcore_and_back_is_the_identity(cfg: Config) -> None:
    there = migrate(document(cfg), "law.yaml", MigrationOrder(target=Dialect.MCORE, versions=VERSIONS))
    back = migrate(there.text, "law.yaml", MigrationOrder(target=Dialect.LEGACY, versions=VERSIONS))
    assert not there.lost
    assert asked(back.after) == asked(there.after) == asked(cfg)


@settings(max_examples=15)
@given(configs(names=patterns).filter(lambda cfg: cfg.swap_on))
def test_a_swap_that_a_legacy_model_would_not_read_is_lost(cfg: Config) -> None:
    there = migrate(document(cfg, legacy=True), "law.yaml", MigrationOrder(target=Dialect.MCORE, versions=VERSIONS))
    assert there.lost


# --- graph mode and PyNative ----------------------------------------------------------------------------------------

indices = st.sets(st.integers(0, NUM_LAYERS - 2), min_size=1).map(lambda chosen: LayerIndices(tuple(sorted(chosen))))
# names that are neither one another's nor inside one another, so that no layer asks for both
releases = st.sampled_from(["2.0.0", "2.1.0"])  # with PyNative; the second excludes by path
module_names = st.sampled_from(["attention", r"feed_forward\.w.", "(norm|add)"])


@st.composite
def sayable(draw: st.DrawFn) -> Config:
    """A config that PyNative can say, too: one prefetch, the last layer not swapped, nothing both swapped and
    recomputed, no exclusion, no switch."""
    swap_on = draw(st.booleans())
    names = draw(st.lists(module_names, unique=True, max_size=2))
    whole = draw(st.none() | indices)
    rest = tuple(sorted(set(range(NUM_LAYERS - 1)) - set(whole.indices if whole else ())))
    swaps = ListedSwap()
    if swap_on and (whole or (names and rest)):
        ops = (
            tuple(OpSwap(pattern=name, layers=LayerIndices(rest), prefetch=1, **places(name)) for name in names)
            if rest
            else ()
        )
        layer_swap = (LayerSwap(layers=whole, prefetch=1, **places("layer")),) if whole else ()
        swaps = ListedSwap(layer_swap=layer_swap, op_swap=ops, given_entries=len(layer_swap) + len(ops))
        return config(
            NUM_LAYERS,
            swap=swaps,
            recompute=RecomputeConfig(
                full=draw(
                    st.sampled_from([None, FullRecompute(layers=LayerIndices((NUM_LAYERS - 1,)), origin=NOWHERE)])
                )
            ),
        )
    select = tuple(SelectRecompute(pattern=name, layers=EveryLayer(), origin=NOWHERE) for name in names)
    return config(NUM_LAYERS, swap=SwapOff(), recompute=RecomputeConfig(select=select, select_comm=select))


@given(sayable())
def test_what_both_can_say_survives_the_way_to_pynative_and_back(cfg: Config) -> None:
    there, items = to_pynative(cfg, prefetch_layers=1)
    assert not anything_lost(items), list(map(str, items))
    back, more = to_graph(there, Dialect.LEGACY, prefetch_operators=1)
    assert not anything_lost(more), list(map(str, more))
    assert without_places(back.swap) == without_places(cfg.swap)
    assert without_places(back.recompute) == without_places(cfg.recompute)


@settings(max_examples=60)
@given(configs(), st.integers(1, 3), releases)
def test_pynative_text_is_read_as_it_was_meant(cfg: Config, prefetch: int, mindformers: str) -> None:
    made, _ = to_pynative(cfg, prefetch, mindformers)
    text = dump({"model": {"num_hidden_layers": NUM_LAYERS}}) + format_config(made)
    again, findings = from_document(parse(text, "law.yaml"), mindformers=mindformers)
    assert not findings, list(map(str, findings))
    assert again.dialect is Dialect.PYNATIVE
    assert without_places(again.swap) == without_places(made.swap)
    assert without_places(again.recompute) == without_places(made.recompute)


@given(templates(), configs())
def test_no_decision_changes_silently(template: LayerTemplate, cfg: Config) -> None:
    """Either something is reported as lost, or every operator is kept, swapped or recomputed as before.

    Operators that the model itself keeps from being recomputed are told by ``migrate``, which knows the network."""
    assume(all(primitive.preset_recompute is not False for primitive in template.primitives))
    # what is always lost is left out, so that most examples reach the comparison
    cfg = replace(cfg, recompute=RecomputeConfig(full=cfg.recompute.full, select=cfg.recompute.select))
    if isinstance(cfg.swap, ListedSwap):
        cfg = replace(
            cfg,
            swap=replace(
                cfg.swap,
                layer_swap=tuple(replace(entry, prefetch=1) for entry in cfg.swap.layer_swap),
                op_swap=tuple(replace(entry, prefetch=1) for entry in cfg.swap.op_swap),
            ),
        )
    made, items = to_pynative(cfg)
    if anything_lost(items):
        return
    back, _ = to_graph(made, Dialect.LEGACY)
    net = network(NUM_LAYERS, template)
    before, after = (expand(which, net, VERSIONS).actions() for which in (cfg, back))
    assert {site: type(action) for site, action in after.items()} == {
        site: type(action) for site, action in before.items()
    }


@given(configs(), st.integers(1, 3), st.integers(0, 1))
def test_what_is_written_for_pynative_breaks_none_of_its_rules(cfg: Config, prefetch: int, num_mtp_layers: int) -> None:
    cfg = replace(cfg, model=replace(cfg.model, num_mtp_layers=num_mtp_layers))
    made, _ = to_pynative(cfg, prefetch)
    found = check_all(Case(config=made, versions=VERSIONS))
    assert [finding.rule for finding in found] in ([], ["pynative-not-predicted"]), list(map(str, found))


@given(configs(), st.integers(1, 3))
def test_a_prefetch_never_changes_its_unit_silently(cfg: Config, prefetch: int) -> None:
    made, items = to_pynative(cfg, prefetch)
    if not isinstance(made.swap, SwapOff):
        told = [item.text for item in items if item.fate in (Fate.CHANGED, Fate.LOST)]
        assert any("(operators)" in text and "(layers)" in text for text in told)
