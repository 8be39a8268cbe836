"""What public PyNative runs on cards took of MindSpore's pool, beside dry runs of the same configs.

Parts of docs/evidence/pynative.md; `pynative_runs` starts it. The measured figures stand in
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
TABLE = """
| run | layers | allocated on the card, B | dry run, B | off | reserved on the card, GiB | dry run off that |
|---|---|---|---|---|---|---|
"""
ABOUT = """
## The public runs

The runs of [whole-device.md](whole-device.md) that share parameters over eight cards and do nothing else: Qwen3 of
hidden size 256, sequences of 4,096, a vocabulary of 129,280, of 6 to 46 layers, with MindSpore 2.10.0, the real
hyper_parallel and another mindformers (commit d8b14de9). Of rank 0 MindSpore's profiler says, in steps 7 and 8 and in
MB of 1,000 KiB: *allocated*, what is in use, as the *used peak* of a dry run; *reserved*, what the pool took of the
card with virtual memory, 0.1 % more. *dry run*: the used peak here, of {newest} with `data_parallel_shard: 8`
and the stand-in, without operator workspace.

"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """``allocated_bytes``: None where nobody looked it up."""

    name: str
    layers: int
    layout: str
    allocated_bytes: int | None
    pool_bytes: int

    @property
    def settings(self) -> tuple[str, ...]:
        return tuple(setting.replace("LAYERS", str(self.layers)) for setting in SETTINGS)


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """A label with the used peak of its dry run."""

    label: Label
    used_bytes: int

    @property
    def off(self) -> float:
        assert self.label.allocated_bytes is not None
        return self.used_bytes / self.label.allocated_bytes - 1

    def cells(self) -> str:
        label = self.label
        cells = (
            label.name,
            str(label.layers),
            f"{label.allocated_bytes:,}",
            f"{self.used_bytes:,}",
            f"{self.off:+.2%}",
            f"{label.pool_bytes / GIB:.2f}",
            f"{self.used_bytes / label.pool_bytes - 1:+.2%}",
        )
        return f"| {' | '.join(cells)} |"


def labels() -> list[Label]:
    with DATA.open(encoding="utf-8", newline="") as file:
        return [
            Label(
                name=row["case"],
                layers=int(row["layers"]),
                layout=row["layout"],
                allocated_bytes=int(row["allocated_bytes"]) if row["allocated_bytes"] else None,
                pool_bytes=int(row["pool_kib"]) << 10,
            )
            for row in csv.DictReader(file)
        ]


def supported() -> list[Label]:
    """Those that a dry run does, by their layers."""
    return sorted((label for label in labels() if label.layout == SUPPORTED), key=lambda label: label.layers)


def dry_runs(of: Sequence[Label], dry_run: Callable[[Sequence[str]], int]) -> list[DryRun]:
    """``dry_run``: settings to the used peak of a dry run."""
    found = []
    for label in of:
        found.append(DryRun(label=label, used_bytes=dry_run(label.settings)))
        print(found[-1].cells(), flush=True)
    return found


def opening(newest: str, found: Sequence[DryRun], good: int, rows: int) -> str:
    """The result, for which the page stands. ``rows``: dry runs in its other tables, ``good`` of them as they should
    be."""
    off = [one.off for one in found]
    text = (
        f"Of {len(found)} public runs on eight cards, the used peak of a dry run with {newest} is "
        f"{min(off):+.2%} to {max(off):+.2%} off what\n"
        "MindSpore's profiler says was allocated on the card. In "
        f"{good} of {rows} dry runs more, the blocks of the trace\n"
        "add up to MindSpore's own peak, to the byte.\n"
    )
    return text + TABLE + "".join(f"{one.cells()}\n" for one in found)


def about(newest: str, found: Sequence[DryRun], older: str, ends: Sequence[DryRun]) -> str:
    """What was compared, and which public runs are not. ``ends``: the fewest and the most layers with an ``older``
    mindformers."""
    least, most = found[0], found[-1]
    layers = most.label.layers - least.label.layers
    assert least.label.allocated_bytes is not None
    assert most.label.allocated_bytes is not None
    there = (most.label.allocated_bytes - least.label.allocated_bytes) / layers / 1e6
    here = (most.used_bytes - least.used_bytes) / layers / 1e6
    others = defaultdict[str, list[str]](list)
    for label in labels():
        if label.layout != SUPPORTED:
            others[label.layout].append(label.name.partition("-")[0])
    lines = [
        f"A layer more takes {here:.2f} MB here and took {there:.2f} MB there. With {older} the runs of "
        f"{ends[0].label.layers} and {ends[-1].label.layers} layers are",
        f"{ends[0].off:+.2%} and {ends[-1].off:+.2%} off: the cards ran a mindformers that is nearer to the other.",
        "",
        f"Of the {len(labels())} runs these are all with a dry run. The others are refused, as the stand-in has no "
        "parallel operators:",
        "",
        *(_refused(*one) for one in sorted(others.items())),
    ]
    return ABOUT.format(newest=newest) + "\n".join(lines) + "\n"


def _refused(layout: str, names: Sequence[str]) -> str:
    why = ", ".join(words for part, words in NOT_SUPPORTED.items() if part in layout)
    return f"- {layout} ({', '.join(names)}): {why}"
