"""The families of legacy models that the catalog covers (``use_legacy: True``)."""

from __future__ import annotations

from catalog_cases import BATCH, HEADS, SEQUENCE, Config, FamilyCase, VariantCase

# Several heads of 32: with one head MindSpore folds every Transpose into a Reshape.
_LEGACY: Config = {
    "batch_size": BATCH,
    "seq_length": SEQUENCE,
    "hidden_size": 128,
    "num_layers": 3,
    "compute_dtype": "bfloat16",
    "layernorm_compute_type": "float32",
    "rotary_dtype": "float32",
    "param_init_type": "float32",
}
# The interleaved layer exists only with model_parallel > 1.
_INTERLEAVED: Config = {
    "use_flash_attention": True,
    "fine_grain_interleave": 2,
    "parallel_config": {"model_parallel": 2},
}


_SELECTS: Config = {"parallel_config": {"recompute": {"select_recompute": True}}}


def _flash(**build: object) -> VariantCase:
    """With flash attention, what is selected for recompute does not change how the layer is built."""
    return VariantCase(build={"use_flash_attention": True, **build}, when=({}, _SELECTS))


def _self_recomputing(**build: object) -> VariantCase:
    """Without flash attention, any select_recompute makes the attention recompute itself, whatever it selects."""
    parallel_config = {"recompute": {"select_recompute": {"no_such_operator": True}}}
    return VariantCase(build={**build, "parallel_config": parallel_config}, when=(_SELECTS,))


LLAMA = FamilyCase(
    name="llama",
    title="Llama, Llama 2, Llama 3, Qwen2.5 (legacy model)",
    legacy=True,
    config="llama.llama_config:LlamaConfig",
    model="llama.llama:LlamaForCausalLM",
    identify={"config_types": ["LlamaConfig"], "arch_types": ["LlamaForCausalLM"]},
    flash_attention=r"attention\.flash_attention",
    tiny={**_LEGACY, "num_heads": HEADS, "vocab_size": 128, "multiple_of": 16, "input_sliced_sig": True},
    templates={"dense": "model.layers.1"},
    rotary_batch=(BATCH, HEADS),
    switches={
        "fine_grain_interleave": ("above_one",),
        "use_flash_attention": ("flag",),
        "qkv_concat": ("flag",),
        "qkv_has_bias": ("flag",),
        "attn_proj_has_bias": ("flag",),
        "fused_rms_norm": ("flag",),
        "moe_config.expert_num": ("above_one",),
        "parallel_config.recompute.select_recompute": ("flag",),
    },
    layout={"templates": ["dense"], "num_layers": ["num_layers"]},
    variants=(
        _flash(),
        _flash(qkv_concat=True),
        _flash(qkv_has_bias=True),
        _flash(qkv_concat=True, qkv_has_bias=True),
        _flash(fused_rms_norm=False),
        VariantCase(build={}),
        VariantCase(build={"qkv_concat": True}),
        VariantCase(build={"fused_rms_norm": False}),  # what trains on a CPU
        _self_recomputing(),
        _self_recomputing(qkv_concat=True),
        _self_recomputing(fused_rms_norm=False),
        VariantCase(build=_INTERLEAVED, when=({}, _SELECTS)),
        VariantCase(build={**_INTERLEAVED, "qkv_concat": True}, when=({}, _SELECTS)),
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
        "num_attention_heads": HEADS,
        "multi_query_group_num": 2,
        "kv_channels": 32,
        "ffn_hidden_size": 256,
        "padded_vocab_size": 128,
    },
    templates={"dense": "transformer.encoder.layers.1"},
    rotary_batch=(BATCH, SEQUENCE),
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
        "attention_dropout": ("above_zero",),
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

FAMILIES = (LLAMA, GLM)
