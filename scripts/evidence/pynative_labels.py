"""What public PyNative runs on cards took of MindSpore's pool, beside dry runs of the same configs.

A part of docs/evidence/pynative.md; `pynative_runs` starts it. The measured figures stand in
scripts/evidence/published/whole_device.csv, their source in whole_device.py; the shape is that of the configs there.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapconf.words.units import GIB

DATA = Path(__file__).with_name("published") / "whole_device.csv"
LIMIT = 0.05
CONFIG = "qwen3"  # of configs/pynative; its data set has the columns of these runs
SUPPORTED = "dp8"
NOT_SUPPORTED = {"tp": "tensor parallelism", "cp": "context parallelism", "pp": "pipelines", "ep": "expert parallelism"}
SETTINGS = (
    "training={local_batch_size: 1, global_batch_size: 8, max_norm: 1.0, seed: 42, deterministic: True}",
    "parallelism={data_parallel_shard: 8}",
    "model={model_type: qwen3, architectures: Qwen3ForCausalLM, vocab_size: 129280, seq_length: 4096, "
    "max_position_embeddings: 4096, hidden_size: 256, intermediate_size: 512, num_hidden_layers: LAYERS, "
    "num_attention_heads: 8, num_key_value_heads: 4, head_dim: 32, hidden_act: silu, rms_norm_eps: 1.e-6, "
    "use_cache: False, tie_word_embeddings: False, rope_theta: 10000, attention_bias: False, "
    "use_flash_attention: True, attention_dropout: 0.0, params_dtype: float32, compute_dtype: bfloat16, "
    "layernorm_compute_dtype: float32, softmax_compute_dtype: float32, rotary_dtype: float32, "
    "position_embedding_type: rope, qk_layernorm: True, qkv_concat: True, gated_linear_unit: True}",
)
HEAD = """
## Beside real runs

The runs of [whole-device.md](whole-device.md) that share parameters over eight cards and do nothing else: Qwen3 of
hidden size 256, sequences of 4,096, a vocabulary of 129,280, of 6 to 46 layers, with MindSpore 2.10.0, the real
hyper_parallel and another mindformers (commit d8b14de9). *pool*: what MindSpore's profiler says of the pool of rank 0
in steps 7 and 8. *dry run*: the used peak here, of 2.0.0 with `data_parallel_shard: 8` and the stand-in, without
operator workspace. *with fragments*: the same in the simulated pool, which has no virtual memory; on the cards, which
have, the pool of the first run was 0.1 % above what was used of it.

| run | layers | pool, GiB | dry run, GiB | off | with fragments, GiB |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    name: str
    layers: int
    layout: str
    pool_bytes: int

    @property
    def settings(self) -> tuple[str, ...]:
        return tuple(setting.replace("LAYERS", str(self.layers)) for setting in SETTINGS)


def labels() -> list[Label]:
    with DATA.open(encoding="utf-8", newline="") as file:
        return [
            Label(
                name=row["case"], layers=int(row["layers"]), layout=row["layout"], pool_bytes=int(row["pool_kib"]) << 10
            )
            for row in csv.DictReader(file)
        ]


def section(rehearse: Callable[[Sequence[str]], tuple[int, int]]) -> str:
    """The part of the page. ``rehearse``: settings to (used peak, with fragments) of a dry run, in bytes."""
    rows, runs, others = [], list[tuple[Label, int]](), defaultdict[str, list[str]](list)
    for label in sorted(labels(), key=lambda one: one.layers):
        if label.layout != SUPPORTED:
            others[label.layout].append(label.name.partition("-")[0])
            continue
        used, whole = rehearse(label.settings)
        runs.append((label, used))
        off = f"{used / label.pool_bytes - 1:+.1%}"
        cells = (label.name, str(label.layers), _gib(label.pool_bytes), _gib(used), off, _gib(whole))
        rows.append(f"| {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return HEAD + "\n".join([*rows, "", *_told(runs), "", *(_refused(*one) for one in sorted(others.items()))]) + "\n"


def _told(runs: Sequence[tuple[Label, int]]) -> list[str]:
    off = [used / label.pool_bytes - 1 for label, used in runs]
    within = sum(abs(one) <= LIMIT for one in off)
    (least, used), (most, used_most) = runs[0], runs[-1]
    layers = most.layers - least.layers
    pool_mb, dry_mb = (
        (after - before) / layers / 1e6 for before, after in ((least.pool_bytes, most.pool_bytes), (used, used_most))
    )
    return [
        f"**{within} of {len(runs)} are within {LIMIT:.0%}**, {min(off):+.1%} to {max(off):+.1%}. A layer more takes",
        f"{dry_mb:.1f} MB here and took {pool_mb:.1f} MB there; why is not known, and the mindformers is not the same.",
        "Of the 25 runs these are all that are rehearsed. The others are refused, as the stand-in has no parallel",
        "operators:",
    ]


def _refused(layout: str, names: Sequence[str]) -> str:
    why = ", ".join(words for part, words in NOT_SUPPORTED.items() if part in layout)
    return f"- {layout} ({', '.join(names)}): {why}"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"
