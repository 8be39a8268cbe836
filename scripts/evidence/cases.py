"""The configs that swapconf's own figures are shown on: models and layouts times strategies, each a real dry run.

A case is a config of ``configs/``, some overrides, and the rank that is run. Its name says all three:
``llama512-l4.layer-n20``, ``llama512-pp2.none@4``. The run of the same model without swap and recompute is its
baseline, ``llama512-l4.none``, from which what-if predicts the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LLAMA = "configs/llama2_7b/example1_default_swap.yaml"
QWEN3 = "configs/small/qwen3_default_swap.yaml"
DEEPSEEK_V3 = "configs/small/deepseek_v3_default_swap.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """``changes``: A.B.C=VALUE each, as for ``swapconf dryrun --set``."""

    model: str
    strategy: str
    config: str
    changes: tuple[str, ...]
    rank: int = 0

    @property
    def name(self) -> str:
        return f"{self.model}.{self.strategy}" + (f"@{self.rank}" if self.rank else "")

    @property
    def baseline(self) -> str:
        """The case of the same model and rank without swap and recompute."""
        return f"{self.model}.none" + (f"@{self.rank}" if self.rank else "")

    @property
    def path(self) -> Path:
        return ROOT / self.config


def _changes(settings: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={json.dumps(value)}" for key, value in settings.items())


def _model(**settings: Any) -> dict[str, Any]:
    return {f"model.model_config.{key}": value for key, value in settings.items()}


def _layout(**settings: int | bool) -> dict[str, Any]:
    return {f"parallel_config.{key}": value for key, value in settings.items()}


def _llama(num_layers: int, **settings: Any) -> dict[str, Any]:
    small = {"hidden_size": 512, "num_heads": 8, "seq_length": 1024, "vocab_size": 1024, "multiple_of": 256}
    return _model(num_layers=num_layers, **{**small, **settings})


# at the hidden size of configs/small, the constants of the graph would weigh as much as the tensors
_MCORE = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "seq_length": 512,
    "max_position_embeddings": 512,
    "vocab_size": 1024,
    "intermediate_size": 1536,
}
_QWEN3 = _model(**_MCORE, num_key_value_heads=4, head_dim=64)
_DEEPSEEK_V3 = _model(
    **_MCORE,
    kv_lora_rank=256,
    q_lora_rank=384,
    qk_rope_head_dim=32,
    qk_nope_head_dim=64,
    v_head_dim=64,
    moe_intermediate_size=512,
    moe_shared_expert_intermediate_size=512,
)

_PP2 = _layout(pipeline_stage=2, data_parallel=2, model_parallel=2, micro_batch_num=4)
_PP4 = _layout(pipeline_stage=4, data_parallel=1, model_parallel=2, micro_batch_num=4)
_ONCE = {"runner_config.gradient_accumulation_steps": 1}
_INTERLEAVE = {
    "parallel.pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"},
    **_model(pp_interleave_num=2),
}

_PP2_DP4 = {
    **_layout(pipeline_stage=2, data_parallel=4, model_parallel=1, micro_batch_num=2, vocab_emb_dp=False),
    "parallel.enable_parallel_optimizer": True,
    **_ONCE,
}


def _wide(vocab_size: int, **settings: Any) -> dict[str, Any]:
    """Blocks above 1 GiB: the logits of 8,192 tokens on the last stage."""
    return {**_model(seq_length=8192, vocab_size=vocab_size, **settings), **_PP2_DP4}


_NARROW = {"hidden_size": 256, "num_layers": 2, "num_heads": 4, "n_kv_heads": 2, "intermediate_size": 512}

# name -> (config, overrides)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama512-l2": (LLAMA, _llama(2)),
    "llama512-l4": (LLAMA, _llama(4)),
    "llama512-l6": (LLAMA, _llama(6)),
    "llama512-l12": (LLAMA, _llama(12)),
    "llama512-l4-once": (LLAMA, {**_llama(4), **_ONCE}),
    "llama512-l4-seq": (LLAMA, {**_llama(4), **_layout(use_seq_parallel=True)}),
    "llama512-l4-optimizer": (LLAMA, {**_llama(4), "parallel.enable_parallel_optimizer": True}),
    "llama512-l4-dp8": (LLAMA, {**_llama(4), **_layout(data_parallel=8, model_parallel=1)}),
    "llama512-l4-mp8": (LLAMA, {**_llama(4), **_layout(data_parallel=1, model_parallel=8)}),
    "llama512-pp2": (LLAMA, {**_llama(8), **_PP2, **_ONCE}),
    "llama512-pp4": (LLAMA, {**_llama(8), **_PP4, **_ONCE}),
    "llama512-pp2-interleave": (LLAMA, {**_llama(8), **_PP2, **_ONCE, **_INTERLEAVE}),
    "llama4096-l2": (LLAMA, _model(num_layers=2)),
    "llama4096-l4": (LLAMA, _model(num_layers=4)),
    "qwen3-l4": (QWEN3, _QWEN3),
    "deepseek_v3-l4": (DEEPSEEK_V3, _DEEPSEEK_V3),
    "llama256-pp2-vocab152064": (LLAMA, _wide(152064, **_NARROW)),
    "llama256-pp2-vocab65536": (LLAMA, _wide(65536, **_NARROW)),
}


def _layer(prefetch: int, layers: Any = True) -> dict[str, Any]:
    return {"swap_config": {"swap": True, "layer_swap": [{"backward_prefetch": prefetch, "layers": layers}]}}


def _op(*entries: tuple[str, int, Any]) -> dict[str, Any]:
    return {
        "swap_config": {
            "swap": True,
            "op_swap": [
                {"op_name": name, "backward_prefetch": prefetch, "layers": layers} for name, prefetch, layers in entries
            ],
        }
    }


def _recompute(**settings: Any) -> dict[str, Any]:
    return {f"recompute_config.{key}": value for key, value in settings.items()}


_OFF = {"swap_config": {"swap": False}}
STRATEGIES: dict[str, dict[str, Any]] = {
    "none": _OFF,
    "recompute": {**_OFF, **_recompute(recompute=True)},
    "recompute-2": {**_OFF, **_recompute(recompute=[2])},
    "select-ffn": {**_OFF, **_recompute(select_recompute={r"feed_forward": True})},
    "select-attention": {**_OFF, **_recompute(select_recompute={r"attention": True})},
    "select-flash": {**_OFF, **_recompute(select_recompute={r"attention\.flash_attention": True})},
    "default": {"swap_config": {"swap": True, "default_prefetch": 10}},
    "default-n1": {"swap_config": {"swap": True, "default_prefetch": 1}},
    **{f"layer-n{prefetch}": _layer(prefetch) for prefetch in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)},
    "layer-last": _layer(1, [3]),
    "layer-0-2-n50": _layer(50, [0, 1, 2]),
    "attention": _op(("attention", 10, True)),
    "ffn": _op(("feed_forward", 1, True)),
    "ffn-n20": _op(("feed_forward", 20, True)),
    "norms": _op((r".*norm", 1, True)),
    "add": _op(("add", 5, True)),
    "wq": _op((r"attention\.wq", 1, True)),
    "w2": _op((r"feed_forward\.w2", 1, True)),
    "attention-ffn": _op(("attention", 20, True), ("feed_forward", 15, [1, 2])),
    "layer01-recompute23": {**_layer(10, [0, 1]), **_recompute(recompute=[2, 3])},
    "attention-recompute1": {**_op(("attention", 10, True)), **_recompute(recompute=[1])},
    "attention-select-ffn": {
        **_op(("attention", 10, True)),
        **_recompute(select_recompute={"feed_forward": [0, 1, 2, 3]}),
    },
    "norm-ffn-recomputed": {**_op(("ffn_norm", 1, True)), **_recompute(select_recompute={"feed_forward": [1]})},
    "example4": {
        **_op(("attention", 20, [0, 1, 2]), ("attention", 10, [3]), ("feed_forward", 15, [1, 2])),
        **_recompute(select_recompute={"feed_forward": [0, 3]}),
    },
    **{f"block-{size}": {**_OFF, "context.mempool_block_size": size} for size in ("1.5GB", "3GB", "8GB", "32GB")},
    "limit-16GB": {**_OFF, "context.max_device_memory": "16GB"},
}

# what is run: model -> (strategies, ranks)
MATRIX: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "qwen3-l4": (("none", "layer-n10", "recompute", "default"), (0, 4)),
    "deepseek_v3-l4": (("none", "layer-n10", "recompute", "default"), (0, 4)),
    "llama4096-l4": (("none", "layer-n20", "example4", "recompute"), (0,)),
    "llama512-l4": (
        (
            "none",
            "layer-n1",
            "recompute",
            "layer-n10",
            "attention",
            "ffn",
            "select-ffn",
            "example4",
            "default",
            "layer-n50",
            "layer-n200",
            "layer-n1000",
            "layer01-recompute23",
            "layer-n20",
            "layer-n100",
            "layer-last",
            "layer-0-2-n50",
            "attention-recompute1",
            "select-attention",
            "norms",
            "attention-ffn",
            "attention-select-ffn",
            "norm-ffn-recomputed",
            "wq",
            "w2",
            "add",
            "layer-n5",
            "recompute-2",
        ),
        (0,),
    ),
    "llama512-l2": (("none", "recompute", "layer-n1", "layer-n1000", "layer-n2"), (0,)),
    "llama512-l6": (("none", "recompute", "layer-n1"), (0,)),
    "llama512-l12": (("none", "layer-n10", "layer-n500"), (0,)),
    "llama512-l4-once": (("none", "layer-n1"), (0,)),
    "llama512-l4-seq": (("none", "layer-n10", "recompute"), (0,)),
    "llama512-l4-optimizer": (("none", "layer-n10"), (0,)),
    "llama512-l4-dp8": (("none", "layer-n10"), (0,)),
    "llama512-l4-mp8": (("none", "example4"), (0,)),
    "llama512-pp2": (("none", "recompute", "layer-n10", "layer-n200"), (0, 4)),
    "llama512-pp4": (("none", "default", "layer-n100"), (0, 2, 4, 6)),
    "llama512-pp2-interleave": (("none", "layer-n10", "layer-n200"), (0, 4)),
    "llama4096-l2": (("none", "layer-n1"), (0,)),
    "llama256-pp2-vocab152064": (("none", "block-1.5GB", "block-3GB", "block-8GB", "block-32GB", "limit-16GB"), (4,)),
    "llama256-pp2-vocab65536": (("none",), (4,)),
}


def cases() -> Iterator[Case]:
    """All cases, baselines first, then the first strategy of every model, the second, and so on."""
    found = []
    for model, (strategies, ranks) in MATRIX.items():
        config, settings = MODELS[model]
        for turn, strategy in enumerate(strategies):
            changes = _changes({**settings, **STRATEGIES[strategy]})
            found += [
                (turn, Case(model=model, strategy=strategy, config=config, changes=changes, rank=rank))
                for rank in ranks
            ]
    yield from (case for _, case in sorted(found, key=lambda item: item[0]))
