"""FACTS -> SIDES: each layout of a public pair as a YAML of our own, without and with its strategy.

The YAML is that of examples, with the sizes, types and degrees that are published (published/layout_sides.json).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases import LLAMA, ROOT

from swapconf.config.overrides import of_file
from swapconf.study.study import Study, study_for_run

FACTS = Path(__file__).parent / "published" / "layout_sides.json"
_TYPES = ("compute_dtype", "param_init_type", "rotary_dtype")


@dataclass(frozen=True, kw_only=True)
class Side:
    """One layout of a pair. ``strategy``: of ``recompute_config`` and ``swap_config``; ``sequences``: in a step."""

    name: str
    model: Mapping[str, Any]
    dp: int = 1
    tp: int = 1
    pp: int = 1
    sp: bool = False
    shard: bool = True
    batch: int = 1
    micro: int = 1
    strategy: Mapping[str, Any] = field(default_factory=dict)
    budget: str = ""

    @property
    def cards(self) -> int:
        return self.dp * self.tp * self.pp

    @property
    def tokens(self) -> float:
        """Of one card in a step."""
        return float(self.batch * self.micro * self.dp * self.model["seq_length"]) / self.cards

    def changes(self) -> tuple[str, ...]:
        """Of the YAML of examples, without a strategy."""
        settings: dict[str, Any] = {f"model.model_config.{key}": value for key, value in self.model.items()}
        settings |= {
            "runner_config.batch_size": self.batch,
            "runner_config.gradient_accumulation_steps": self.micro if self.pp == 1 else 1,
            "parallel.enable_parallel_optimizer": self.shard,
            "parallel_config.data_parallel": self.dp,
            "parallel_config.model_parallel": self.tp,
            "parallel_config.pipeline_stage": self.pp,
            "parallel_config.use_seq_parallel": self.sp,
            "parallel_config.micro_batch_num": self.micro if self.pp > 1 else 1,
            "parallel_config.vocab_emb_dp": self.pp == 1,
            "swap_config": {"swap": False},
        }
        return tuple(f"{key}={json.dumps(value)}" for key, value in settings.items())

    def study(self, *, plain: bool = False) -> Study:
        """``plain``: without its strategy."""
        told = {} if plain else self.strategy
        more = tuple(f"{key}={json.dumps(value)}" for key, value in told.items())
        return study_for_run(of_file(str(ROOT / LLAMA), (*self.changes(), *more)), os.environ)


def sides() -> dict[str, Side]:
    """By name."""
    told = json.loads(FACTS.read_text(encoding="utf-8"))
    return {
        name: Side(name=name, **{**item, "model": {**told["models"][item["model"]], **item.get("sizes", {})}})
        for name, item in told["sides"].items()
    }


def named(names: Sequence[str]) -> list[Side]:
    known = sides()
    return [known[name] for name in names]
