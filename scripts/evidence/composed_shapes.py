"""SEED -> SHAPES: random stages of layouts, each a dry run of half a minute, and the runs to compose them from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from swapconf.config import overrides
from swapconf.dryrun.rank_order import RankOrder

ROOT = Path(__file__).parents[2]
ROLES = ("first", "middle, odd", "middle, even", "last", "only")
_MODEL: Mapping[str, Any] = {"hidden_size": 512, "vocab_size": 4096, "seq_length": 1024}
_MCORE: Mapping[str, Any] = {
    **_MODEL,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 1536,
    "max_position_embeddings": 1024,
}
_LEGACY: Mapping[str, Any] = {**_MODEL, "num_heads": 8}


@dataclass(frozen=True, kw_only=True)
class Base:
    """What all stages that are composed of the same runs share. ``data``: degrees of data parallelism to draw from,
    first that of the runs; ``others``: further settings."""

    name: str
    config: str
    model: Mapping[str, Any]
    layers_key: str
    inputs: int
    data: tuple[int, ...]
    sequence_parallel: bool = False
    model_parallel: int = 2
    others: Mapping[str, Any] = field(default_factory=dict)


BASES = (
    Base(
        name="qwen3",
        config="configs/small/qwen3_default_swap.yaml",
        model=_MCORE,
        layers_key="num_hidden_layers",
        inputs=4,
        data=(1,),
    ),
    Base(
        name="llama",
        config="configs/llama2_7b/example1_default_swap.yaml",
        model=_LEGACY,
        layers_key="num_layers",
        inputs=0,
        data=(2, 4),
        sequence_parallel=True,
    ),
    Base(
        name="deepseek_v3",
        config="configs/small/deepseek_v3_default_swap.yaml",
        model={"first_k_dense_replace": 0},
        layers_key="num_hidden_layers",
        inputs=4,
        data=(2,),
        sequence_parallel=True,
        others={  # as mindformers publishes its 671B
            "parallel.enable_parallel_optimizer": True,
            "optimizer.swap": True,
            "lr_schedule": {"type": "ConstantWarmUpLR", "learning_rate": 2e-5, "warmup_steps": 200, "total_steps": -1},
        },
    ),
)


# as published by mindformers (configs/qwen3/pretrain_qwen3_32b_4k.yaml, research/llama3_1/llama3_1_8b), of few layers
PUBLISHED = (
    Base(
        name="qwen3_32b",
        config="configs/small/qwen3_default_swap.yaml",
        model={
            "hidden_size": 5120,
            "intermediate_size": 25600,
            "vocab_size": 151936,
            "seq_length": 4096,
            "max_position_embeddings": 4096,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        layers_key="num_hidden_layers",
        inputs=4,
        data=(1, 2),
        model_parallel=4,
    ),
    Base(
        name="llama3_1_8b",
        config="configs/llama2_7b/example1_default_swap.yaml",
        model={
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "vocab_size": 128256,
            "seq_length": 8192,
            "num_heads": 32,
            "n_kv_heads": 8,
        },
        layers_key="num_layers",
        inputs=0,
        data=(2, 4),
        sequence_parallel=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One stage of a layout: ``layers`` in it, one in every other."""

    base: Base
    role: str
    stages: int
    stage: int
    layers: int
    micro_batches: int
    data: int

    @property
    def name(self) -> str:
        layout = f"{self.base.name}.dp{self.data}pp{self.stages}.stage{self.stage}"
        return f"{layout}.layers{self.layers}.mb{self.micro_batches}"

    @property
    def rank(self) -> int:
        return self.stage * self.data * self.base.model_parallel

    def changes(self) -> tuple[str, ...]:
        total = self.layers + self.stages - 1
        shares = [self.layers if stage == self.stage else 1 for stage in range(self.stages)]
        offset = [share - total // self.stages for share in shares]
        settings: dict[str, Any] = {f"model.model_config.{key}": value for key, value in self.base.model.items()}
        settings |= {
            f"model.model_config.{self.base.layers_key}": total,
            "model.model_config.offset": offset if self.stages > 1 else 0,
            "parallel_config.data_parallel": self.data,
            "parallel_config.model_parallel": self.base.model_parallel,
            "parallel_config.pipeline_stage": self.stages,
            "parallel_config.use_seq_parallel": self.base.sequence_parallel,
            "parallel_config.micro_batch_num": self.micro_batches if self.stages > 1 else 1,
            "runner_config.gradient_accumulation_steps": self.micro_batches if self.stages == 1 else 1,
            "swap_config": {"swap": False},
            "recompute_config.recompute": False,
            "recompute_config.select_recompute": False,
            "recompute_config.select_comm_recompute": False,
        }
        settings |= self.base.others
        if self.base.inputs:
            settings["parallel.dataset_strategy"] = [[self.data, 1]] * self.base.inputs
        return tuple(f"{key}={json.dumps(value)}" for key, value in settings.items())

    @property
    def sources(self) -> tuple[Shape, ...]:
        """The runs that it is composed of: two and three layers of the same role, with ten micro-batches. In the middle
        of eight stages, where four and five of them are in flight."""
        stages = {"only": 1, "first": 4, "last": 4}.get(self.role, 8)
        stage = {"middle, odd": 3, "middle, even": 4, "last": 3}.get(self.role, 0)
        return tuple(
            replace(self, stages=stages, stage=stage, layers=layers, micro_batches=10, data=self.base.data[0])
            for layers in ((2, 4) if self.role == "only" else (2, 3))
        )


def shape(rng: Random, base: Base, role: str) -> Shape:
    """A random stage. MindSpore takes eight devices, or a power of two, or a multiple of eight."""
    data = rng.choice(base.data)
    stages = 1 if role == "only" else rng.choice((4, 8) if role.startswith("middle") else (2, 4, 8))
    if role == "middle, odd" and data * base.model_parallel % 8 == 0 and rng.random() < 0.5:
        stages = 3
    first = {"middle, odd": 1, "middle, even": 2, "last": stages - 1}.get(role, 0)
    return Shape(
        base=base,
        role=role,
        stages=stages,
        stage=rng.randrange(first, stages - 1, 2) if role.startswith("middle") else first,
        layers=2 * rng.randint(1, 2) if role == "only" else rng.randint(2, 3),
        micro_batches=rng.randint(max(stages, 2), stages + 5),
        data=data,
    )


def shapes(seed: int, count: int, bases: Sequence[Base] = BASES) -> tuple[Shape, ...]:
    """So many different ones, the bases and roles in turns, none of them a source."""
    rng, found = Random(seed), dict[str, Shape]()
    turn = 0
    while len(found) < count:
        one = shape(rng, bases[turn % len(bases)], ROLES[turn // len(bases) % len(ROLES)])
        turn += 1
        if one.name not in {source.name for source in one.sources}:
            found.setdefault(one.name, one)
    return tuple(found.values())


def runs(cases: Sequence[Shape]) -> tuple[Shape, ...]:
    """All that have to be run, sources first."""
    sources = {source.name: source for one in cases for source in one.sources}
    return (*sources.values(), *(one for one in cases if one.name not in sources))


def order(one: Shape, folder: Path) -> RankOrder:
    document = overrides.read(["--config", str(ROOT / one.base.config)], one.changes())
    assert document is not None
    return RankOrder(document=document, rank=one.rank, keep=folder)
