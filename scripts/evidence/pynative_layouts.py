"""SEED + SHAPE -> the same SHAPE on several ranks of mindformers 2.1.0, and which of them is looked at.

Every dimension that a model has may be shared out: tensors (with sequences), contexts, experts, stages, parameters.
What mindformers asks for is heeded: heads for each rank that exchanges them, a compressed mask for shared sequences,
and pipelines of models that tell where a stage begins, which swap nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from pynative_strategies import Shape

KINDS = ("full", "select", "swap", "full swap", "select swap", "full select")
IN_PIPELINES = ("full", "select", "full select")
STAGED = ("deepseek_v3",)  # Qwen3 of 2.1.0 has no place where a stage begins


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """``rank``: that is looked at, the first of a stage. ``kinds``: of strategies."""

    shape: Shape
    rank: int
    kinds: tuple[str, ...]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Degrees:
    tensor: int
    context: int
    expert: int
    stages: int
    shards: int

    @property
    def ranks(self) -> int:
        """Of one stage."""
        return self.tensor * self.context * self.shards

    @property
    def are_some(self) -> bool:
        return max(self.tensor, self.context, self.expert, self.stages) > 1 and self.ranks % self.expert == 0


def shared(rng: Random, shape: Shape) -> Shared:
    degrees = _degrees(rng, shape.model)
    settings = {**shape.settings, **_split(rng, degrees, shape)}
    batches = rng.randint(2, 4) if degrees.stages > 1 else rng.randint(1, 4)
    local = settings["training.local_batch_size"]
    assert isinstance(local, int)
    settings["training.global_batch_size"] = local * batches * degrees.shards
    extra = settings.get("model.num_nextn_predict_layers", 0)
    layers = settings["model.num_hidden_layers"]
    assert isinstance(layers, int)
    assert isinstance(extra, int)
    rank = rng.randrange(degrees.stages) * degrees.ranks
    made = replace(shape, settings=settings, num_batches=batches, num_layers=layers + extra)
    kinds = IN_PIPELINES if degrees.stages > 1 else KINDS
    return Shared(shape=made, rank=rank, kinds=kinds, text=_text(degrees, settings, rank))


def _degrees(rng: Random, model: str) -> _Degrees:
    while True:
        made = _Degrees(
            tensor=rng.choice([1, 2, 2, 4]),
            context=rng.choice([1, 1, 2]),
            expert=rng.choice([1, 2]) if model in STAGED else 1,
            stages=rng.choice([1, 1, 2]) if model in STAGED else 1,
            shards=rng.choice([1, 2, 2, 4]),
        )
        if made.are_some:
            return made


def _split(rng: Random, degrees: _Degrees, shape: Shape) -> Mapping[str, object]:
    made: dict[str, object] = {
        "parallelism.tensor_parallel": degrees.tensor,
        "parallelism.context_parallel": degrees.context,
        "parallelism.data_parallel_shard": degrees.shards,
        "model.num_attention_heads": 8,
    }
    if shape.model not in STAGED:
        made["model.num_key_value_heads"] = 8
    if degrees.tensor > 1:
        made["parallelism.sequence_parallel"] = True
    if degrees.expert > 1:
        made["parallelism.expert_parallel"] = degrees.expert
    if degrees.context > 1:
        made["parallelism.context_parallel_method"] = rng.choice(["colossal", "ulysses"])
        made["model.use_attn_mask_compression"] = True
        length = rng.choice([3072, 4096])  # that of a compressed mask is more than 2,048
        for key in ("train_dataset.dataloader.config.seq_length", "model.seq_length", "model.max_position_embeddings"):
            made[key] = length
    if degrees.stages > 1:
        made["parallelism.pipeline_parallel"] = degrees.stages
        made["model.num_hidden_layers"] = 4  # which stages and their chunks divide
        interleaved, schedule = rng.choice([(1, "1f1b"), (2, "1f1b"), (1, "gpipe")])
        made["parallelism.pipeline_parallel_interleave_num"] = interleaved
        made["parallelism.pipeline_parallel_schedule"] = schedule
    return made


def _text(degrees: _Degrees, settings: Mapping[str, object], rank: int) -> str:
    method = settings.get("parallelism.context_parallel_method", "")
    schedule = settings.get("parallelism.pipeline_parallel_schedule", "")
    if settings.get("parallelism.pipeline_parallel_interleave_num") == 2:
        schedule = "interleaved"
    parts = (
        ("tp", degrees.tensor, ""),
        ("cp", degrees.context, f" {method}"),
        ("ep", degrees.expert, ""),
        ("pp", degrees.stages, f" {schedule}"),
        ("dp", degrees.shards, ""),
    )
    told = " ".join(f"{name}{degree}{more}" for name, degree, more in parts if degree > 1)
    return f"{told}, rank {rank}"
