"""The families of mcore models that the catalog covers: those the package can train (``use_legacy: False``)."""

from __future__ import annotations

from catalog_cases import HEADS, SEQUENCE, Config, FamilyCase, VariantCase

_MCORE: Config = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "max_position_embeddings": SEQUENCE,
    "seq_length": SEQUENCE,
    "num_attention_heads": HEADS,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "params_dtype": "float32",
    "compute_dtype": "bfloat16",
    "layernorm_compute_dtype": "float32",
    "softmax_compute_dtype": "float32",
    "rotary_dtype": "float32",
    "use_flash_attention": True,
    "add_bias_linear": False,
    "position_embedding_type": "rope",
    "offset": 0,
}
_GROUPED_HEADS: Config = {"num_key_value_heads": 2, "head_dim": 32}
_MOE: Config = {
    "moe_intermediate_size": 128,
    "num_experts_per_tok": 2,
    "moe_grouped_gemm": True,
    "norm_topk_prob": True,
    "moe_aux_loss_coeff": 0.001,
    "moe_token_drop_policy": "probs",
    "routed_scaling_factor": 1.5,
}
_LATENT_MOE: Config = {
    **_MOE,
    "num_hidden_layers": 4,
    "num_key_value_heads": HEADS,
    "kv_lora_rank": 64,
    "q_lora_rank": 96,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "qk_nope_head_dim": 32,
    "qk_layernorm": True,
    "multi_latent_attention": True,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "moe_shared_expert_intermediate_size": 128,
    "moe_router_load_balancing_type": "seq_aux_loss",
    "moe_router_enable_expert_bias": True,
    "first_k_dense_replace": 2,
    "num_nextn_predict_layers": 1,
    "mtp_loss_scaling_factor": 0.3,
}

_MCORE_FLASH = r"self_attention\.core_attention\.flash_attention"
_DECODER = "model.decoder.layers.1"
_LATENT_TEMPLATES = {"dense": _DECODER, "moe": "model.decoder.layers.2", "mtp": "model.mtp.layers.0"}

_FUSED = ({"hidden_act": "fusedswiglu"}, {"hidden_act": "swiglu", "bias_swiglu_fusion": True})
_FP32_RESIDUAL: Config = {"fp32_residual_connection": True}
_CONTIGUOUS: Config = {"use_contiguous_weight_layout_attention": True}
_ONE_GROUP: Config = {"n_group": 1, "topk_group": 1}
_ACTIVATION = {"hidden_act": ("text",), "bias_swiglu_fusion": ("flag",)}
_COMMON = {
    "fp32_residual_connection": ("flag",),
    "normalization": ("text",),
    "attention_dropout": ("above_zero",),
    "track_max_attention_logit": ("flag",),
}
_DENSE_MLP = {
    **_COMMON,
    **_ACTIVATION,
    "use_contiguous_weight_layout_attention": ("flag",),
    "apply_rope_fusion": ("flag",),
    "use_interleaved_weight_layout_mlp": ("flag",),
    "gated_linear_unit": ("flag",),
}
_LATENT = {
    **_COMMON,
    **_ACTIVATION,
    "mla_qkv_concat": ("flag",),
    "n_group": ("above_one", "moe_router_num_groups"),
    "qk_layernorm": ("flag",),
    "q_lora_rank": ("given",),
    "n_shared_experts": ("above_zero", "shared_expert_num"),
    "moe_router_enable_expert_bias": ("flag",),
    "moe_router_force_expert_balance": ("flag",),
    "use_shared_expert_gating": ("flag",),
    "use_interleaved_weight_layout_mlp": ("flag",),
    "gated_linear_unit": ("flag",),
    "fused_norm": ("flag",),
    "multi_latent_attention": ("flag",),
    "experimental_attention_variant": ("given",),
}
_SIZES = {
    "num_layers": ["num_hidden_layers", "num_layers"],
    "heads": ["num_attention_heads", "num_heads", "n_head"],
    "kv_heads": ["num_key_value_heads", "n_kv_heads", "num_query_groups"],
}
_ALL_DENSE = {"templates": ["dense"], **_SIZES}
_DENSE_THEN_MOE = {
    "templates": ["dense", "moe"],
    **_SIZES,
    "first_dense": ["first_k_dense_replace"],
    "moe_frequency": ["moe_layer_freq"],
    "experts": ["n_routed_experts", "num_moe_experts"],
    "mtp": ["num_nextn_predict_layers", "mtp_num_layers"],
}

_DENSE_MCORE_VARIANTS = (
    VariantCase(build={"hidden_act": "swiglu", **_FP32_RESIDUAL}),
    VariantCase(build={"hidden_act": "silu", **_FP32_RESIDUAL}),
    VariantCase(build={"hidden_act": "fusedswiglu", **_FP32_RESIDUAL}, when=_FUSED),
    VariantCase(build={"hidden_act": "swiglu", **_FP32_RESIDUAL, **_CONTIGUOUS}),
    VariantCase(build={"hidden_act": "silu", **_FP32_RESIDUAL, **_CONTIGUOUS}),
    VariantCase(build={"hidden_act": "swiglu"}),
    VariantCase(build={"hidden_act": "silu"}),
)

QWEN3 = FamilyCase(
    name="qwen3",
    title="Qwen3",
    legacy=False,
    config="qwen3.configuration_qwen3:Qwen3Config",
    model="qwen3.modeling_qwen3_train:TrainingQwen3ForCausalLM",
    identify={"model_types": ["qwen3", "Qwen3Config"], "architectures": ["Qwen3ForCausalLM"]},
    flash_attention=_MCORE_FLASH,
    tiny={**_MCORE, **_GROUPED_HEADS},
    templates={"dense": _DECODER},
    switches=_DENSE_MLP,
    layout=_ALL_DENSE,
    variants=_DENSE_MCORE_VARIANTS,
)

QWEN3_MOE = FamilyCase(
    name="qwen3_moe",
    title="Qwen3-MoE",
    legacy=False,
    config="qwen3_moe.configuration_qwen3_moe:Qwen3MoeConfig",
    model="qwen3_moe.modeling_qwen3_moe_train:TrainingQwen3MoeForCausalLM",
    identify={"model_types": ["qwen3_moe", "Qwen3MoeConfig"], "architectures": ["Qwen3MoeForCausalLM"]},
    flash_attention=_MCORE_FLASH,
    tiny={
        **_MCORE,
        **_GROUPED_HEADS,
        **_MOE,
        "num_experts": 8,
        "norm_topk_prob": False,
        "moe_router_pre_softmax": True,
        "moe_router_load_balancing_type": "gbs_aux_loss",
    },
    templates={"moe": _DECODER},
    switches={
        **_COMMON,
        "use_contiguous_weight_layout_attention": ("flag",),
        "moe_router_force_expert_balance": ("flag",),
        "apply_rope_fusion": ("flag",),
    },
    layout={"templates": ["moe"], **_SIZES, "experts": ["num_experts", "n_routed_experts", "num_moe_experts"]},
    variants=(VariantCase(build={}), VariantCase(build=_CONTIGUOUS), VariantCase(build=_FP32_RESIDUAL)),
)

DEEPSEEK_V3 = FamilyCase(
    name="deepseek_v3",
    title="DeepSeek-V3",
    legacy=False,
    config="deepseek3.configuration_deepseek_v3:DeepseekV3Config",
    model="deepseek3.modeling_deepseek_v3_train:TrainingDeepseekV3ForCausalLM",
    identify={
        "model_types": ["deepseek_v3", "deepseek_mtp", "DeepseekV3Config"],
        "architectures": ["DeepseekV3ForCausalLM"],
    },
    flash_attention=_MCORE_FLASH,
    tiny={**_MCORE, **_LATENT_MOE, "position_embedding_type": "yarn", "topk_group": 2},
    templates=_LATENT_TEMPLATES,
    switches=_LATENT,
    layout=_DENSE_THEN_MOE,
    variants=(
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 4}),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": False, **_ONE_GROUP}),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": True, "n_group": 4}),
        VariantCase(build={"hidden_act": "swiglu", "mla_qkv_concat": False, "n_group": 4}),
        VariantCase(build={"hidden_act": "fusedswiglu", "mla_qkv_concat": False, "n_group": 4}, when=_FUSED),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 4, **_FP32_RESIDUAL}),
    ),
)

TELECHAT3 = FamilyCase(
    name="telechat3",
    title="TeleChat3",
    legacy=False,
    config="telechat3.configuration_telechat3:TeleChat3Config",
    model="telechat3.modeling_telechat3_train:TrainingTeleChat3ForCausalLM",
    identify={"model_types": ["telechat3", "TeleChat3Config"], "architectures": ["TeleChat3ForCausalLM"]},
    flash_attention=_MCORE_FLASH,
    tiny={**_MCORE, **_GROUPED_HEADS},
    templates={"dense": _DECODER},
    switches={**_DENSE_MLP, "qk_layernorm": ("flag",)},
    layout=_ALL_DENSE,
    variants=_DENSE_MCORE_VARIANTS,
)

TELECHAT3_MOE = FamilyCase(
    name="telechat3_moe",
    title="TeleChat3-MoE",
    legacy=False,
    config="telechat3_moe.configuration_telechat3_moe:TeleChat3MoeConfig",
    model="telechat3_moe.modeling_telechat3_moe_train:TrainingTeleChat3MoeForCausalLM",
    identify={
        "model_types": ["telechat3_moe", "telechat3_mtp", "TeleChat3MoeConfig"],
        "architectures": ["TeleChat3MoeForCausalLM"],
    },
    flash_attention=_MCORE_FLASH,
    tiny={**_MCORE, **_LATENT_MOE, "topk_group": 2},
    templates=_LATENT_TEMPLATES,
    switches=_LATENT,
    layout=_DENSE_THEN_MOE,
    variants=(
        VariantCase(
            build={"hidden_act": "fusedswiglu", "mla_qkv_concat": False, **_ONE_GROUP, **_FP32_RESIDUAL}, when=_FUSED
        ),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": False, **_ONE_GROUP, **_FP32_RESIDUAL}),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 4, **_FP32_RESIDUAL}),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": True, "n_group": 4}),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 4}),
    ),
)

FAMILIES = (QWEN3, QWEN3_MOE, DEEPSEEK_V3, TELECHAT3, TELECHAT3_MOE)
