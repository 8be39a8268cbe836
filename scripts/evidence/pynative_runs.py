"""docs/evidence/pynative.md: dry runs of PyNative trainings, each peak replayed from its trace.

Started by `scripts/generations.sh pynative`, in the environment of the second generation that it makes. hyper_parallel
is swapconf's stand-in where it is not installed there.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evidence_page import kept

from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import trace_folder
from swapconf.words.units import show_bytes

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/evidence/pynative.md"
PUBLISHED = "## The published YAMLs of 2.1.0"  # by hand
TIMEOUT_SECONDS = 900
MODELS = ("qwen3", "deepseek_v3")  # configs/pynative
FULL = "recompute={mode: full, full_recompute_layer: ['0-3']}"
SELECT = "recompute={mode: select, select_module: {mlp: ['0-3'], self_attention: ['1']}}"
SWAP = "swap={enable: True, default_prefetch: 1, layer_swap: [{layers: ['0-2']}]}"
BOTH = "recompute={mode: full, full_recompute_layer: ['2-3']}"
SWAP_FIRST = "swap={enable: True, default_prefetch: 1, layer_swap: [{layers: ['0-1']}]}"
CASES: Mapping[str, tuple[str, ...]] = {
    "nothing": (),
    "full recompute of layers 0-3": (FULL,),
    "recompute of `mlp` in 0-3, `self_attention` in 1": (SELECT,),
    "swap of layers 0-2": (SWAP,),
    "swap of layers 0-1, full recompute of 2-3": (BOTH, SWAP_FIRST),
    "nothing, 4 micro-batches": ("training.global_batch_size=4",),
}
SHARED = ("parallelism.data_parallel_shard=8", "training.global_batch_size=8")
SHARED_CASES: Mapping[str, tuple[str, ...]] = {
    "nothing": SHARED,
    "full recompute of layers 0-3": (*SHARED, FULL),
    "swap of layers 0-2": (*SHARED, SWAP),
}
NEWEST = "2.1.0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """``rank``: of ``ranks``, which is looked at; of pipelines the first of the last stage."""

    model: str
    text: str
    ranks: int = 2
    rank: int = 0
    settings: tuple[str, ...]


_V3, _V4 = "deepseek_v3", "deepseek_v4"
_TENSOR = ("parallelism.tensor_parallel=2", "parallelism.sequence_parallel=True")
_EXPERTS = ("parallelism.expert_parallel=2", "parallelism.data_parallel_shard=2", "training.global_batch_size=2")
_CONTEXT = (
    *("parallelism.context_parallel=2", "model.use_attn_mask_compression=True"),
    *("model.seq_length=4096", "model.max_position_embeddings=4096"),  # that of such a mask is more than 2,048
    "train_dataset.dataloader.config.seq_length=4096",
)
_ULYSSES = (*_CONTEXT, "parallelism.context_parallel_method=ulysses")
_SIX_LAYERS = ("parallelism.pipeline_parallel=2", "training.global_batch_size=4")
_STAGES = (*_SIX_LAYERS, "model.num_hidden_layers=4")  # which stages and their chunks divide
_GPIPE = (*_STAGES, "parallelism.pipeline_parallel_schedule=gpipe")
_ROUNDS = (*_TENSOR, *_STAGES, "parallelism.pipeline_parallel_interleave_num=2")
LAYOUTS = (
    Layout(model="qwen3", text="tp2", settings=_TENSOR),
    Layout(model="qwen3", text="cp2 colossal", settings=_CONTEXT),
    Layout(model="qwen3", text="cp2 ulysses", settings=_ULYSSES),
    Layout(model=_V3, text="tp2", settings=_TENSOR),
    Layout(model=_V3, text="ep2 dp2", rank=1, settings=_EXPERTS),
    Layout(model=_V3, text="cp2 ulysses", settings=_ULYSSES),
    Layout(model=_V3, text="pp2 1F1B, 4 micro-batches", rank=1, settings=_STAGES),
    Layout(model=_V3, text="pp2 GPipe, 4 micro-batches", rank=1, settings=_GPIPE),
    Layout(model=_V3, text="tp2 pp2 interleaved, 4 micro-batches", ranks=4, rank=2, settings=_ROUNDS),
    Layout(model=_V4, text="tp2", settings=_TENSOR),
    Layout(model=_V4, text="ep2 dp2", rank=1, settings=_EXPERTS),
    Layout(model=_V4, text="pp2 1F1B, 4 micro-batches", rank=1, settings=_SIX_LAYERS),
)

INTRODUCTION = """
## How it was made

Whole training steps of mindformers' own PyNative trainer (model, loss, backward pass, gradient clipping, optimizer),
two of them, on one simulated card: `swapconf dryrun configs/pynative/MODEL.yaml --as-parallel`, which recomputes and
swaps as mindformers does on several cards; and on one of eight ranks that share the parameters (FSDP), with
`--set parallelism.data_parallel_shard=8 --set training.global_batch_size=8`. Made by `scripts/generations.sh pynative`
with {versions}, each with MindSpore 2.10.0; hyper_parallel: {hyper_parallel}.
MindSpore 2.11, for which mindformers 2.1.0 is released, is on no package index; of what 2.1.0 needs of it, the stand-in
has `Tensor.detach`.

- *peak*: MindSpore's own `max_memory_allocated` of the run. *replayed*: the most that the blocks of the trace hold at
  once; it has to be the same, to the byte.
- *addresses*: blocks of the trace that the known rules of MindSpore's pool put where MindSpore put them.
- *ran again*: operators of the second step in layers, without views. *moved*: what it moved to the host, by layer.
- *tp2* (tensors and sequences), *cp2*, *ep2*, *pp2*: with 2.1.0, which is dry-run in every parallel dimension; of one
  rank, in pipelines of the last stage, with `--launch-blocking`. Qwen3 has no stages in mindformers, and no experts.
- *4 micro-batches*: `training.global_batch_size` 4 of `local_batch_size` 1 on one card. mindformers 2.0.0 takes a batch
  of the data set for a step and cuts it, 2.1.0 takes one for each micro-batch, and so does the data set that stands in.

**The sharding is the stand-in's**, not hyper_parallel's: parameters in equal shards of their first dimension, gathered
one by one before the forward and the backward pass of their unit and for the units that mindformers prefetches, given
back after both; gradients summed in 32 bits, each kept whole until the unit after it is through; what eight do not
divide stays whole on each rank. So its public source says (MindSpore's part of it, of 2026, which is on no package
index). Collectives are MindSpore's own, on the simulated rank. What the stand-in does not show: what hyper_parallel
does otherwise than that source, and shards on the host, which are refused at their line. Tensor, context and expert
parallelism and pipelines are held against cards in [pynative-cards.md](pynative-cards.md).

On one card each operator ends before Python goes on, so two runs of one YAML are the same; a real run may give memory
back earlier, see [A dry run, and who ends it](../explanation/a-dry-run.md). On shards threads race as on cards: that is
how rank 0 of [public runs](pynative-cards.md) is met, while the fullest of eight cards held up to 2.0 GiB more. So two
runs may differ: Qwen3 with full recompute on eight ranks of 2.1.0 took 46,432,256 B once and 54,757,376 B another time.

"""

HEAD = """| model | ranks | swap and recompute, or layout | peak, B | replayed | addresses | ran again | moved |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """A pair of versions, installed. ``variables``: of each process. ``kept``: where rows are kept, which are not run
    again."""

    mindformers: str
    mindspore: str
    python: str
    variables: Mapping[str, str]
    kept: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    model: str
    ranks: int
    case: str
    peak_bytes: int
    replayed_bytes: int
    same_addresses: str
    recomputed: str
    moved: str
    hyper_parallel: str
    findings: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return self.peak_bytes == self.replayed_bytes and not self.findings

    def cells(self) -> str:
        same = "the same" if self.peak_bytes == self.replayed_bytes else f"{self.replayed_bytes:,}"
        cells = (self.model, str(self.ranks), self.case, f"{self.peak_bytes:,}", same, self.same_addresses)
        return f"| {' | '.join((*cells, self.recomputed, self.moved))} |"


def config_of(model: str) -> Path:
    return ROOT / f"configs/pynative/{model}.yaml"


def dryrun(
    python: str, variables: Mapping[str, str], config: Path, settings: Sequence[str], *more: str
) -> Mapping[str, Any]:
    """The report of the first rank. Raises RuntimeError where it does not end well."""
    changes = [word for setting in settings for word in ("--set", setting)]
    command = [python, "-m", "swapconf", "dryrun", str(config), "--as-parallel"]
    done = subprocess.run(
        [*command, "--no-cache", "--format", "json", *changes, *more],
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{config.stem}, {' '.join(settings)}:\n{done.stdout}{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)[0]
    return report


def measure(on: Environment, model: str, case: str, settings: Sequence[str], layout: Layout | None = None) -> Row:
    """One dry run. Raises RuntimeError where it does not end well."""
    rank, options = (0, ()) if layout is None else (layout.rank, ("--ranks", str(layout.rank), "--launch-blocking"))
    with tempfile.TemporaryDirectory(prefix="swapconf-pynative-") as keep:
        report = dryrun(on.python, on.variables, config_of(model), settings, "--keep", keep, *options)
        folder = Path(keep) / f"rank_{rank}"
        told = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        trace = trace_folder.read(folder, rank)
        placed = replay(trace, lifetimes(trace))
    return Row(
        model=model,
        ranks=report["shards"] if layout is None else layout.ranks,
        case=case,
        peak_bytes=told["max_memory_allocated_bytes"],
        replayed_bytes=trace.used_peak_bytes,
        same_addresses="all" if placed.is_exact else f"{placed.num_same:,} of {placed.num_blocks:,}",
        recomputed=_again(report),
        moved=_moved(report),
        hyper_parallel=report["hyper_parallel"],
        findings=tuple(finding["message"] for finding in report["findings"]),
    )


def _again(report: Mapping[str, Any]) -> str:
    return ", ".join(f"{item['layer']}: {item['kernels']}" for item in reversed(report["recomputed"])) or "-"


def _moved(report: Mapping[str, Any]) -> str:
    found = [f"{item['layer']}: {item['tensors']}, {show_bytes(item['bytes'])}" for item in report["moved"]]
    return "; ".join(found) or "-"


def measured(on: Environment) -> list[Row]:
    """All cases."""
    rows = []
    cases = [*CASES.items(), *((f"{case}, shared", settings) for case, settings in SHARED_CASES.items())]
    for model in MODELS:
        for name, settings in cases:
            rows.append(_kept(on, name, model, name.removesuffix(", shared"), settings))
    for layout in LAYOUTS if on.mindformers == NEWEST else ():
        rows.append(_kept(on, layout.text, layout.model, layout.text, layout.settings, layout))
    return rows


def _kept(
    on: Environment, name: str, model: str, case: str, settings: Sequence[str], layout: Layout | None = None
) -> Row:
    """``name``: of the case among those of the model."""
    file = on.kept / f"{on.mindformers}-{model}-{re.sub('[^a-z0-9]+', '_', name.lower())}.json"
    if not file.exists():
        on.kept.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(measure(on, model, case, settings, layout))), encoding="utf-8")
    told = json.loads(file.read_text(encoding="utf-8"))
    row = Row(**{**told, "findings": tuple(told["findings"])})
    print(row.cells(), *row.findings, sep="\n", flush=True)
    return row


def table(on: Environment, rows: Sequence[Row]) -> str:
    title = f"## mindformers {on.mindformers}\n\n"
    return title + HEAD + "".join(f"{row.cells()}\n" for row in rows)


def run(environments: Sequence[Environment], *, is_written: bool) -> bool:
    """All cases in each environment; whether each is as it should be. ``is_written``: into the page."""
    found = [(on, measured(on)) for on in environments]
    if is_written:
        PAGE.write_text(page(found), encoding="utf-8")
    return all(row.is_good for _, rows in found for row in rows)


def page(found: Sequence[tuple[Environment, Sequence[Row]]]) -> str:
    versions = " and ".join(f"mindformers {on.mindformers}" for on, _ in found)
    rows = [row for _, measured in found for row in measured]
    parts = [
        "# PyNative dry runs\n\n",
        f"In {sum(row.is_good for row in rows)} of {len(rows)} dry runs with {versions}, the blocks of the trace add\n"
        "up to MindSpore's own peak, to the byte.\n",
        INTRODUCTION.format(versions=versions, hyper_parallel=rows[0].hyper_parallel),
        "\n".join(table(on, measured) for on, measured in found),
    ]
    return "".join([*parts, "\n".join([*kept(PAGE, PUBLISHED), ""])])
