"""docs/evidence/pynative-cards.md: what public PyNative runs on eight cards had allocated, beside dry runs of theirs.

Started by `scripts/generations.sh cards`, with the environment of mindformers 2.1.0. A run leaves its figures in the
folder of generations.sh, and is not run again. The measured figures stand in published/whole_device.csv, their source
in whole_device.py; the shapes are those of the configs there.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from evidence_page import opening, table
from whole_device import SOURCE

from swapconf.memory.earliest_release import AHEAD, ahead_used_peak_bytes, least_used_peak_bytes
from swapconf.trace import trace_folder
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
_WITHIN = (0.001, 0.01, 0.05)
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
    "least, GiB",
    "most, GiB",
    "reserved on the card, GiB",
)
HOW_FAR = ("operators that Python is ahead", "within 0.1%", "within 1.0%", "within 5.0%", "most off")
_FAR = (0, 1, 2, 4, 6, 8, 16, 32, 64)  # operators
SUMMARY = ("layout", "runs", "least off", "most off", "in the range")
INTRODUCTION = """
## How it was made

The runs of [whole-device.md](whole-device.md): Qwen3 of hidden size 256 and DeepSeek-V3 of hidden size 1,792, of 4 to
46 layers, on eight Ascend cards with MindSpore 2.10.0, the real hyper_parallel and a mindformers of 2026 (commit
d8b14de9) that is in no release ({source}).
Of one rank MindSpore's profiler says, in MB of 1,000 KiB: *allocated*, what is in use, as the *used peak* of a dry run;
*reserved*, what the pool took of the card with virtual memory. *dry run*: `swapconf dryrun --launch-blocking` of the
same layout with mindformers 2.1.0, MindSpore 2.10.0 and the stand-in for hyper_parallel, of the same rank (of pipelines
the first of the last stage), without operator workspace.

## Where threads race

Operators run on threads of their own, behind Python, and a tensor is given back when Python, the graph of the backward
pass and the last operator are all through with it. So its end depends on how far Python is ahead, which no program
says: it is the host's matter. A dry run lets each operator end before Python goes on, so that two runs are the same,
and tells three figures from one run. *most*: Python never ahead. *least*: each tensor of a step ends behind its last
operator, however far Python would have to be ahead for it. *dry run*: Python {ahead} operators ahead, which is read off
these runs; from 2 to 6 they come out alike. Without `--launch-blocking` threads race in the dry run, too, and which of
them is met is luck: c8 gave 9,545,089,024 B in one run and 10,619,780,096 B in another, c16 11,836,573,184 B and
12,380,750,336 B.

"""
RUNS = """
## Each run

"""
BEHIND = """
## What is off

- c9: its card gave back one tensor of logits of 16 bits (1,010 MiB) before the exponential of the loss began: Python
  had left the forward pass by then. That takes 33 to 64 operators ahead, and the dry run then has 10,540,271,616 B,
  16 MiB (0.16%) below the card, about a workspace as below. The four interleaved pipelines held that tensor.
- The runs with experts (ep), whose layers 0-3 are recomputed: tokens are spread evenly here, and on the cards they
  were as the router had it. c24, c26 and c30 are 1.2% to 1.3% below their cards, 200 to 250 MB, which one gathered
  weight of the head (220.94 MiB) would be as well; which of both it is cannot be told from the figures.
- dp8: 16,811,520 B below their cards, each by as much. At their peak, in the backward pass of the loss, ScatterAddExt
  runs, whose workspace is 16,795,136 B at this shape by [its rule](../reference/levels.md), and on
  [another card](pynative-measured.md): that leaves 16,384 B. A dry run of PyNative counts no workspace.
- tp2 dp4, tp4 dp2: 16,384 B as well, one column of 4,096 tokens.

What the pool *reserved* is 0.6% to 1.1% above *most* in pipelines and 2.7% to 9.0% where contexts are shared, and in
the range elsewhere.
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
    """A label with its dry run. ``by_ahead``: its used peak with Python so many operators ahead; ``least_bytes``:
    however far."""

    label: Label
    by_ahead: Mapping[int, int]
    least_bytes: int

    @property
    def ahead_bytes(self) -> int:
        return self.by_ahead[AHEAD]

    @property
    def most_bytes(self) -> int:
        return self.by_ahead[0]

    @property
    def off(self) -> float:
        return self.off_with(AHEAD)

    def off_with(self, ahead: int) -> float:
        return self.by_ahead[ahead] / self.label.allocated_bytes - 1

    @property
    def has_card(self) -> bool:
        """Whether the card is in the range."""
        return self.least_bytes <= self.label.allocated_bytes <= self.most_bytes

    def cells(self) -> tuple[str, ...]:
        label = self.label
        return (
            label.name,
            str(label.rank),
            f"{label.allocated_bytes:,}",
            f"{self.ahead_bytes:,}",
            f"{self.off:+.4%}",
            *(f"{size / GIB:.2f}" for size in (self.least_bytes, self.most_bytes, label.pool_bytes)),
        )


def run(
    dry_run: Callable[[Sequence[str], int, Path], object], kept: Path, names: Sequence[str], *, is_written: bool
) -> None:
    """``dry_run``: of settings and a rank, leaves its traces in a folder. ``names``: beginnings of the runs to do; none
    for all."""
    kept.mkdir(parents=True, exist_ok=True)
    for label in labels():
        if not names or label.name.partition("-")[0] in names:
            _run_one(label, dry_run, kept)
    if is_written:
        found = [one for label in labels() if (one := _read(label, kept)) is not None]
        PAGE.write_text(page(found), encoding="utf-8")


def _run_one(label: Label, dry_run: Callable[[Sequence[str], int, Path], object], kept: Path) -> None:
    if _read(label, kept) is not None:
        return
    with tempfile.TemporaryDirectory(prefix="swapconf-cards-") as folder:
        dry_run(tuple(label.settings), label.rank, Path(folder))
        trace = trace_folder.read(Path(folder) / f"rank_{label.rank}", label.rank)
    told = {"least": least_used_peak_bytes(trace), **{str(far): ahead_used_peak_bytes(trace, far) for far in _FAR}}
    _place(label, kept).write_text(json.dumps(told), encoding="utf-8")
    print(*_dry_run(label, told).cells(), sep="  ", flush=True)


def _place(label: Label, kept: Path) -> Path:
    return kept / f"{label.name}.json"


def _read(label: Label, kept: Path) -> DryRun | None:
    """None where it is to be run, or was before there was a range."""
    file = _place(label, kept)
    told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return _dry_run(label, told) if "least" in told else None


def _dry_run(label: Label, told: Mapping[str, int]) -> DryRun:
    return DryRun(label=label, by_ahead={far: told[str(far)] for far in _FAR}, least_bytes=told["least"])


def _how_far(found: Sequence[DryRun]) -> Iterator[tuple[str, ...]]:
    for far in _FAR:
        off = [abs(one.off_with(far)) for one in found]
        yield (
            str(far) if far else "none, the most",
            *(str(sum(one <= most for one in off)) for most in _WITHIN),
            f"{max(off):.1%}",
        )


def page(found: Sequence[DryRun]) -> str:
    off = [abs(one.off) for one in found]
    within = ", ".join(f"{sum(one <= most for one in off)} within {most:.1%}" for most in _WITHIN)
    result = (
        f"Of {len(found)} public runs on eight cards, in {len({one.label.layout for one in found})} layouts, the used "
        f"peak of a dry run is {median(off):.3%} off what was allocated on the card in the median: {within}. "
        f"{sum(one.has_card for one in found)} cards lie in the range that a race of threads leaves."
    )
    by_layout: dict[str, list[DryRun]] = {}
    for one in found:
        by_layout.setdefault(one.label.layout, []).append(one)
    rows = [
        (
            layout,
            str(len(ones)),
            *(f"{choose(ones, key=lambda one: abs(one.off)).off:+.4%}" for choose in (min, max)),
            str(sum(one.has_card for one in ones)),
        )
        for layout, ones in sorted(by_layout.items())
    ]
    missing = sorted({label.name for label in labels()} - {one.label.name for one in found})
    lines = [*opening("PyNative dry runs beside cards", result, SUMMARY, rows, COMMENT)]
    text = "\n".join(lines) + INTRODUCTION.format(source=SOURCE, ahead=AHEAD)
    text += "\n".join(table(HOW_FAR, list(_how_far(found)))) + RUNS
    text += "\n".join(table(HEAD, [one.cells() for one in found])) + BEHIND
    return text + (f"\nNot run yet: {', '.join(name.partition('-')[0] for name in missing)}.\n" if missing else "")
