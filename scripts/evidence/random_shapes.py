"""SEED -> SHAPE: a random model and layout of any family of the catalog, small enough for a dry run in half a minute.

Sequences are long and vocabularies and weights small, so that activations, not the optimizer, set the peak of memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[2]
LEGACY, DENSE, EXPERTS = (
    f"configs/{name}_default_swap.yaml" for name in ("llama2_7b/example1", "small/qwen3", "small/deepseek_v3")
)
FAMILIES = ("llama", "glm2", "qwen3", "qwen3_moe", "deepseek_v3", "telechat3", "telechat3_moe")
NO_STRATEGY: Mapping[str, Any] = {
    "swap_config": {"swap": False},
    "recompute_config.recompute": False,
    "recompute_config.select_recompute": False,
    "recompute_config.select_comm_recompute": False,
}
NOTHING_SWAPPED: Mapping[str, Any] = {"swap_config": {"swap": True, "layer_swap": [], "op_swap": []}}

_GLM = {
    "type": "ChatGLM2Config",
    "use_flash_attention": True,
    "rmsnorm": True,
    "add_qkv_bias": True,
    "kv_channels": 64,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "layernorm_epsilon": 1e-5,
}
GROUPED_MOE = {
    "num_experts_per_tok": 2,
    "moe_grouped_gemm": True,
    "norm_topk_prob": False,
    "moe_aux_loss_coeff": 0.001,
    "moe_token_drop_policy": "probs",
    "num_experts": 8,
    "moe_router_pre_softmax": True,
    "moe_router_load_balancing_type": "gbs_aux_loss",
    "routed_scaling_factor": 1.5,
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """``settings``: dotted key -> value, over ``config``. ``layout``: in words. ``rank``: the one that is run."""

    family: str
    config: str
    settings: Mapping[str, Any]
    layout: str
    rank: int
    num_layers: int
    num_stages: int
    num_interleaves: int

    @property
    def path(self) -> Path:
        return ROOT / self.config

    def changes(self, strategy: Mapping[str, Any] = NO_STRATEGY) -> tuple[str, ...]:
        """A.B.C=VALUE each, as for ``--set``."""
        asked = {**self.settings, **NO_STRATEGY, **strategy}
        return tuple(f"{key}={json.dumps(value)}" for key, value in asked.items())


@dataclass(frozen=True, kw_only=True)
class _Layout:
    data: int
    model: int
    stages: int
    interleaves: int
    micro_batches: int
    sequence_parallel: bool
    optimizer_parallel: bool

    @property
    def devices(self) -> int:
        return self.data * self.model * self.stages

    @property
    def words(self) -> str:
        parts = (
            [f"dp{self.data}", f"mp{self.model}", f"pp{self.stages}"]
            + [f"vpp{self.interleaves}"] * (self.interleaves > 1)
            + [f"mb{self.micro_batches}"]
        )
        return " ".join(parts + ["sp"] * self.sequence_parallel + ["op"] * self.optimizer_parallel)


def shape(rng: Random, family: str) -> Shape:
    legacy, experts = family in ("llama", "glm2"), "moe" in family or family == "deepseek_v3"
    layout = _layout(rng, experts)
    num_layers = _num_layers(rng, layout, experts)
    model = {"llama": _llama, "glm2": _glm}.get(family, _mcore)(rng, family, layout, num_layers)
    settings: dict[str, Any] = {f"model.model_config.{key}": value for key, value in model.items()}
    if family == "glm2":
        settings["model.arch.type"] = "ChatGLM2ForConditionalGeneration"
        settings["train_dataset.input_columns"] = ["input_ids", "labels"]  # GLM is given its labels
    settings |= _parallel(layout, legacy, experts)
    config = LEGACY if legacy else EXPERTS if family in ("deepseek_v3", "telechat3_moe") else DENSE
    return Shape(
        family=family,
        config=config,
        settings=settings,
        rank=rng.randrange(layout.devices),
        layout=f"{num_layers} layers {layout.words}",
        num_layers=num_layers,
        num_stages=layout.stages,
        num_interleaves=layout.interleaves,
    )


def _layout(rng: Random, experts: bool) -> _Layout:
    stages = rng.choice([1, 1, 1, 1, 2, 2, 2, 4]) if not experts else rng.choice([1, 1, 2])
    if experts:  # weights of experts are many; tensor parallelism shares the activations, not those
        data, model = rng.choice([(2, 2), (4, 1), (2, 1)])
    elif stages > 1:
        data, model = rng.choice([(2, 2), (1, 2), (4, 1), (1, 4), (2, 1)])
    else:
        data, model = rng.choice([(2, 2), (2, 4), (4, 2), (8, 1), (1, 2), (1, 4), (4, 1)])
    if stages == 4:
        data, model = rng.choice([(1, 2), (2, 1), (1, 1)])
    interleaves = 2 if stages == 2 and not experts and rng.random() < 0.3 else 1
    batches = stages if interleaves > 1 or stages > 2 else stages + rng.choice([0, 0, 1])
    if stages == 1:
        batches = rng.choice([1, *[2] * 10, 3])
    return _Layout(
        data=data,
        model=model,
        stages=stages,
        interleaves=interleaves,
        micro_batches=batches,
        # mindformers demands it of experts with model_parallel > 1
        sequence_parallel=model > 1 and (experts or rng.random() < 0.3),
        optimizer_parallel=data > 1 and rng.random() < 0.25,
    )


def _num_layers(rng: Random, layout: _Layout, experts: bool) -> int:
    parts = layout.stages * layout.interleaves
    if parts == 1:
        return rng.randint(2, 3) if experts else rng.randint(3, 4)
    # odd numbers need an offset, which _offset deals out
    return rng.randint(3, 4) if experts else rng.randint(max(parts, 4), 6)


def _offset(rng: Random, layout: _Layout, num_layers: int) -> Any:
    """More or fewer layers for some stages; of the even share, which has to be a whole number."""
    parts = layout.stages * layout.interleaves
    rest = num_layers % parts
    if parts == 1 or not rest:
        return 0
    extra = [1] * rest + [0] * (parts - rest)
    rng.shuffle(extra)
    rows = [extra[row * layout.stages : (row + 1) * layout.stages] for row in range(layout.interleaves)]
    return rows if layout.interleaves > 1 else rows[0]


def _heads(rng: Random, layout: _Layout) -> tuple[int, int]:
    """(heads, groups), both shared by tensor parallelism."""
    heads = max(rng.choice([4, 8]), layout.model)
    groups = [number for number in (2, 4, 8) if number <= heads and number % layout.model == 0]
    return heads, rng.choice([heads, *groups])


def _llama(rng: Random, _family: str, layout: _Layout, num_layers: int) -> dict[str, Any]:
    heads, groups = _heads(rng, layout)
    return {
        "hidden_size": heads * rng.choice([32, 64]),
        "num_heads": heads,
        "n_kv_heads": groups,
        "multiple_of": 64,
        "num_layers": num_layers,
        "seq_length": rng.choice([1024, 2048]),
        "vocab_size": rng.choice([512, 1024]),
        "qkv_concat": rng.random() < 0.3,
        "offset": _offset(rng, layout, num_layers),
    }


def _glm(rng: Random, _family: str, layout: _Layout, num_layers: int) -> dict[str, Any]:
    heads, groups = _heads(rng, layout)
    hidden, concat = heads * 64, rng.random() < 0.5
    return {
        **_GLM,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "multi_query_group_num": groups,
        "multi_query_attention": True,
        "ffn_hidden_size": hidden * rng.choice([2, 3]),
        "num_layers": num_layers,
        "seq_length": rng.choice([1024, 2048]),
        "padded_vocab_size": 1024,
        "vocab_size": 1024,
        "qkv_concat": concat,
        "mlp_concat": concat or rng.random() < 0.5,
        "offset": _offset(rng, layout, num_layers),
    }


def _mcore(rng: Random, family: str, layout: _Layout, num_layers: int) -> dict[str, Any]:
    heads, groups = _heads(rng, layout)
    hidden, length = heads * rng.choice([32, 64]), rng.choice([1024, 2048])
    if family == "qwen3_moe":  # all of its layers have experts
        length = 2048
    model: dict[str, Any] = {
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_hidden_layers": num_layers,
        "intermediate_size": hidden * rng.choice([2, 3]),
        "seq_length": length,
        "max_position_embeddings": length,
        "vocab_size": rng.choice([512, 1024]),
        "offset": _offset(rng, layout, num_layers),
    }
    if family in ("deepseek_v3", "telechat3_moe"):
        model |= {
            "first_k_dense_replace": rng.choice([1, 2]),
            "num_nextn_predict_layers": rng.choice([0, 1]),
            "kv_lora_rank": 128,
            "q_lora_rank": 192,
            "qk_rope_head_dim": 32,
            "qk_nope_head_dim": 32,
            "v_head_dim": 32,
            "moe_intermediate_size": 256,
            "moe_shared_expert_intermediate_size": 256,
        }
    else:
        model |= {"num_key_value_heads": groups, "head_dim": hidden // heads}
    if family == "qwen3_moe":
        model |= {
            **GROUPED_MOE,
            "model_type": "qwen3_moe",
            "architectures": ["Qwen3MoeForCausalLM"],
            "hidden_act": "silu",
            "moe_intermediate_size": 256,
            "fp32_residual_connection": rng.random() < 0.5,
        }
    elif family == "telechat3":
        model |= {"model_type": "telechat3", "architectures": ["TeleChat3ForCausalLM"], "qk_layernorm": False}
    elif family == "telechat3_moe":
        model |= {
            "model_type": "telechat3_moe",
            "architectures": ["TeleChat3MoeForCausalLM"],
            "position_embedding_type": "rope",
            "hidden_act": "silu",
            "fp32_residual_connection": True,
        }
    if family in ("qwen3", "telechat3"):
        model |= {"hidden_act": rng.choice(["swiglu", "silu"]), "fp32_residual_connection": rng.random() < 0.5}
    return model


def _parallel(layout: _Layout, legacy: bool, experts: bool) -> dict[str, Any]:
    accumulated = layout.micro_batches if layout.stages == 1 else 1
    found: dict[str, Any] = {
        "parallel_config.data_parallel": layout.data,
        "parallel_config.model_parallel": layout.model,
        "parallel_config.pipeline_stage": layout.stages,
        "parallel_config.micro_batch_num": layout.micro_batches if layout.stages > 1 else 1,
        "parallel_config.use_seq_parallel": layout.sequence_parallel,
        "parallel.enable_parallel_optimizer": layout.optimizer_parallel,
        "runner_config.gradient_accumulation_steps": accumulated,
    }
    if not legacy:
        found["parallel.dataset_strategy"] = [[layout.data, 1]] * 4
    if experts:
        found["parallel_config.expert_parallel"] = min(layout.data, 2)
    if layout.interleaves > 1:
        found |= {
            "parallel.pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"},
            "model.model_config.pp_interleave_num": layout.interleaves,
        }
    return found
