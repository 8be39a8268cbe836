"""A model with fewer equal layers must be the same model, layer by layer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from swapconf.config import overrides
from swapconf.config.nodes import Document
from swapconf.dryrun.fold.fewer_layers import with_fewer_layers
from swapconf.dryrun.fold.folding import CannotFold, Fold, LayerRow, Size, check, folds
from swapconf.dryrun.fold.micro_batches import MicroBatches, micro_batches, with_micro_batches
from swapconf.study.study import Study, study_document
from swapconf.upstream.facts import Versions
from tests.helpers import ROOT, document_of

LLAMA = ROOT / "configs/llama2_7b/example1_default_swap.yaml"
DEEPSEEK = ROOT / "configs/small/deepseek_v3_default_swap.yaml"
PIPELINE = {
    "parallel_config.pipeline_stage": 4,
    "parallel_config.data_parallel": 1,
    "parallel_config.model_parallel": 2,
    "parallel_config.micro_batch_num": 8,
}


def document(settings: dict[str, Any], layers: int = 32) -> Document:
    changes = {"model.model_config.num_layers": layers, **settings}
    return document_of(LLAMA, *(f"{key}={json.dumps(value)}" for key, value in changes.items()))


def study(found: Document) -> Study:
    return study_document(found, Versions.in_use(), os.environ)


def folded(found: Document, stage: int = 0) -> tuple[Fold, list[Study]]:
    """The cheapest fold, and what its runs and the one that checks them mean."""
    whole = study(found)
    assert whole.strategy is not None
    counted = micro_batches(found, whole.config.pipeline)
    dense = whole.config.model.settings.get("first_k_dense_replace")
    plan = folds(whole.strategy, stage, counted, dense if isinstance(dense, int) else 0)[0]
    studies = []
    for size in (*plan.runs, plan.check):
        fewer = with_fewer_layers(with_micro_batches(found, counted, size.micro_batches), whole.config, plan.kept(size))
        less = study(fewer)
        check(less.strategy, whole.strategy, plan.kept(size))
        assert less.findings == () or not any(finding.rule == "stage-offset" for finding in less.findings)
        assert micro_batches(fewer, less.config.pipeline).count == size.micro_batches
        studies.append(less)
    return plan, studies


def lengths(plan: Fold) -> list[int]:
    """Of the rows of the rank's own stage."""
    return [row.length for row in plan.rows if row.own]


def swap(**section: Any) -> dict[str, Any]:
    return {"swap_config": {"swap": True, **section}}


def op(name: str, prefetch: int, layers: Any) -> dict[str, Any]:
    return {"op_name": name, "backward_prefetch": prefetch, "layers": layers}


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        ({}, 32),
        (swap(layer_swap=[{"backward_prefetch": 5, "layers": [0, 31]}]), 30),
        (swap(layer_swap=[{"backward_prefetch": 5, "layers": [list(range(20)), 31]}]), 20),
        (swap(op_swap=[op("attention", 20, [0, 1, 2]), op("feed_forward", 15, True)]), 29),
        ({**swap(op_swap=[op("attention", 20, True)]), "recompute_config.recompute": [0, 1, 2, 3, 30]}, 26),
        (
            {
                **swap(op_swap=[op("attention", 20, True)]),
                "recompute_config.select_recompute": {"feed_forward": list(range(10))},
            },
            22,
        ),
        ({"swap_config.swap": False, "recompute_config.recompute": True}, 32),
        ({"swap_config.swap": False, "recompute_config.recompute": [12]}, 20),
        (
            {"swap_config.swap": False, "recompute_config.select_recompute": {"feed_forward": [22], "attention": True}},
            22,
        ),
    ],
)
def test_every_layer_that_stays_is_treated_as_before(settings: dict[str, Any], length: int) -> None:
    plan, _ = folded(document(settings))
    assert max(lengths(plan)) == length
    assert sum(lengths(plan)) == 32


def test_layers_leave_from_the_middle() -> None:
    plan = Fold(
        rows=(LayerRow(0, 2), LayerRow(2, 10), LayerRow(12, 1)), whole=Size((2, 10, 1), 1), small=Size((2, 4, 1), 1)
    )
    assert plan.kept(plan.small) == (0, 1, 2, 3, 10, 11, 12)
    assert plan.kept(plan.whole) == tuple(range(13))


def test_of_other_stages_one_layer_stays() -> None:
    for stage in range(4):
        plan, studies = folded(document(PIPELINE, 80), stage)
        assert lengths(plan) == [20]
        stages = [[layer.stage for layer in less.network.layers] for less in studies if less.network is not None]
        for size, there in zip((*plan.runs, plan.check), stages, strict=True):
            own = max(size.layers)
            assert [there.count(number) for number in range(4)] == [
                own if number == stage else 1 for number in range(4)
            ]


def test_an_uneven_pipeline_keeps_what_its_stages_hold() -> None:
    found = document({**PIPELINE, "model.model_config.offset": [1, 1, 0, -1]}, 81)
    assert [lengths(folded(found, stage)[0]) for stage in range(4)] == [[21], [21], [20], [19]]


def test_recomputed_and_other_layers_of_a_stage_are_two_rows() -> None:
    found = document({**PIPELINE, "swap_config.swap": False, "recompute_config.recompute": [20, 14, 3, 0]}, 80)
    assert [lengths(folded(found, stage)[0]) for stage in range(4)] == [[20], [14, 6], [3, 17], [20]]


def test_rows_that_lack_equally_many_layers_grow_in_one_step() -> None:
    settings = {**PIPELINE, "parallel_config.micro_batch_num": 4, "swap_config.swap": False}
    even, _ = folded(document({**settings, "recompute_config.recompute": [20, 0, 0, 0]}, 160))
    odd, _ = folded(document({**settings, "recompute_config.recompute": [25, 0, 0, 0]}, 160))
    assert [len(even.steps), len(odd.steps)] == [1, 2]
    for plan in (even, odd):
        assert plan.kept(plan.whole) == tuple(range(160))
        assert min(plan.distances(plan.whole)) > 1


def test_an_interleaved_pipeline_folds_each_of_its_shares() -> None:
    found = document(
        {
            **PIPELINE,
            "parallel.pipeline_config": {"pipeline_interleave": True},
            "swap_config.swap": False,
            "model.model_config.pp_interleave_num": 2,
            "recompute_config.recompute": [[10] * 4, [0] * 4],
        },
        80,
    )
    plan, studies = folded(found, 1)
    assert lengths(plan) == [10, 10]
    assert studies[0].network is not None
    assert {(layer.interleave, layer.stage) for layer in studies[0].network.layers} == {
        (interleave, stage) for interleave in range(2) for stage in range(4)
    }


@pytest.mark.parametrize("stage", [0, 3])
def test_extra_layers_keep_the_last_layer_that_they_are_made_like(stage: int) -> None:
    plan, _ = folded(document_of(DEEPSEEK, "model.model_config.num_hidden_layers=30"), stage % 2)
    assert 29 in plan.kept(plan.small)


@pytest.mark.parametrize(
    ("settings", "layers", "told"),
    [
        ({}, 4, "too few equal layers"),
        ({"model.model_config.layer_kinds": ["dense"] * 32}, 32, "layer_kinds has one item for each layer"),
    ],
)
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


def test_dense_layers_before_experts_are_a_row_of_their_own() -> None:
    plan, studies = folded(
        document_of(DEEPSEEK, "model.model_config.num_hidden_layers=40", "model.model_config.first_k_dense_replace=10"),
        0,
    )
    assert lengths(plan) == [10, 10]
    for size, less in zip((*plan.runs, plan.check), studies, strict=True):
        assert less.network is not None
        names = [layer.template.name for layer in less.network.layers if layer.name.isdigit()]
        assert names[: size.layers[0]] == ["dense"] * size.layers[0]
        assert set(names[size.layers[0] :]) == {"moe"}


# --- micro-batches ----------------------------------------------------------------------------------------------------


def test_of_another_stage_with_dense_layers_and_experts_one_of_each_stays() -> None:
    """A layer of experts sends a tensor more to the next stage."""
    settings = {
        **PIPELINE,
        "parallel_config.pipeline_stage": 2,
        "model.model_config.num_hidden_layers": 12,
        "model.model_config.offset": 0,
        "model.model_config.first_k_dense_replace": 2,
    }
    found = document_of(DEEPSEEK, *(f"{key}={json.dumps(value)}" for key, value in settings.items()))
    plan, studies = folded(found, stage=1)
    others = [plan.rows.index(row) for row in plan.rows if not row.own]
    assert [plan.rows[number].length for number in others] == [2, 4]
    assert [plan.small.layers[number] for number in others] == [1, 1]
    for less in studies:
        assert less.network is not None
        assert [layer.template.name for layer in less.network.layers[:2]] == ["dense", "moe"]


def counted(settings: dict[str, Any]) -> MicroBatches:
    found = document(settings)
    return micro_batches(found, study(found).config.pipeline)


def test_micro_batches_of_a_pipeline_are_folded_from_one_more_than_stages_on() -> None:
    few = counted({**PIPELINE, "parallel_config.micro_batch_num": 256})
    assert (few.count, few.least, few.why_check) == (256, 5, "")
    plan = folds(None, 0, few)[0]
    assert [size.micro_batches for size in plan.runs] == [5, 6]
    assert plan.distances(plan.whole) == (251.0,)


def test_an_interleaved_pipeline_takes_micro_batches_in_rounds_of_its_stages() -> None:
    interleaved = {
        **PIPELINE,
        "parallel.pipeline_config": {"pipeline_interleave": True},
        "model.model_config.pp_interleave_num": 2,
    }
    for count, few, more in ((64, 12, 16), (63, 15, 19)):
        found = counted({**interleaved, "parallel_config.micro_batch_num": count})
        (plan, *_) = folds(None, 0, found)
        assert [size.micro_batches for size in plan.runs] == [few, more]
        assert plan.why_check == "the schedule is interleaved"
        assert all(distance == int(distance) for distance in plan.distances(plan.whole))


@pytest.mark.parametrize("count", [4, 5, 6])
def test_a_step_of_few_micro_batches_runs_as_it_is(count: int) -> None:
    with pytest.raises(CannotFold, match="too few micro-batches"):
        folds(None, 0, counted({**PIPELINE, "parallel_config.micro_batch_num": count}))


def test_layers_and_micro_batches_are_folded_together_by_one_step_each() -> None:
    plan, _ = folded(document({**PIPELINE, "parallel_config.micro_batch_num": 128}, 80), 1)
    assert [size.micro_batches for size in plan.runs] == [5, 5, 6]
    assert len({size.layers for size in plan.runs}) == 2
    assert (plan.check.micro_batches, plan.check.layers != plan.small.layers) == (7, True)


def test_micro_batches_are_folded_where_layers_cannot_be() -> None:
    found = document({**PIPELINE, "parallel_config.micro_batch_num": 128, "model.model_config.a": ["b"] * 80}, 80)
    whole = study(found)
    (plan,) = [
        one
        for one in folds(whole.strategy, 0, micro_batches(found, whole.config.pipeline))
        if one.small.layers == one.whole.layers
    ]
    assert [(sum(size.layers), size.micro_batches) for size in plan.runs] == [(80, 5), (80, 6)]
    assert with_fewer_layers(found, whole.config, plan.kept(plan.small)) is found


@pytest.mark.parametrize(
    ("prefetch", "layers", "keeps_layers"), [(4, 40, False), (60, 40, True), (60, 128, True), (60, 200, False)]
)
def test_a_stage_keeps_its_layers_where_a_prefetch_would_have_fewer_confirmed(
    prefetch: int, layers: int, keeps_layers: bool
) -> None:
    """Three runs and one that confirms them, which may be for nothing, take longer than one with all layers of the
    stage, and two small ones; but not where these are many."""
    found = document(
        {
            **PIPELINE,
            "parallel_config.micro_batch_num": 64,
            **swap(layer_swap=[{"backward_prefetch": prefetch, "layers": True}]),
        },
        layers,
    )
    plan, _ = folded(found, 1)
    assert (plan.full_run is not None) == keeps_layers


def test_gradient_accumulation_stands_in_another_section() -> None:
    found = counted({"runner_config.gradient_accumulation_steps": 64})
    assert (found.key, found.count) == (("runner_config", "gradient_accumulation_steps"), 64)
    plan = folds(None, 0, found)[0]
    assert [size.micro_batches for size in (*plan.runs, plan.check)] == [3, 4, 5]
    assert plan.why_check == "gradients are accumulated without a pipeline"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"parallel.pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "other"}}, "schedule other"),
        ({"micro_batch_interleave_num": 2}, "micro_batch_interleave_num"),
    ],
)
def test_a_schedule_that_was_not_measured_is_not_folded(settings: dict[str, Any], told: str) -> None:
    found = counted({**PIPELINE, "parallel_config.micro_batch_num": 256, **settings})
    assert found.least is None
    with pytest.raises(CannotFold, match=told):
        folds(None, 0, found)


def test_an_unknown_family_is_folded_and_confirmed() -> None:
    found = document(
        {
            **PIPELINE,
            "model.arch.type": "Mystery",
            "model.model_config.type": "MysteryConfig",
            "swap_config.swap": False,
            "recompute_config.recompute": [9, 0, 0, 0],
        },
        80,
    )
    whole = study(found)
    assert whole.network is not None
    assert whole.network.family is None
    plan, _ = folded(found)
    assert lengths(plan) == [9, 11]
    assert plan.why_check == "the family is not known"


def test_a_model_from_a_hugging_face_folder_gets_its_number_of_layers_in_the_yaml(tmp_path: Path) -> None:
    """What `model.model_config` says counts before the config.json."""
    (tmp_path / "config.json").write_text('{"model_type": "qwen3", "num_hidden_layers": 64}')
    qwen = ROOT / "configs/small/qwen3_default_swap.yaml"
    found = overrides.of_file(
        str(qwen),
        [
            f"pretrained_model_dir={tmp_path}",
            "model.model_config.num_hidden_layers=",
            "model.model_config.model_type=",
            "swap_config.swap=false",
        ],
    )
    plan, studies = folded(found, 1)
    assert lengths(plan) == [32]
    assert [less.config.model.num_layers for less in studies] == [sum(size.layers) for size in (*plan.runs, plan.check)]


def test_a_pipeline_that_turns_back_keeps_what_its_stages_hold() -> None:
    """The second half of zero_bubble_v runs from the last stage to the first."""
    found = document(
        {
            **PIPELINE,
            "parallel.pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "zero_bubble_v"},
            "swap_config.swap": False,
            "model.model_config.pp_interleave_num": 2,
            "model.model_config.offset": [[1, 0, 0, 0], [0, 0, 0, 1]],
        },
        82,
    )
    for stage in range(4):
        plan, studies = folded(found, stage)
        assert sum(lengths(plan)) == (21 if stage in (0, 3) else 20)
        (less, *_) = studies
        assert less.network is not None
        assert {layer.stage for layer in less.network.layers} == {0, 1, 2, 3}
