#!/usr/bin/env python3
"""Write docs/evidence/fragmentation.md: every allocator on every trace of a folder, computed from the traces.

    python scripts/evidence/fragmentation_table.py FOLDER

``FOLDER/*/memory_block.csv`` are the traces.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence_page import opening

from swapconf.memory.allocators import lifetime
from swapconf.memory.fragmentation import Fragmentation, study
from swapconf.memory.knobs import KNOBS
from swapconf.memory.replay import Replay, replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import run_record, trace_folder
from swapconf.trace.lifetimes import CATEGORIES, Category, Placement
from swapconf.words.units import GIB, MIB

TARGET = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "fragmentation.md"
POLICIES = ("mindspore", "lifetime", "expandable", "offline")

COMMENT = "Made by scripts/evidence/fragmentation_table.py from traces of dry runs; edit that."
HEAD = """\
`swapconf fragmentation TRACE...` replays the allocations of a dry run with several allocators; when it advises, and
what, is in [rules.md](../reference/rules.md). These are its figures on real traces (MindSpore 2.9.0, mindformers 1.9.0,
dry run level 1, operator workspace excluded).

- allocated: the most in use at once, the lower bound of every allocator.
- with fragments: for each piece of device memory up to its highest byte ever used; for `lifetime` and `expandable`,
  which give memory back, what they held at once. Of `mindspore` it is MindSpore's own figure.
- reserved: in whole pieces as asked of the device. gap: with fragments minus allocated. ratio: gap / with fragments.
- requests: how often the device was asked for memory during the run; each is slow.

| policy | what it is |
|---|---|
| `mindspore` | MindSpore's pool: best fit in pieces of 2 GiB, doubled until a request fits (1 GiB for persistent \
tensors); [its rules and large blocks](pool.md) |
| `lifetime` | AscendSpeed's method: pools by lifetime, pieces of their own for large tensors, given back when free |
| `expandable` | virtual memory in granules of 2 MiB, mapped while a block touches them |
| `offline` | a packing planned with all lifetimes known: what is possible in practice |
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One trace. ``agrees``: the replay has MindSpore's two peaks to the byte, and its reserved memory.
    ``kept``: the policy ``lifetime`` if it never gave anything back."""

    name: str
    replay: Replay
    fragmentation: Fragmentation
    kept: Placement
    saves_activations: bool
    agrees: bool


def rows(folder: Path) -> Iterator[Row]:
    for path in sorted(folder.glob("*/memory_block.csv")):
        trace = trace_folder.read(path.parent, rank=0)
        live = lifetimes(trace)
        found = replay(trace, live, run_record.pool(path.parent))
        recomputed = live.category == CATEGORIES.index(Category.RECOMPUTED)
        named = any(live.names[name].startswith("recompute_") for name in live.name[recomputed])
        yield Row(
            name=path.parent.name,
            replay=found,
            fragmentation=study(live, found.pool, is_exact=found.is_exact, thorough=True),
            kept=lifetime.place(live, gives_back=False),
            saves_activations=named or any(kernel.copies_to_host for kernel in trace.kernels),
            agrees=(
                _recorded(path.parent) in (None, (live.used_peak_bytes, found.placement.reserved_bytes))
                and trace.with_fragments_peak_bytes == found.placement.mapped_bytes
            ),
        )
        print(path.parent.name, flush=True)


def _recorded(folder: Path) -> tuple[int, int] | None:
    """What MindSpore's own functions returned at the end of the run; None where nobody asked them."""
    try:
        known = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except OSError:
        return None
    return known["max_memory_allocated_bytes"], known["max_memory_reserved_bytes"]


def render(found: list[Row]) -> str:
    gaps = list(_gaps(found))
    return "".join(
        [
            "\n".join(opening("Fragmentation", _result(found), ("what", "result"), _summary(found), COMMENT)),
            "\n",
            HEAD,
            *(["\n## Gaps above 1 GiB\n\n", *gaps] if gaps else []),
            "\n## Settings\n\n",
            *_knobs(),
            "\n## Every trace\n\n",
            "MiB. Traces with swap or recompute have a star.\n\n",
            "| trace | policy | allocated | with fragments | reserved | gap | ratio | requests |\n",
            "|---|---|---:|---:|---:|---:|---:|---:|\n",
            *(line for row in found for line in _lines(row)),
        ]
    )


def _result(found: list[Row]) -> str:
    same, blocks = sum(row.replay.num_same for row in found), sum(row.replay.num_blocks for row in found)
    large = sum(row.fragmentation.placements["mindspore"].gap_bytes > GIB for row in found)
    return (
        f"The replay puts {same:,} of {blocks:,} blocks of {len(found)} traces where MindSpore's pool put them. "
        f"In {large} of these traces fragments take more than 1 GiB."
    )


def _summary(found: list[Row]) -> list[tuple[str, str]]:
    starred = [row for row in found if row.saves_activations]
    rows = [
        ("traces", f"{len(found)}, {len(starred)} of them with swap or recompute"),
        (
            "used peak, peak with fragments, reserved memory",
            f"to the byte as MindSpore's in {sum(row.agrees for row in found)} of {len(found)}",
        ),
    ]
    if starred:
        worst = max(starred, key=lambda row: _share(row, "lifetime"))
        rows.append(
            (
                "`lifetime` against `mindspore`, with swap or recompute",
                f"its gap is at most {_share(worst, 'lifetime'):.1%} of `mindspore`'s (`{worst.name}`)",
            )
        )
    least, most = (limit(_over(row.kept) for row in found) for limit in (min, max))
    times = max(row.fragmentation.placements["lifetime"].device_requests / row.kept.device_requests for row in found)
    worst = max(found, key=lambda row: _over(row.fragmentation.placements["offline"]))
    return [
        *rows,
        (
            "`lifetime` if it kept every piece",
            f"{least:.0%} to {most:.0%} more than is in use; giving back takes up to {times:.1f} times as many "
            "requests",
        ),
        (
            "`offline`",
            f"at most {_over(worst.fragmentation.placements['offline']):.2%} over the lower bound (`{worst.name}`), "
            "searched as with `--thorough`",
        ),
    ]


def _gaps(found: list[Row]) -> Iterator[str]:
    """Where a larger piece would close a gap above 1 GiB."""
    for row in found:
        placement = row.fragmentation.placements["mindspore"]
        size, fewest = row.fragmentation.best_block_gib, row.fragmentation.best_mapped_bytes
        saved = 0 if fewest is None else placement.mapped_bytes - fewest
        if placement.gap_bytes > GIB and saved > 0:
            yield (
                f"- `{row.name}`: a gap of {_mib(placement.gap_bytes)} MiB; `context.mempool_block_size: {size}GB` "
                f"would need {_mib(saved)} MiB less.\n"
            )


def _share(row: Row, policy: str) -> float:
    placements = row.fragmentation.placements
    return placements[policy].gap_bytes / max(placements["mindspore"].gap_bytes, 1)


def _over(placement: Placement) -> float:
    return placement.gap_bytes / placement.used_peak_bytes


def _knobs() -> Iterator[str]:
    yield "| setting | default | what it does | in a dry run |\n|---|---|---|---|\n"
    for knob in KNOBS:
        yield f"| `{knob.name}` | {knob.default} | {knob.effect} | {knob.in_dry_run} |\n"


def _lines(row: Row) -> Iterator[str]:
    for index, policy in enumerate(POLICIES):
        placement = row.fragmentation.placements[policy]
        name = f"{row.name}{' *' if row.saves_activations else ''}" if index == 0 else ""
        sizes = " | ".join(
            map(
                _mib, (placement.used_peak_bytes, placement.mapped_bytes, placement.reserved_bytes, placement.gap_bytes)
            )
        )
        yield f"| {name} | {policy} | {sizes} | {placement.fragmentation_ratio:.2%} | {placement.device_requests} |\n"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:,.2f}"


if __name__ == "__main__":
    TARGET.write_text(render(list(rows(Path(sys.argv[1])))), encoding="utf-8")
    print(f"wrote {TARGET}")
