"""What recompute leaves where the model is compiled without lazy inline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swapconf.decide.lazy_inline import lazily_inlined, outputs_left, recomputes_nothing
from swapconf.models.network import LayerTemplate, Operator
from swapconf.whatif.inlined import inlined_otherwise, is_turned_by_swap
from swapconf.whatif.placed import placed
from swapconf.whatif.predict import predict
from swapconf.whatif.prepare import prepare
from tests.helpers import ROOT, golden, strategy_of, study_of, study_of_values

TRACES = ROOT / "tests" / "traces"
LLAMA: dict[str, Any] = {
    "use_parallel": True,
    "model": {"model_config": {"type": "LlamaConfig", "num_layers": 2}, "arch": {"type": "LlamaForCausalLM"}},
}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"parallel_config": {"pipeline_stage": 1}}, False),
        ({"parallel_config": {"pipeline_stage": 2}}, True),
        ({"runner_config": {"gradient_accumulation_steps": 2}}, True),
        ({"swap_config": {"swap": True}}, True),
        ({"use_parallel": False}, True),  # not known
    ],
)
def test_lazy_inline_needs_stages_accumulation_or_swap(more: dict[str, Any], expected: bool) -> None:
    study = study_of_values({**LLAMA, **more})
    assert lazily_inlined(study.config, study.versions) is expected


NORMS = LayerTemplate(
    name="dense",
    cell="Layer",
    operators=(
        Operator(path="bare", kind="cell", type="RmsNorm"),
        Operator(path="bare.norm", kind="primitive", type="RmsNorm", saved=True, consumers=("linear.matmul",)),
        Operator(path="cast", kind="cell", type="RmsNorm"),
        Operator(path="cast.norm", kind="primitive", type="RmsNorm", saved=True, consumers=("cast.back",)),
        Operator(path="cast.back", kind="primitive", type="Cast", saved=False, consumers=("linear.matmul",)),
        Operator(path="linear.matmul", kind="primitive", type="MatMul", saved=True),
    ),
)


@pytest.mark.parametrize(("cell", "left"), [("bare", {"bare.norm"}), ("cast", set()), ("linear", set())])
def test_a_norm_that_makes_the_output_of_its_cell_is_left(cell: str, left: set[str]) -> None:
    assert outputs_left(cell, NORMS) == left
    assert recomputes_nothing(cell, NORMS) is bool(left)


def test_casts_of_weights_do_not_run_again() -> None:
    """Of two layers: each has four Linears whose weights are cast, in two micro-batches of the recorded run."""
    file = TRACES / "llama.yaml"
    network = study_of(file).network
    assert network is not None
    prepared = placed(prepare(golden("llama_l2_none")), network)
    changes = "recompute_config.recompute=True", "swap_config.swap=False"
    with_it = strategy_of(file, *changes)
    without = strategy_of(file, *changes, "runner_config.gradient_accumulation_steps=1")
    assert (with_it.lazy_inline, without.lazy_inline) == (True, False)
    casts = prepared.baseline.rootless & (prepared.baseline.kernels.primitives == "Cast")
    fewer = predict(prepared, with_it).recomputed - predict(prepared, without).recomputed
    assert 0 < fewer * prepared.baseline.steps <= int(casts.sum())


def test_nor_are_weights_gathered_again() -> None:
    """The casts of the recorded run, taken for collectives that gather a weight from its shards."""
    baseline = prepare(golden("llama_l2_none"))
    casts = baseline.rootless & (baseline.kernels.primitives == "Cast")
    assert casts.any()
    assert (baseline.of_weights == casts).all()
    primitive = ["AllGather" if cast else name for name, cast in zip(baseline.kernels.primitive, casts, strict=True)]
    gathering = replace(baseline, kernels=replace(baseline.kernels, primitive=tuple(primitive)))
    assert (gathering.of_weights == casts).all()


@pytest.mark.parametrize(
    ("more", "recorded", "command"),
    [
        ({"swap_config": {"swap": True}}, {"swap_config": {"swap": False}}, "--set 'swap_config.layer_swap=[]'"),
        ({"swap_config": {"swap": True}}, {"model": {}}, "--set 'swap_config.swap=True'"),
        ({"swap_config": {"swap": False}}, {"swap_config": {"swap": True}}, "--set swap_config.swap=False"),
        ({"swap_config": {"swap": True}}, {"swap_config": {"swap": True}}, None),
        ({"swap_config": {"swap": True}}, {}, None),  # of another program
        (
            {"swap_config": {"swap": True}, "runner_config": {"gradient_accumulation_steps": 2}},
            {"swap_config": {"swap": False}},
            None,
        ),
    ],
)
def test_a_trace_of_a_run_without_the_lazy_inline_of_the_config_is_named(
    more: dict[str, Any], recorded: dict[str, Any], command: str | None
) -> None:
    making = "swapconf dryrun train.yaml --set swap_config.swap=False --keep DIR"
    found = inlined_otherwise("trace", recorded, study_of_values({**LLAMA, **more}), making)
    assert (found is None) == (command is None)
    if found is not None and command is not None:
        assert found.rule == "trace-inlined-otherwise"
        assert command in found.hint
        assert found.hint.endswith("--keep DIR")


@pytest.mark.parametrize(
    ("changes", "turns"),
    [
        ({}, True),
        ({"swap_config": {"swap": True}}, True),
        ({"runner_config": {"gradient_accumulation_steps": 2}}, False),
        ({"parallel_config": {"pipeline_stage": 2}}, False),
        ({"model": {"model_config": {**LLAMA["model"]["model_config"], "disable_lazy_inline": True}}}, False),
    ],
)
def test_where_swap_decides_about_lazy_inline(changes: dict[str, Any], turns: bool) -> None:
    asked = study_of_values({**LLAMA, **changes})
    assert is_turned_by_swap(asked.config, asked.versions) == turns
