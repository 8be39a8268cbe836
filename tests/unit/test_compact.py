"""A strategy as the lists that a person would write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swapconf.config.config import (
    Config,
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSwap,
    ListedSwap,
    OpSwap,
    Pipeline,
    RecomputeConfig,
    SelectRecompute,
    SwapOff,
)
from swapconf.config.yaml_text import recompute_sections, swap_section
from swapconf.decide.compact import compact
from swapconf.decide.expand import expand
from swapconf.decide.patterns import escaped
from swapconf.decide.rules import check_all
from swapconf.decide.rules.case import Case
from swapconf.models.network import LayerTemplate
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin, Severity
from tests.unit.networks import ROUTED, TOY, cell, config, network, primitive

VERSIONS = Versions(mindspore="2.9.0")
NOWHERE = Origin(file="test.yaml")
PLACES: dict[str, Any] = dict.fromkeys(("origin", "layers_origin", "prefetch_origin"), NOWHERE)


def chosen(layers: list[int] | bool) -> EveryLayer | LayerIndices:
    return LayerIndices(tuple(layers)) if isinstance(layers, list) else EveryLayer()


def swapped(*entries: tuple[str, int, list[int] | bool]) -> ListedSwap:
    """(path, prefetch, layers) of each entry, "" for the layer."""
    return ListedSwap(
        layer_swap=tuple(LayerSwap(layers=chosen(ls), prefetch=n, **PLACES) for path, n, ls in entries if not path),
        op_swap=tuple(
            OpSwap(pattern=escaped(path), layers=chosen(ls), prefetch=n, **PLACES) for path, n, ls in entries if path
        ),
        given_entries=len(entries),
    )


def recomputed(full: list[int] | bool | None = None, **select: list[int] | bool) -> RecomputeConfig:
    return RecomputeConfig(
        full=FullRecompute(layers=chosen(full), origin=NOWHERE) if full is not None else None,
        select=tuple(
            SelectRecompute(pattern=escaped(path), layers=chosen(layers), origin=NOWHERE)
            for path, layers in select.items()
        ),
    )


def again(cfg: Config, template: LayerTemplate = TOY) -> Config:
    """What is decided, as lists, without any text of its own in between."""
    count = cfg.model.num_layers or 0
    net = network(count, template, cfg.pipeline)
    made = compact(expand(cfg, net, VERSIONS), config(count, pipeline=cfg.pipeline), VERSIONS)
    found = check_all(Case(config=made, versions=VERSIONS, network=net, strategy=expand(made, net, VERSIONS)))
    assert [finding.rule for finding in found if finding.severity is not Severity.NOTE] in ([], ["R3-list-meaning"])
    return made


def test_what_is_inside_overrides_what_is_around_it() -> None:
    cfg = config(4, swap=swapped(("", 50, True), ("attention", 10, True)))
    assert swap_section(again(cfg))["swap_config"] == {
        "swap": True,
        "layer_swap": [{"backward_prefetch": 50, "layers": True}],
        "op_swap": [{"op_name": "attention", "backward_prefetch": 10, "layers": True}],
    }


def test_layers_share_an_entry_where_either_of_two_would_do() -> None:
    """One cell with one primitive below it: layers 0 and 1 alike, though layer 1 alone could name either."""
    template = LayerTemplate(
        name="x", cell="X", operators=(cell("a"), primitive("a.one"), primitive("a.two"), primitive("three"))
    )
    cfg = config(2, swap=swapped(("a.one", 5, [0]), ("three", 5, [0]), ("a.one", 5, [1])))
    made = again(cfg, template).swap
    assert isinstance(made, ListedSwap)
    assert [entry.pattern for entry in made.op_swap] == ["three", r"a\.one"]


def test_the_rest_of_a_layer_is_swapped_by_the_layer() -> None:
    """Recompute wins over a swap around it, so that the rest needs no names; `again` finds no warning in it."""
    cfg = config(4, swap=swapped(("", 20, [0, 1])), recompute=recomputed(feed_forward=[0, 1]))
    made = again(cfg, ROUTED)
    assert swap_section(made)["swap_config"] == {
        "swap": True,
        "layer_swap": [{"backward_prefetch": 20, "layers": [0, 1]}],
    }
    assert recompute_sections(made)["recompute_config"]["select_recompute"] == {"feed_forward": [0, 1]}


def test_names_with_one_prefetch_in_the_same_layers_stand_in_one_entry() -> None:
    cfg = config(4, swap=swapped(("attention", 20, [0, 1]), ("feed_forward", 20, [0, 1]), ("norm", 5, [0, 1])))
    assert swap_section(again(cfg))["swap_config"]["op_swap"] == [
        {"op_name": "norm", "backward_prefetch": 5, "layers": [0, 1]},
        {"op_name": ["attention", "feed_forward"], "backward_prefetch": 20, "layers": [0, 1]},
    ]


def test_recompute_of_the_first_layers_of_each_stage_is_counted_with_swap_off() -> None:
    pipeline = Pipeline(num_stages=2)
    cfg = config(8, swap=ListedSwap(), recompute=recomputed([0, 1, 4], feed_forward=[0, 1, 2, 3]), pipeline=pipeline)
    made = again(cfg)
    assert isinstance(made.swap, SwapOff)
    section = recompute_sections(made)["recompute_config"]
    assert section["recompute"] == [2, 1]
    assert section["select_recompute"] == {"feed_forward": [4, 0]}  # of layers 0 and 1 it says nothing


@pytest.mark.parametrize("stages", [1, 2])
def test_recompute_of_other_layers_is_listed_beside_an_empty_list_of_swaps(stages: int) -> None:
    cfg = config(8, swap=ListedSwap(), recompute=recomputed([1, 2, 3]), pipeline=Pipeline(num_stages=stages))
    made = again(cfg)
    assert swap_section(made)["swap_config"] == {"swap": True, "layer_swap": []}
    assert recompute_sections(made)["recompute_config"]["recompute"] == [1, 2, 3]


def test_counts_are_given_for_each_interleave_where_one_row_would_deal_them_out_otherwise() -> None:
    pipeline = Pipeline(num_stages=2, num_interleaves=2)
    dealt = again(config(8, swap=ListedSwap(), recompute=recomputed([0, 4]), pipeline=pipeline))
    nested = again(config(8, swap=ListedSwap(), recompute=recomputed([0, 1]), pipeline=pipeline))
    assert recompute_sections(dealt)["recompute_config"]["recompute"] == [2, 0]
    assert recompute_sections(nested)["recompute_config"]["recompute"] == [[2, 0], [0, 0]]


def test_everything_recomputed_is_true() -> None:
    made = again(config(4, swap=ListedSwap(), recompute=recomputed([0, 1, 2, 3])))
    assert isinstance(made.swap, SwapOff)
    assert recompute_sections(made)["recompute_config"]["recompute"] is True


def test_with_swap_on_a_pattern_lists_all_layers_as_plain_mindformers_takes_no_true_there() -> None:
    cfg = config(3, swap=swapped(("attention", 5, True)), recompute=recomputed(feed_forward=True))
    assert recompute_sections(again(cfg))["recompute_config"]["select_recompute"] == {"feed_forward": [0, 1, 2]}


def test_an_operator_inside_a_recomputed_cell_may_have_a_recompute_of_its_own() -> None:
    cfg = config(4, swap=ListedSwap())
    inner = SelectRecompute(pattern=escaped("feed_forward.mul"), layers=EveryLayer(), origin=NOWHERE)
    outer = SelectRecompute(pattern="feed_forward", layers=LayerIndices((1,)), origin=NOWHERE)
    made = again(replace(cfg, recompute=RecomputeConfig(select=(inner, outer))))
    assert [entry.pattern for entry in made.recompute.select] == [r"feed_forward\.mul", "feed_forward"]


def test_communication_that_runs_again_keeps_its_pattern() -> None:
    comm = (SelectRecompute(pattern=r".*\.norm", layers=LayerIndices((1,)), origin=NOWHERE),)
    cfg = config(4, swap=swapped(("attention", 5, True)), recompute=RecomputeConfig(select_comm=comm))
    net = network(4)
    strategy = expand(cfg, net, VERSIONS)
    assert [entry.pattern for entry in compact(strategy, cfg, VERSIONS).recompute.select_comm] == [r".*\.norm"]
    plain = compact(strategy, config(4), VERSIONS)
    assert [entry.pattern for entry in plain.recompute.select_comm] == [r"norm\.norm"]
