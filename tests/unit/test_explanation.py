from __future__ import annotations

import json
from dataclasses import replace

from swapconf.config.config import Config, ListedSwap, RecomputeConfig
from swapconf.decide.expand import expand
from swapconf.models import catalog
from swapconf.models.network import Layer, LayerTemplate, Network
from swapconf.report.explanation import as_json, rows
from swapconf.upstream.facts import Versions
from tests.unit.networks import config
from tests.unit.test_expand import full, op, ops, select, strategy, whole


def table(cfg: Config, layer: int | None = None) -> list[tuple[str, ...]]:
    return [(row.layers, row.operator, row.effect, row.prefetch, row.sites) for row in rows(strategy(cfg), layer)]


def reasons(cfg: Config) -> list[str]:
    return [row.reason for row in rows(strategy(cfg))]


def test_equal_layers_share_a_row() -> None:
    assert table(ops(op("attention", 3, 0, 1, 3))) == [("0-1, 3", "attention", "swap", "3", "2 of 2")]


def test_one_layer() -> None:
    assert table(ops(op("attention", 3)), layer=2) == [("2", "attention", "swap", "3", "2 of 2")]
    assert table(ops(op("attention", 3, 0)), layer=2) == []


def test_sites_that_differ_get_a_row_of_their_own_with_the_rule() -> None:
    cfg = ops(op("attention", 3, 0), recompute=RecomputeConfig(select=(select(r"attention\.wq", 0),)))
    assert table(cfg) == [
        ("0", "attention.wq", "recompute", "", "1 of 1"),
        ("0", "attention", "swap", "3", "1 of 2"),
        ("0", "  wq.matmul", "recompute", "", "1"),
    ]
    assert reasons(cfg)[-1] == "attention.wq is recomputed, and recompute wins over swap [R1-recompute-wins]"


def test_a_later_entry_is_named_where_it_overrides() -> None:
    swap = ListedSwap(layer_swap=(whole(1, 0),), op_swap=(op("attention", 9, 0),), given_entries=2)
    assert "attention overrides it [op_swap]" in reasons(config(swap=swap))


def test_void_requests_say_why() -> None:
    cfg = ops(op("attention", 3, 0), recompute=RecomputeConfig(full=full(0)))
    assert ("0", "attention", "recompute", "", "0 of 2") in table(cfg)


def test_r2_is_told_for_its_sites_only() -> None:
    cfg = ops(op("norm", 3, 1), recompute=RecomputeConfig(select=(select("attention", 1),)))
    (told,) = [row for row in rows(strategy(cfg)) if "[R2-" in row.reason]
    assert told.operator.strip() == "norm"
    assert "MindSpore 2.9.0" in told.reason


def test_json_has_every_site_and_the_lines() -> None:
    result = strategy(ops(op("attention", 3, 0)))
    lines = {entry.layer.name: ["a line"] for entry in result.layers}
    data = json.loads(as_json(result, lines))
    assert [len(layer["sites"]) for layer in data["layers"]] == [7, 7, 7, 7]
    assert data["layers"][0]["log_lines"] == ["a line"]
    swapped = [site for site in data["layers"][0]["sites"] if site["effective"] == "swap"]
    assert {site["prefetch"] for site in swapped} == {3}
    assert {site["rule"] for site in swapped} == {"op_swap"}


def test_what_is_asked_of_a_model_that_nobody_knows_is_told_and_not_counted() -> None:
    unknown = Network(
        family=None,
        layers=tuple(
            Layer(index=index, name=str(index), template=LayerTemplate(name="unknown", cell="?", operators=()))
            for index in range(4)
        ),
    )
    asked = ops(op("attention", 4, 2, 3), recompute=RecomputeConfig(full=full(1), select=(select("mlp", 3),)))
    assert isinstance(asked.swap, ListedSwap)
    swap = ListedSwap(layer_swap=(whole(2, 0, 1),), op_swap=asked.swap.op_swap, given_entries=2)
    table = [
        (row.layers, row.operator, row.effect, row.sites, row.void)
        for row in rows(expand(replace(asked, swap=swap), unknown, Versions()))
    ]
    assert table == [
        ("0", "(layer)", "swap", "not known", False),
        ("1", "(layer)", "recompute", "not known", False),
        ("1", "(layer)", "recompute", "not known", True),
        ("2", "attention", "swap", "not known", True),
        ("3", "mlp", "recompute", "not known", True),
        ("3", "attention", "swap", "not known", True),
    ]


def test_what_depends_on_the_layout_is_left_open() -> None:
    layers = tuple(
        Layer(index=index, name=str(index), template=template)
        for index, template in enumerate(catalog.load("llama").templates_for({}, 2))
    )
    asked = ops(op(r"attention\.reshape", 5), op(r"attention\.wq", 5))
    asked = replace(asked, recompute=RecomputeConfig(select_comm=(select(r"ffn_norm\.norm"),)))
    told = {row.operator: row.reason for row in rows(strategy(asked, Network(family="llama", layers=layers)))}
    assert told["attention.reshape"] == "as asked, where MindSpore keeps the view; a dry run tells"
    assert told["attention.wq"] == "as asked"
    assert told["ffn_norm.norm"] == "as asked, where communication stands directly before or behind it; a dry run tells"
