"""docs/evidence/pynative-measured.md: what a public training on two cards had allocated, beside dry runs of it.

Started by `scripts/generations.sh measured`, with the environments of mindformers 2.0.0 and 2.1.0. A run leaves its
figures in the folder of generations.sh, and is not run again. The shape stands in published/measured_peaks.yaml, what
one layer held on the card in published/measured_layer.csv, with the source below.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from evidence_page import opening, table

from swapconf.memory.earliest_release import AHEAD, earliest_ends
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import trace_folder
from swapconf.trace.lifetimes import usage
from swapconf.trace.marks import Moment
from swapconf.trace.trace import Trace
from swapconf.words.units import MIB

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "pynative-measured.md"
SHAPE = Path(__file__).with_name("published") / "measured_peaks.yaml"
LAYER = Path(__file__).with_name("published") / "measured_layer.csv"
COMMENT = (
    "Made by scripts/evidence/pynative_measured.py from scripts/evidence/published/measured_layer.csv; edit these."
)
SOURCE = "github.com/suhaibo666/autoparallel, analysis/realmachine, July 2026"
MEASURED: Mapping[str, tuple[float, tuple[str, ...]]] = {  # MiB on the card, and settings
    "nothing": (19967.3, ()),
    "`mlp` of all layers": (15765.0, ("recompute={mode: select, select_module: {mlp: ['0-7']}}",)),
}
CARD_AT_FIRST_MIB, CARD_WORKSPACE_MIB = 5230.59, 16.02  # of the step's begin; of the scatter at its peak
_LAST_LAYER = 7
_SMALLEST_BYTES = MIB
HEAD = ("recomputed", "mindformers", "card, MiB", "dry run, MiB", "off", "least", "most")
BLOCKS = ("MiB", "what it is on the card", "card", "2.0.0", "2.1.0")
INTRODUCTION = """
## How it was made

DeepSeek-V3 of 8 layers (hidden size 1,792, 4,096 tokens, 8 experts), parameters shared over two Ascend 910B3, MindSpore
2.10.0, the real hyper_parallel and a mindformers of May 2026, before 2.0.0 (commit 0fa8a0a68;
{source}).
*card*: its `max_memory_allocated`. *dry run*: `swapconf dryrun --launch-blocking` of rank 0, without operator
workspace, with Python {ahead} operators ahead; *least*, *most*: the range over the orders in which threads give memory
back. [pynative-cards.md](pynative-cards.md) tells of both.

## Block by block

Of the run without recompute the source also has each allocation of the card, by operator and time. The step begins with
{first:,.1f} MiB there, {begins}. At the peak, in the backward pass of
the loss, the head and the loss hold the same blocks as the dry run with 2.0.0: logits in 16 bits (1,010 MiB), the
softmax, its exponential and the gradient in 32 bits (2,020 MiB each), the head's weight, gathered (883.75) and in 16
bits (441.88). So no tensor of logits is missing, and none too many. {workspace:.0f} MiB are operator workspace.

What differs lies in the layers, and is the hidden states. That commit gives each FSDP unit a type of its parameters, 32
bits (`parallelism.param_dtype`), to which hyper_parallel casts the inputs of the unit as well; so what passes from
layer to layer, and what experts give back, is of 32 bits. 2.0.0 and 2.1.0 give no such type, and it is of 16. 2.1.0 has
experts of 16 bits, too: it keeps no casts of their weights, and a copy of these in 32 bits beside the parameters. Tried
by hand with that commit and such casts, a dry run saves 4,202.6 MiB by recompute of `mlp`, and the card did 4,202.3.

Blocks of 1 MiB and more that layer {layer}, the last, holds at the peak:

"""
SUMS = """
Over the {layers} layers with experts that is {moe:,.0f} MiB more on the card than with 2.0.0, of {off:,.0f} MiB that
are missing in all without recompute; the rest is in the layer without experts, whose MLP has products of 32 bits as
well. With `mlp` recomputed the experts' part is gone: {off_mlp:,.0f} MiB are missing.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A dry run. ``layer``: how many blocks of each size, in hundredths of MiB, the last layer holds at the peak."""

    release: str
    recomputed: str
    ahead_bytes: int
    least_bytes: int
    most_bytes: int
    begins_bytes: int
    layer: Mapping[str, int]

    @property
    def card_mib(self) -> float:
        return MEASURED[self.recomputed][0]

    @property
    def missing_mib(self) -> float:
        """Without what is workspace."""
        return self.card_mib - CARD_WORKSPACE_MIB - self.ahead_bytes / MIB

    def cells(self) -> tuple[str, ...]:
        sizes = (self.ahead_bytes / MIB, self.least_bytes / MIB, self.most_bytes / MIB)
        ahead, least, most = (f"{size:,.1f}" for size in sizes)
        off = f"{self.ahead_bytes / MIB / self.card_mib - 1:+.1%}"
        return (self.recomputed, self.release, f"{self.card_mib:,.1f}", ahead, off, least, most)


def run(
    dry_run: Mapping[str, Callable[[Sequence[str], Path], Mapping[str, Any]]], kept: Path, *, is_written: bool
) -> None:
    """``dry_run``: by release, of settings, whose traces are left in a folder, to its report."""
    kept.mkdir(parents=True, exist_ok=True)
    found = [_one(release, case, dry_run[release], kept) for case in MEASURED for release in dry_run]
    if is_written:
        PAGE.write_text(page(found), encoding="utf-8")


def _one(release: str, case: str, dry_run: Callable[[Sequence[str], Path], Mapping[str, Any]], kept: Path) -> Measured:
    file = kept / f"{release}-{list(MEASURED).index(case)}.json"
    if not file.exists():
        with tempfile.TemporaryDirectory(prefix="swapconf-measured-") as folder:
            report = dry_run(MEASURED[case][1], Path(folder))
            told = {
                "ahead_bytes": report["ahead_used_peak_bytes"],
                "least_bytes": report["least_used_peak_bytes"],
                "most_bytes": report["used_peak_bytes"],
                **_looked_at(trace_folder.read(Path(folder) / "rank_0", 0)),
            }
        file.write_text(json.dumps(told), encoding="utf-8")
    one = Measured(release=release, recomputed=case, **json.loads(file.read_text(encoding="utf-8")))
    print(*one.cells(), sep="  ", flush=True)
    return one


def _looked_at(trace: Trace) -> dict[str, Any]:
    """What is in use when the last step begins, and the blocks of the last layer at its peak."""
    live = lifetimes(trace)
    ends = earliest_ends(trace, live, AHEAD)
    used, begins = usage(live.start, ends, live.size_bytes), int(trace.passes.steps[-1])
    peak = used.peak_time
    bounds = {
        moment: max(
            mark.event
            for mark in trace.marks
            if mark.moment is moment and mark.layer == _LAST_LAYER and not mark.module and mark.event < peak
        )
        for moment in (Moment.FORWARD_BEGINS, Moment.FORWARD_ENDS)
    }
    inside = (live.start >= bounds[Moment.FORWARD_BEGINS]) & (live.start < bounds[Moment.FORWARD_ENDS]) & (ends > peak)
    sizes = live.size_bytes[inside & (live.size_bytes >= _SMALLEST_BYTES)].tolist()
    return {
        "begins_bytes": int(used.bytes_after[np.searchsorted(used.time, begins, side="right") - 1]),
        "layer": Counter(_size(size) for size in sizes),
    }


def _size(size_bytes: int) -> str:
    return f"{round(size_bytes / MIB, 2):g}"


def _on_card() -> dict[str, tuple[int, str]]:
    """By size in MiB, how many and what they are."""
    with LAYER.open(encoding="utf-8", newline="") as file:
        return {row["mib"]: (int(row["blocks"]), row["what"]) for row in csv.DictReader(file)}


def _blocks(layers: Sequence[Mapping[str, int]]) -> Iterator[tuple[str, ...]]:
    card = _on_card()
    sizes = sorted({*card, *(size for layer in layers for size in layer)}, key=float, reverse=True)
    for size in sizes:
        number, what = card.get(size, (0, ""))
        yield (size, what, *(str(one or "-") for one in (number, *(layer.get(size, 0) for layer in layers))))
    sums = [sum(float(size) * number for size, (number, _) in card.items()), *map(_sum_mib, layers)]
    yield ("", "in all, MiB", *(f"{one:,.1f}" for one in sums))


def _sum_mib(layer: Mapping[str, int]) -> float:
    return sum(float(size) * number for size, number in layer.items())


def page(found: Sequence[Measured]) -> str:
    by = {(one.recomputed, one.release): one for one in found}
    plain, selected = MEASURED
    older, newer = by[plain, "2.0.0"], by[plain, "2.1.0"]
    within = sum(one.least_bytes / MIB <= one.card_mib <= one.most_bytes / MIB for one in found)
    saved = [by[plain, release].ahead_bytes - by[selected, release].ahead_bytes for release in ("2.0.0", "2.1.0")]
    off = [one.ahead_bytes / MIB / one.card_mib - 1 for one in (older, newer)]
    result = (
        f"Of {len(found)} dry runs of a public training on two cards, {within} have the card between their least and "
        f"their most; with Python some operators ahead they are {off[0]:+.1%} (2.0.0) and {off[1]:+.1%} (2.1.0) off "
        "it without recompute. The difference is named block by block: the mindformers of these cards passes hidden "
        "states of 32 bits from layer to layer, 2.0.0 and 2.1.0 of 16, so that recompute of `mlp` saves 4,202 MiB "
        f"there, {saved[0] / MIB:,.0f} and {saved[1] / MIB:,.0f} here."
    )
    lines = [*opening("A PyNative training on two cards", result, HEAD, [one.cells() for one in found], COMMENT)]
    begins = f"with 2.0.0 with {older.begins_bytes / MIB:,.1f}, with 2.1.0 with {newer.begins_bytes / MIB:,.1f}"
    text = "\n".join(lines) + INTRODUCTION.format(
        source=SOURCE,
        ahead=AHEAD,
        first=CARD_AT_FIRST_MIB,
        begins=begins,
        workspace=CARD_WORKSPACE_MIB,
        layer=_LAST_LAYER,
    )
    text += "\n".join(table(BLOCKS, [*_blocks([older.layer, newer.layer])]))
    card = sum(float(size) * number for size, (number, _) in _on_card().items())
    return text + SUMS.format(
        layers=_LAST_LAYER,
        moe=_LAST_LAYER * (card - _sum_mib(older.layer)),
        off=older.missing_mib,
        off_mlp=by[selected, "2.0.0"].missing_mib,
    )
