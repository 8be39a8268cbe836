"""docs/evidence/pynative-cards.md: what public PyNative runs on eight cards had allocated, beside dry runs of theirs.

Started by `scripts/generations.sh cards`, with the environment of mindformers 2.1.0. A run leaves its figures in the
folder of generations.sh, and is not run again. The measured figures stand in published/whole_device.csv, their source
in whole_device.py; the shapes are those of the configs there.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from evidence_page import opening, table
from whole_device import SOURCE

from swapconf.words.units import GIB

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "pynative-cards.md"
DATA = Path(__file__).with_name("published") / "whole_device.csv"
CONFIG = "qwen3"  # of configs/pynative; its data set has the columns of these runs
COMMENT = "Made by scripts/evidence/pynative_cards.py; edit that."
_KEYS = {
    "tp": "tensor_parallel",
    "cp": "context_parallel",
    "pp": "pipeline_parallel",
    "ep": "expert_parallel",
    "dp": "data_parallel_shard",
}
_CARDS = 8
_FIRST_OF_THE_LAST_STAGE = 4  # of two stages; the profiler was on this rank and on rank 0
_ALIKE = (
    "attention_dropout: 0.0, params_dtype: float32, compute_dtype: bfloat16, layernorm_compute_dtype: float32, "
    "softmax_compute_dtype: float32, rotary_dtype: float32, rope_theta: 10000, rms_norm_eps: 1.e-6, "
    "vocab_size: 129280, seq_length: 4096, num_attention_heads: 8, use_flash_attention: True, qk_layernorm: True, "
    "gated_linear_unit: True"
)
_QWEN = (
    "model={{model_type: qwen3, architectures: Qwen3ForCausalLM, num_hidden_layers: {layers}, hidden_size: 256, "
    "intermediate_size: 512, num_key_value_heads: 4, head_dim: 32, hidden_act: silu, max_position_embeddings: 4096, "
    "use_cache: False, tie_word_embeddings: False, attention_bias: False, position_embedding_type: rope, "
    "qkv_concat: True, {alike}}}"
)
_DEEPSEEK = (
    "model={{model_type: deepseek_v3, architectures: DeepseekV3ForCausalLM, num_hidden_layers: {layers}, "
    "num_nextn_predict_layers: {predicted}, hidden_size: 1792, intermediate_size: 3072, hidden_act: fusedswiglu, "
    "max_position_embeddings: 163840, add_bias_linear: False, use_attn_mask_compression: True, "
    "multi_latent_attention: True, mla_qkv_concat: True, kv_lora_rank: 512, q_lora_rank: 1536, qk_rope_head_dim: 64, "
    "v_head_dim: 192, qk_nope_head_dim: 128, hidden_dropout: 0.0, initializer_range: 0.01, "
    "mtp_loss_scaling_factor: 0.3, position_embedding_type: yarn, rotary_scaling_factor: 40, beta_fast: 32, "
    "beta_slow: 1, mscale: 1, mscale_all_dim: 1, router_dense_type: float32, moe_grouped_gemm: True, "
    "scoring_func: sigmoid, norm_topk_prob: True, moe_intermediate_size: 1024, routed_scaling_factor: 2.5, "
    "first_k_dense_replace: 1, n_routed_experts: 8, num_experts_per_tok: 4, n_shared_experts: 1, "
    "moe_shared_expert_intermediate_size: 1024, moe_router_load_balancing_type: seq_aux_loss, "
    "moe_aux_loss_coeff: 0.001, moe_router_enable_expert_bias: True, moe_router_bias_update_rate: 0.001, "
    "topk_group: 2, n_group: 4, {alike}}}"
)
HEAD = (
    "run",
    "rank",
    "allocated on the card, B",
    "dry run, B",
    "off",
    "reserved on the card, GiB",
    "with fragments, GiB",
)
MUCH = 0.01
_USED, _WITH_FRAGMENTS, _BLOCKING = "used_peak_bytes", "with_fragments_peak_bytes", "blocking_bytes"
RACED = ("run", "allocated on the card, B", "dry run, B", "with --launch-blocking, B", "off")
SUMMARY = ("layout", "runs", "least off", "most off")
INTRODUCTION = """
## How it was made

The runs of [whole-device.md](whole-device.md): Qwen3 of hidden size 256 and DeepSeek-V3 of hidden size 1,792, of 4 to
46 layers, on eight Ascend cards with MindSpore 2.10.0, the real hyper_parallel and a mindformers of 2026 (commit
d8b14de9) that is in no release ({source}).
Of one rank MindSpore's profiler says, in MB of 1,000 KiB: *allocated*, what is in use, as the *used peak* of a dry run;
*reserved*, what the pool took of the card with virtual memory. *dry run*: `swapconf dryrun` of the same layout with
mindformers 2.1.0, MindSpore 2.10.0 and the stand-in for hyper_parallel, of the same rank (of pipelines the first of the
last stage), without operator workspace. *with fragments*: its peak in a pool without virtual memory. Where experts are
shared out (ep) tokens are spread evenly, and on the cards they were as the router had it; layers 0-3 of these runs are
recomputed. The runs of Qwen3 that share parameters alone (dp8) are 16,794,624 B below their cards, each by as much;
an attention mask of these runs, 4,096 by 4,096 booleans, takes 16 MiB, but why a second one would be
there is not known.

## Each run

"""
RACES = """
## Where threads race

On shards threads race, on cards as here: when a tensor's memory is given back is not told by the program. So the runs
that are off by more than 1 % were run once more with `--launch-blocking`, which lets each operator end before Python
goes on. c9 is off by one tensor of logits, 1,010 MiB, which its card had given back before.

"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One public run. ``layout``: such as ``tp2 cp2 ep2``."""

    name: str
    layers: int
    layout: str
    allocated_bytes: int
    pool_bytes: int

    @property
    def degrees(self) -> Mapping[str, int]:
        given = {part[:2]: int(part[2:]) for part in self.layout.split()}
        shared = given.get("tp", 1) * given.get("cp", 1) * given.get("pp", 1)
        return {**given, "dp": _CARDS // shared}

    @property
    def rank(self) -> int:
        return _FIRST_OF_THE_LAST_STAGE if self.degrees.get("pp", 1) > 1 else 0

    @property
    def settings(self) -> Iterator[str]:
        degrees, is_qwen = self.degrees, "qwen3" in self.name
        each = 1 if is_qwen else 2  # local_batch_size
        batch = max(each * degrees["dp"], 1 if is_qwen else 4)
        yield f"training={{local_batch_size: {each}, global_batch_size: {batch}, max_norm: 1.0, seed: 42}}"
        keys = ", ".join(f"{_KEYS[name]}: {degree}" for name, degree in degrees.items())
        chunks = self.name.partition("interleave")[2] or "1"
        yield (
            f"parallelism={{{keys}, sequence_parallel: True, context_parallel_method: ulysses, "
            f"pipeline_parallel_interleave_num: {chunks}, moe_token_dispatcher_type: alltoall}}"
        )
        with_experts = "ep" in degrees
        shape = _QWEN if is_qwen else _DEEPSEEK
        yield shape.format(layers=self.layers, alike=_ALIKE, predicted=int(with_experts))
        if with_experts:
            yield "recompute={mode: full, full_recompute_layer: ['0-3']}"


def labels() -> list[Label]:
    with DATA.open(encoding="utf-8", newline="") as file:
        return [
            Label(
                name=row["case"],
                layers=int(row["layers"]),
                layout=row["layout"],
                allocated_bytes=int(row["allocated_bytes"]),
                pool_bytes=int(row["pool_kib"]) << 10,
            )
            for row in csv.DictReader(file)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """A label with the peaks of its dry run. ``blocking_bytes``: with each operator by itself, where it was run so."""

    label: Label
    used_bytes: int
    with_fragments_bytes: int
    blocking_bytes: int | None

    @property
    def off(self) -> float:
        return self.used_bytes / self.label.allocated_bytes - 1

    def cells(self) -> tuple[str, ...]:
        label = self.label
        return (
            label.name,
            str(label.rank),
            f"{label.allocated_bytes:,}",
            f"{self.used_bytes:,}",
            f"{self.off:+.4%}",
            f"{label.pool_bytes / GIB:.2f}",
            f"{self.with_fragments_bytes / GIB:.2f}",
        )


def run(
    dry_run: Callable[[Sequence[str], int, bool], Mapping[str, Any]],
    kept: Path,
    names: Sequence[str],
    *,
    is_written: bool,
) -> None:
    """``dry_run``: settings, a rank and whether launches block to its report. ``names``: beginnings of the runs to do;
    none for all."""
    kept.mkdir(parents=True, exist_ok=True)
    for label in labels():
        if not names or label.name.partition("-")[0] in names:
            _run_one(label, dry_run, kept)
    if is_written:
        PAGE.write_text(page([_read(label, kept) for label in labels() if (kept / f"{label.name}.json").exists()]))


def _run_one(label: Label, dry_run: Callable[[Sequence[str], int, bool], Mapping[str, Any]], kept: Path) -> None:
    """Once; and once more with blocking launches where it is off by much, as threads may have raced otherwise."""
    file = kept / f"{label.name}.json"
    if not file.exists():
        report = dry_run(tuple(label.settings), label.rank, False)
        told = {name: report[name] for name in (_USED, _WITH_FRAGMENTS)}
        file.write_text(json.dumps(told), encoding="utf-8")
        print(*_read(label, kept).cells(), sep="  ", flush=True)
    found = _read(label, kept)
    if abs(found.off) > MUCH and found.blocking_bytes is None:
        blocking = dry_run(tuple(label.settings), label.rank, True)[_USED]
        told = {_USED: found.used_bytes, _WITH_FRAGMENTS: found.with_fragments_bytes, _BLOCKING: blocking}
        file.write_text(json.dumps(told), encoding="utf-8")
        print(label.name, f"blocking: {blocking:,}", sep="  ", flush=True)


def _read(label: Label, kept: Path) -> DryRun:
    told = json.loads((kept / f"{label.name}.json").read_text(encoding="utf-8"))
    return DryRun(
        label=label,
        used_bytes=told[_USED],
        with_fragments_bytes=told[_WITH_FRAGMENTS],
        blocking_bytes=told.get(_BLOCKING),
    )


def _raced(one: DryRun) -> tuple[str, ...]:
    assert one.blocking_bytes is not None
    blocking, allocated = one.blocking_bytes, one.label.allocated_bytes
    return (
        one.label.name,
        f"{allocated:,}",
        f"{one.used_bytes:,}",
        f"{blocking:,}",
        f"{one.off:+.2%} and {blocking / allocated - 1:+.2%}",
    )


def page(found: Sequence[DryRun]) -> str:
    off = [abs(one.off) for one in found]
    within = ", ".join(f"{sum(one <= most for one in off)} within {most:.1%}" for most in (0.001, 0.01, 0.05))
    result = (
        f"Of {len(found)} public runs on eight cards, in {len({one.label.layout for one in found})} layouts, the used "
        f"peak of a dry run is {median(off):.3%} off what was allocated on the card in the median: {within}."
    )
    by_layout: dict[str, list[DryRun]] = {}
    for one in found:
        by_layout.setdefault(one.label.layout, []).append(one)
    rows = [
        (layout, str(len(ones)), *(f"{choose(ones, key=lambda one: abs(one.off)).off:+.4%}" for choose in (min, max)))
        for layout, ones in sorted(by_layout.items())
    ]
    missing = sorted({label.name for label in labels()} - {one.label.name for one in found})
    lines = [*opening("PyNative dry runs beside cards", result, SUMMARY, rows, COMMENT)]
    text = "\n".join(lines) + INTRODUCTION.format(source=SOURCE)
    text += "\n".join(table(HEAD, [one.cells() for one in found]))
    raced = [one for one in found if one.blocking_bytes is not None]
    if raced:
        text += RACES + "\n".join(table(RACED, [_raced(one) for one in raced]))
    return text + (f"\nNot run yet: {', '.join(name.partition('-')[0] for name in missing)}.\n" if missing else "")
