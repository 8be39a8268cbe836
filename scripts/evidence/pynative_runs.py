"""docs/evidence/pynative.md: dry runs of PyNative trainings, each peak replayed from its trace.

Started by `scripts/generations.sh pynative`, in the environment of the second generation that it makes. hyper_parallel
is swapconf's stand-in where it is not installed there.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import trace_folder
from swapconf.words.units import show_bytes

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/evidence/pynative.md"
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
}

INTRODUCTION = """# PyNative dry runs

Whole training steps of mindformers' own PyNative trainer (model, loss, backward pass, gradient clipping, optimizer),
two of them, on one simulated card: `swapconf dryrun configs/pynative/MODEL.yaml --as-parallel`, which recomputes and
swaps as mindformers does on several cards. Made by `scripts/generations.sh pynative` with
{versions};
hyper_parallel: {hyper_parallel}.

- *peak*: MindSpore's own `max_memory_allocated` of the run. *replayed*: the most that the blocks of the trace hold at
  once; it has to be the same, to the byte.
- *addresses*: blocks of the trace that the known rules of MindSpore's pool put where MindSpore put them. With a swap a
  second stream has blocks, too, which these rules do not follow.
- *ran again*: operators of the second step in layers, without views. *moved*: what it moved to the host, by layer.

What the stand-in does not show: what hyper_parallel keeps and moves otherwise than its public source says, parameters
in shards (FSDP), and parallel operators. No run was compared with a card. Each operator ends before Python goes on,
so two runs of one YAML are the same; a real run may give memory back earlier, see
[A dry run, and who ends it](../explanation/a-dry-run.md).

| model | swap and recompute | peak, B | replayed | addresses | ran again | moved |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    model: str
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
        cells = (self.model, self.case, f"{self.peak_bytes:,}", same, self.same_addresses, self.recomputed, self.moved)
        return f"| {' | '.join(cells)} |"


def measure(python: str, variables: Mapping[str, str], model: str, case: str) -> Row:
    """One dry run. Raises RuntimeError where it does not end well."""
    with tempfile.TemporaryDirectory(prefix="swapconf-pynative-") as keep:
        settings = [word for setting in CASES[case] for word in ("--set", setting)]
        command = [python, "-m", "swapconf", "dryrun", str(ROOT / f"configs/pynative/{model}.yaml"), "--as-parallel"]
        done = subprocess.run(
            [*command, "--no-cache", "--format", "json", "--keep", keep, *settings],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{model}, {case}:\n{done.stdout}{done.stderr}")
        (report,) = json.loads(done.stdout)
        folder = Path(keep) / "rank_0"
        told = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        trace = trace_folder.read(folder, 0)
        placed = replay(trace, lifetimes(trace))
    return Row(
        model=model,
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


def run(python: str, variables: Mapping[str, str], versions: str, *, is_written: bool) -> bool:
    """All cases; whether each is as it should be. ``is_written``: into the page."""
    rows = []
    for model in MODELS:
        for case in CASES:
            rows.append(measure(python, variables, model, case))
            print(rows[-1].cells(), *rows[-1].findings, sep="\n", flush=True)
    if is_written:
        head = INTRODUCTION.format(versions=versions, hyper_parallel=rows[0].hyper_parallel)
        PAGE.write_text(head + "\n".join(row.cells() for row in rows) + "\n", encoding="utf-8")
    return all(row.is_good for row in rows)
