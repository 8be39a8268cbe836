"""Recomputed cells that are given what runs again by itself: what MindSpore 2.9.0 compiles, and what it stops at.

Each line was a dry run of Qwen3 with two micro-batches on one stage, with swap on, so that lists name layers.
"""

from __future__ import annotations

import json

import pytest

from swapconf.words.findings import Finding
from tests.unit.findings_of import QWEN3, found

NORM, NETWORK, SECOND, PROJ = "pre_mlp_layernorm", "mlp", "mlp.linear_fc2", "self_attention.linear_proj"
ADD, MADE, NORMED, TURNED = "add", "mlp.mul", "pre_mlp_layernorm.norm", "self_attention.core_attention.fa_out_transpose"
FLASH, SPLIT, ATTENTION = "self_attention.core_attention", "self_attention.split_qkv", "self_attention"


def stops(
    selected: dict[str, list[int]], swapped: dict[str, list[int]] | None = None, stages: int = 1
) -> list[Finding]:
    entries = [
        {"op_name": path.replace(".", r"\."), "backward_prefetch": 1, "layers": layers}
        for path, layers in (swapped or {}).items()
    ]
    text = QWEN3.replace(
        "pipeline_stage: 2", f"pipeline_stage: {stages}, data_parallel: 1, model_parallel: 2, use_seq_parallel: True"
    )
    text += "runner_config: {gradient_accumulation_steps: 2}\n"
    text += f"swap_config: {json.dumps({'swap': True, 'op_swap': entries})}\n"
    asked = {path.replace(".", r"\."): layers for path, layers in selected.items()}
    text += f"recompute_config: {json.dumps({'select_recompute': asked})}\n"
    dtypes = "params_dtype: float32, compute_dtype: bfloat16, layernorm_compute_dtype: float32"
    text = text.replace("num_hidden_layers: 4", f"num_hidden_layers: 4, {dtypes}, fp32_residual_connection: True")
    return [finding for finding in found(text) if finding.rule == "does-not-compile"]


@pytest.mark.parametrize(
    "selected",
    [
        {NORM: [0, 1, 2, 3], ADD: [0]},
        {NORM: [0, 1], ADD: [1]},
        {NETWORK: [0, 1, 2], NORMED: [0]},
        {"mlp.linear_fc1": [0, 1, 2], NORMED: [0]},
        {PROJ: [0, 1, 2], TURNED: [0]},
        {SECOND: [0, 1, 2], MADE: [0]},
        {SECOND: [0, 1], MADE: [0, 1]},
        {PROJ: [0, 1], TURNED: [0, 1]},
        {NETWORK: [0, 1], NORMED: [0, 1]},
        {SECOND: [0], MADE: [0], NORM: [1], ADD: [1]},
        {SECOND: [0], MADE: [0], "mlp.linear_fc1": [0], NORMED: [0]},
    ],
)
def test_in_two_states_it_stops(selected: dict[str, list[int]]) -> None:
    (finding,) = stops(selected)
    assert "U Monad" in finding.stops_with


@pytest.mark.parametrize(
    "selected",
    [
        {NORM: [0, 1, 2, 3]},
        {NORM: [0, 1, 2, 3], ADD: [0, 1, 2, 3]},
        {NORM: [1], ADD: [0]},
        {NORM: [0, 1, 3], ADD: [2]},
        {"input_layernorm": [0, 1, 2, 3], ADD: [0]},
        {NETWORK: [0, 1], ADD: [0]},
        {ATTENTION: [0, 1, 2], "input_layernorm.norm": [0]},
        {SECOND: [0], MADE: [0], NORM: [0], ADD: [0]},
        {SECOND: [0], MADE: [0], FLASH: [1]},
        {FLASH: [0], NORM: [1], ADD: [1]},
        {FLASH: [0, 1], SPLIT: [0]},
    ],
)
def test_in_one_state_it_compiles(selected: dict[str, list[int]]) -> None:
    assert not stops(selected)


@pytest.mark.parametrize(
    ("selected", "swapped", "number"),
    [
        ({NORM: [0], ADD: [0]}, {"self_attention.k_layernorm": [0]}, 1),
        ({NORM: [0], ADD: [0]}, {"self_attention.q_layernorm": [0]}, 1),
        ({NORM: [1], ADD: [1]}, {"self_attention.k_layernorm": [0]}, 1),
        ({NORM: [0], ADD: [0]}, {"self_attention.k_layernorm": [1]}, 0),
        ({NORM: [0], ADD: [0]}, {"self_attention.k_layernorm.norm": [0]}, 0),
        ({FLASH: [0, 2], SPLIT: [0]}, {"self_attention.k_layernorm": [2]}, 0),
        ({FLASH: [1], SPLIT: [1]}, {"mlp": [0, 1]}, 0),
        ({ATTENTION: [0, 1]}, {"self_attention.k_layernorm": [2]}, 0),
    ],
)
def test_behind_a_swapped_norm_of_queries_or_keys_it_stops(
    selected: dict[str, list[int]], swapped: dict[str, list[int]], number: int
) -> None:
    findings = stops(selected, swapped)
    assert len(findings) == number
    assert all("size_t" in finding.stops_with for finding in findings)


def test_each_stage_is_compiled_for_itself() -> None:
    selected = {NORM: [0, 1, 2, 3], ADD: [0, 1]}
    assert stops(selected)
    assert not stops(selected, stages=2)


def test_it_says_what_and_where() -> None:
    (finding,) = stops({NORM: [0, 1, 2, 3], ADD: [0]})
    assert "pre_mlp_layernorm in layer 0, which is given add, recomputed by itself" in finding.message
    assert "beside pre_mlp_layernorm in layers 1-3, recomputed as well" in finding.message
