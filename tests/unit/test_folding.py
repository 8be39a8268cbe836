"""A model with fewer equal layers must be the same model, layer by layer."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from swapconf.formats import overrides
from swapconf.formats.nodes import Document
from swapconf.rehearsal.fewer_layers import with_fewer_layers
from swapconf.rehearsal.folding import CannotFold, Fold, Run, check, fold
from swapconf.resolve.knowledge import Versions
from swapconf.study.study import Study, study_document
from tests.unit.test_docs import ROOT

LLAMA = ROOT / "configs/llama2_7b/example1_default_swap.yaml"
DEEPSEEK = ROOT / "configs/small/deepseek_v3_default_swap.yaml"
PIPELINE = {"parallel_config.pipeline_stage": 4, "parallel_config.data_parallel": 1,
            "parallel_config.model_parallel": 2, "parallel_config.micro_batch_num": 8}


def document(settings: dict[str, Any], layers: int = 32) -> Document:
    changes = {"model.model_config.num_layers": layers, **settings}
    found = overrides.read(["--config", str(LLAMA)], [f"{key}={json.dumps(value)}" for key, value in changes.items()])
    assert found is not None
    return found


def study(found: Document) -> Study:
    return study_document(found, Versions.in_use(), os.environ)


def folded(found: Document, stage: int = 0) -> tuple[Fold, list[Study]]:
    whole = study(found)
    assert whole.strategy is not None
    plan = fold(whole.strategy, stage)
    studies = []
    for size in plan.sizes:
        less = study(with_fewer_layers(found, whole.config, plan.kept(size)))
        check(less.strategy, whole.strategy, plan.kept(size))
        studies.append(less)
    return plan, studies


def swap(**section: Any) -> dict[str, Any]:
    return {"swap_config": {"swap": True, **section}}


def op(name: str, prefetch: int, layers: Any) -> dict[str, Any]:
    return {"op_name": name, "backward_prefetch": prefetch, "layers": layers}


@pytest.mark.parametrize(("settings", "length"), [
    ({}, 32),
    (swap(layer_swap=[{"backward_prefetch": 5, "layers": [0, 31]}]), 30),
    (swap(layer_swap=[{"backward_prefetch": 5, "layers": [list(range(20)), 31]}]), 20),
    (swap(op_swap=[op("attention", 20, [0, 1, 2]), op("feed_forward", 15, True)]), 29),
    ({**swap(op_swap=[op("attention", 20, True)]), "recompute_config.recompute": [0, 1, 2, 3, 30]}, 26),
    ({**swap(op_swap=[op("attention", 20, True)]),
      "recompute_config.select_recompute": {"feed_forward": list(range(10))}}, 22),
    ({"swap_config.swap": False, "recompute_config.recompute": True}, 32),
    ({"swap_config.swap": False, "recompute_config.recompute": [12]}, 20),
    ({"swap_config.swap": False, "recompute_config.select_recompute": {"feed_forward": [22], "attention": True}}, 22),
])
def test_every_layer_that_stays_is_treated_as_before(settings: dict[str, Any], length: int) -> None:
    plan, _ = folded(document(settings))
    assert plan.own == length
    assert [length - (32 - len(plan.kept(size))) for size in plan.sizes] == list(plan.sizes)


def test_sizes_are_as_odd_or_even_as_the_run() -> None:
    assert Fold(runs=(Run(0, 32),), own=32, num_layers=32).sizes == (4, 6, 8)
    assert Fold(runs=(Run(0, 9),), own=9, num_layers=9).sizes == (5, 7, 9)


def test_layers_leave_from_the_middle() -> None:
    assert Fold(runs=(Run(2, 10),), own=10, num_layers=13).kept(4) == (0, 1, 2, 3, 10, 11, 12)


def test_stages_stay_in_step() -> None:
    for stage in range(4):
        plan, studies = folded(document(PIPELINE, 80), stage)
        assert [run.length for run in plan.runs] == [20] * 4
        assert [less.config.model.num_layers for less in studies] == [16, 24, 32]


def test_an_uneven_pipeline_keeps_its_offset() -> None:
    found = document({**PIPELINE, "model.model_config.offset": [1, 1, 0, -1]}, 81)
    assert [folded(found, stage)[0].own for stage in range(4)] == [21, 21, 20, 19]
    assert folded(found, 3)[0].sizes == (5, 7, 9)


def test_counts_per_stage_count_what_is_left() -> None:
    found = document({**PIPELINE, "swap_config.swap": False, "recompute_config.recompute": [20, 14, 3, 0]}, 80)
    plan, studies = folded(found, 0)
    assert plan.sizes == (4, 6, 8)
    assert studies[1].network is not None
    assert studies[1].network.num_layers == 80 - 4 * 14


def test_an_interleaved_pipeline() -> None:
    found = document({**PIPELINE, "parallel.pipeline_config": {"pipeline_interleave": True}, "swap_config.swap": False,
                      "model.model_config.pp_interleave_num": 2, "recompute_config.recompute": [[10] * 4, [0] * 4]}, 80)
    plan, _ = folded(found, 1)
    assert [run.length for run in plan.runs] == [10] * 8


@pytest.mark.parametrize(("settings", "layers", "told"), [
    ({}, 8, "fewer than 9 equal layers"),
    (swap(layer_swap=[{"backward_prefetch": 5, "layers": list(range(0, 32, 2))}]), 32, "fewer than 9 equal layers"),
    ({**PIPELINE, "model.model_config.offset": [14, 0, 0, -11]}, 67, "another stage"),
    ({"model.model_config.layer_kinds": ["dense"] * 32}, 32, "layer_kinds has one item for each layer"),
])
def test_a_model_that_cannot_be_folded_says_why(settings: dict[str, Any], layers: int, told: str) -> None:
    with pytest.raises(CannotFold, match=told):
        folded(document(settings, layers))


def test_a_rewrite_that_changes_a_decision_is_refused() -> None:
    whole, other = study(document({})), study(document({"swap_config.default_prefetch": 7}, 6))
    assert whole.strategy is not None
    with pytest.raises(CannotFold, match="would be treated otherwise"):
        check(other.strategy, whole.strategy, (0, 1, 2, 29, 30, 31))
    with pytest.raises(CannotFold, match="cannot be written"):
        check(other.strategy, whole.strategy, (0, 1, 2))


def test_dense_layers_before_experts_stay_as_they_are() -> None:
    found = overrides.read(["--config", str(DEEPSEEK)], ["model.model_config.num_hidden_layers=30"])
    assert found is not None
    plan, studies = folded(found, 1)
    assert plan.runs == (Run(1, 14), Run(15, 15))
    assert studies[0].network is not None
    assert [layer.template.name for layer in studies[0].network.layers][:3] == ["dense", "moe", "moe"]
