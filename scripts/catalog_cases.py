"""What the catalog covers: per family, a tiny configuration of the real model and the switches that change its layers.

Pure data, no mindspore. ``build_catalog.py`` builds every variant from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Config = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class VariantCase:
    """``build``: what differs from the family's configuration. ``when``: the switch values it stands for (any of)."""

    build: Config
    when: tuple[Config, ...] = ()

    @property
    def alternatives(self) -> tuple[Config, ...]:
        return self.when or (self.build,)


@dataclass(frozen=True, kw_only=True)
class FamilyCase:
    """One family of models whose decoder layers come from the same cells.

    ``config``, ``model``: real classes, ``module:Class`` below ``mindformers.models``.
    ``templates``: template name -> dotted path of a typical layer (not the first or last) in the built network.
    ``switches``: key of model_config -> (kind, other keys that mean the same); see ``swapconf.catalog.family.Switch``.
    ``layout``: number of layers and which template each layer has; see ``swapconf.catalog.family.Layout``.
    """

    name: str
    title: str
    legacy: bool
    config: str
    model: str
    identify: dict[str, list[str]]
    flash_attention: str
    tiny: Config
    templates: dict[str, str]
    switches: dict[str, tuple[str, ...]]
    layout: dict[str, Any]
    variants: tuple[VariantCase, ...] = field(repr=False)


# Several heads of 32: with one head MindSpore folds every Transpose into a Reshape.
_LEGACY: Config = {
    "batch_size": 2,
    "seq_length": 64,
    "hidden_size": 128,
    "num_layers": 3,
    "compute_dtype": "bfloat16",
    "layernorm_compute_type": "float32",
    "rotary_dtype": "float32",
    "param_init_type": "float32",
}
_MCORE: Config = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "max_position_embeddings": 64,
    "seq_length": 64,
    "num_attention_heads": 4,
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
    "num_key_value_heads": 4,
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
_ACTIVATION = {"hidden_act": ("text",), "bias_swiglu_fusion": ("flag",)}
_DENSE_MLP = {
    **_ACTIVATION,
    "use_contiguous_weight_layout_attention": ("flag",),
    "normalization": ("text",),
    "apply_rope_fusion": ("flag",),
    "use_interleaved_weight_layout_mlp": ("flag",),
    "fused_norm": ("flag",),
}
_LATENT = {
    **_ACTIVATION,
    "mla_qkv_concat": ("flag",),
    "n_group": ("above_one", "moe_router_num_groups"),
    "qk_layernorm": ("flag",),
    "q_lora_rank": ("given",),
    "n_shared_experts": ("above_zero", "shared_expert_num"),
    "moe_router_enable_expert_bias": ("flag",),
    "use_shared_expert_gating": ("flag",),
    "normalization": ("text",),
    "use_interleaved_weight_layout_mlp": ("flag",),
    "multi_latent_attention": ("flag",),
}
_ALL_DENSE = {"templates": ["dense"], "num_layers": ["num_hidden_layers", "num_layers"]}
_DENSE_THEN_MOE = {
    "templates": ["dense", "moe"],
    "num_layers": ["num_hidden_layers", "num_layers"],
    "first_dense": ["first_k_dense_replace"],
    "moe_frequency": ["moe_layer_freq"],
    "experts": ["n_routed_experts", "num_moe_experts"],
    "mtp": ["num_nextn_predict_layers", "mtp_num_layers"],
}

_DENSE_MCORE_VARIANTS = (
    VariantCase(build={"hidden_act": "swiglu"}),
    VariantCase(build={"hidden_act": "silu"}),
    VariantCase(build={"hidden_act": "fusedswiglu"}, when=_FUSED),
    VariantCase(build={"hidden_act": "swiglu", "use_contiguous_weight_layout_attention": True}),
    VariantCase(build={"hidden_act": "silu", "use_contiguous_weight_layout_attention": True}),
)

LLAMA = FamilyCase(
    name="llama",
    title="Llama, Llama 2, Llama 3, Qwen2.5 (legacy model)",
    legacy=True,
    config="llama.llama_config:LlamaConfig",
    model="llama.llama:LlamaForCausalLM",
    identify={"config_types": ["LlamaConfig"], "arch_types": ["LlamaForCausalLM"]},
    flash_attention=r"attention\.flash_attention",
    tiny={**_LEGACY, "num_heads": 4, "vocab_size": 128, "multiple_of": 16, "input_sliced_sig": True},
    templates={"dense": "model.layers.1"},
    switches={
        "fine_grain_interleave": ("above_one",),
        "use_flash_attention": ("flag",),
        "qkv_concat": ("flag",),
        "qkv_has_bias": ("flag",),
        "attn_proj_has_bias": ("flag",),
        "fused_rms_norm": ("flag",),
        "moe_config.expert_num": ("above_one",),
    },
    layout={"templates": ["dense"], "num_layers": ["num_layers"]},
    variants=(
        VariantCase(build={"use_flash_attention": True}),
        VariantCase(build={"use_flash_attention": True, "qkv_concat": True}),
        VariantCase(build={"use_flash_attention": True, "qkv_has_bias": True}),
        VariantCase(build={"use_flash_attention": True, "qkv_concat": True, "qkv_has_bias": True}),
        VariantCase(build={}),
        VariantCase(build={"qkv_concat": True}),
        *(
            # The interleaved layer exists only with model_parallel > 1.
            VariantCase(
                build={
                    "use_flash_attention": True,
                    "fine_grain_interleave": 2,
                    "parallel_config": {"model_parallel": 2},
                    **concat,
                },
                when=({"use_flash_attention": True, "fine_grain_interleave": 2, **concat},),
            )
            for concat in ({}, {"qkv_concat": True})
        ),
    ),
)

GLM = FamilyCase(
    name="glm2",
    title="ChatGLM2, ChatGLM3, GLM-4 (legacy model)",
    legacy=True,
    config="glm2.glm2_config:ChatGLM2Config",
    model="glm2.glm2:ChatGLM2ForConditionalGeneration",
    identify={"config_types": ["ChatGLM2Config"], "arch_types": ["ChatGLM2ForConditionalGeneration"]},
    flash_attention=r"self_attention\.flash_attention",
    tiny={
        **_LEGACY,
        "num_attention_heads": 4,
        "multi_query_group_num": 2,
        "kv_channels": 32,
        "ffn_hidden_size": 256,
        "padded_vocab_size": 128,
    },
    templates={"dense": "transformer.encoder.layers.1"},
    switches={
        "use_flash_attention": ("flag",),
        "qkv_concat": ("flag",),
        "mlp_concat": ("flag",),
        "use_rearrange_rope": ("flag",),
        "post_self_attn_layernorm": ("flag",),
        "post_mlp_layernorm": ("flag",),
        "add_qkv_bias": ("flag",),
        "add_bias_linear": ("flag",),
        "rmsnorm": ("flag",),
    },
    layout={"templates": ["dense"], "num_layers": ["num_layers"]},
    variants=(
        VariantCase(build={"use_flash_attention": True}),
        VariantCase(build={"use_flash_attention": True, "qkv_concat": False, "mlp_concat": False}),
        VariantCase(build={"use_flash_attention": True, "qkv_concat": False}),
        VariantCase(build={"use_flash_attention": True, "use_rearrange_rope": True}),
        VariantCase(build={"use_flash_attention": True, "post_self_attn_layernorm": True, "post_mlp_layernorm": True}),
        VariantCase(build={}),
        VariantCase(build={"qkv_concat": False, "mlp_concat": False}),
    ),
)

QWEN3 = FamilyCase(
    name="qwen3",
    title="Qwen3",
    legacy=False,
    config="qwen3.configuration_qwen3:Qwen3Config",
    model="qwen3.modeling_qwen3_train:TrainingQwen3ForCausalLM",
    identify={"model_types": ["qwen3", "Qwen3Config"], "architectures": ["Qwen3ForCausalLM"]},
    flash_attention=_MCORE_FLASH,
    tiny={**_MCORE, **_GROUPED_HEADS, "fp32_residual_connection": True},
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
        "use_contiguous_weight_layout_attention": ("flag",),
        "moe_router_force_expert_balance": ("flag",),
        "normalization": ("text",),
        "apply_rope_fusion": ("flag",),
    },
    layout={"templates": ["moe"], "num_layers": ["num_hidden_layers", "num_layers"]},
    variants=(
        VariantCase(build={}),
        VariantCase(build={"use_contiguous_weight_layout_attention": True}),
    ),
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
        VariantCase(
            build={"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 1, "topk_group": 1},
            when=({"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 1},),
        ),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": True, "n_group": 4}),
        VariantCase(build={"hidden_act": "swiglu", "mla_qkv_concat": False, "n_group": 4}),
        VariantCase(
            build={"hidden_act": "fusedswiglu", "mla_qkv_concat": False, "n_group": 4},
            when=tuple({**fused, "mla_qkv_concat": False, "n_group": 4} for fused in _FUSED),
        ),
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
    tiny={**_MCORE, **_GROUPED_HEADS, "fp32_residual_connection": True},
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
    tiny={**_MCORE, **_LATENT_MOE, "fp32_residual_connection": True, "topk_group": 2},
    templates=_LATENT_TEMPLATES,
    switches=_LATENT,
    layout=_DENSE_THEN_MOE,
    variants=(
        VariantCase(
            build={"hidden_act": "fusedswiglu", "mla_qkv_concat": False, "n_group": 0, "topk_group": 0},
            when=tuple({**fused, "mla_qkv_concat": False, "n_group": 0} for fused in _FUSED),
        ),
        VariantCase(
            build={"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 0, "topk_group": 0},
            when=({"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 0},),
        ),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": False, "n_group": 4}),
        VariantCase(build={"hidden_act": "silu", "mla_qkv_concat": True, "n_group": 4}),
    ),
)

FAMILIES: dict[str, FamilyCase] = {
    case.name: case for case in (LLAMA, GLM, QWEN3, QWEN3_MOE, DEEPSEEK_V3, TELECHAT3, TELECHAT3_MOE)
}
