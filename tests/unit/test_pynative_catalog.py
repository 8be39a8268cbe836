"""What can be named in the layers of PyNative models: by settings and release."""

from __future__ import annotations

from typing import Any

import pytest

from swapconf.models.pynative_modules import FAMILIES, known_modules

QWEN3: dict[str, Any] = {"model_type": "qwen3"}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
    "qk_layernorm": True,
    "hidden_act": "silu",
    "gated_linear_unit": True,
}
DEEPSEEK_V4: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "apply_dsa_kernel_fusion": False,
    "compress_ratios": [0, 4, 128, 4, 0],
}


@pytest.mark.parametrize("release", ["2.0.0", "2.1.0"])
def test_layers_of_deepseek_v4_are_told_by_how_they_compress(release: str) -> None:
    known = known_modules(DEEPSEEK_V4, 4, release)
    window, sparse, heavy, extra = known(0), known(1), known(2), known(4)
    assert window is not None
    assert sparse is not None
    assert heavy is not None
    assert extra is not None
    assert known(3) is sparse
    assert window.cells < heavy.cells < sparse.cells
    assert "self_attention.core_attention.indexer" in sparse.cells - heavy.cells
    assert "self_attention.core_attention.compressor" in heavy.cells - window.cells
    assert {"attn_hc.mapping_proj", "mlp.experts"} <= window.cells
    assert "transformer_layer.ffn_hc" in extra.cells


@pytest.mark.parametrize("release", ["2.0.0", "2.1.0"])
def test_layers_of_a_kind_have_what_mindformers_builds(release: str) -> None:
    known = known_modules(DEEPSEEK, 3, release)
    dense, experts, extra = known(0), known(1), known(3)
    assert dense is not None
    assert experts is not None
    assert extra is not None
    assert "mlp.linear_fc1" in dense.cells
    assert "mlp.experts" not in dense.cells
    assert {"mlp.router", "mlp.experts", "mlp.shared_experts.linear_fc1"} <= experts.cells
    assert {"eh_proj", "transformer_layer.mlp.experts"} <= extra.cells
    assert "self_attention.core_attention.reshape" in dense.functions
    assert known(2) is experts


def test_a_setting_that_changes_the_layer_is_looked_at() -> None:
    gated, plain = (known_modules({**QWEN3, "hidden_act": word}, 2, "2.0.0")(0) for word in ("silu", "gelu"))
    assert gated is not None
    assert plain is not None
    assert "mlp.activation_func.silu" in gated.functions - plain.functions


@pytest.mark.parametrize(
    "model",
    [
        {"model_type": "telechat3"},
        {},
        {**QWEN3, "hidden_act": "relu"},
        {**QWEN3, "hidden_act": "gelu", "attention_bias": True},
        {key: value for key, value in DEEPSEEK.items() if key != "first_k_dense_replace"},
        {**DEEPSEEK, "moe_layer_freq": [0, 1]},
        {**DEEPSEEK_V4, "apply_dsa_kernel_fusion": True},
        {**DEEPSEEK_V4, "compress_ratios": [8, 8, 8, 8]},
        {**DEEPSEEK_V4, "compress_ratios": [0]},
        {key: value for key, value in DEEPSEEK_V4.items() if key != "compress_ratios"},
    ],
)
def test_of_another_model_nothing_is_claimed(model: dict[str, Any]) -> None:
    assert known_modules(model, 4, "2.0.0")(0) is None


def test_releases_before_the_first_with_pynative_stand_for_it() -> None:
    first, before, later = (known_modules(QWEN3, 2, version)(0) for version in ("2.0.0", "1.9.0", "2.1.0"))
    assert first is before
    assert first != later


def test_every_family_is_there() -> None:
    models = {"qwen3": QWEN3, "deepseek_v3": DEEPSEEK, "deepseek_v4": DEEPSEEK_V4}
    assert models.keys() == set(FAMILIES)
    assert all(known_modules(model, 2, "2.0.0")(0) is not None for model in models.values())


def test_functions_of_a_class_are_told_from_those_that_a_cell_was_given() -> None:
    first, later = (known_modules(DEEPSEEK, 3, version)(1) for version in ("2.0.0", "2.1.0"))
    assert first is not None
    assert later is not None
    assert first.fixed == {"mlp.router.moe_aux_loss_auto_scaler.construct"}
    assert {"mlp.router.reset_parameter", "self_attention.sbh2tnd"} <= later.fixed <= later.functions
    assert "self_attention.core_attention.reshape" in later.functions - later.fixed
