"""``swapconf fragmentation``: what each allocator makes of the allocations of a dry run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli import trace_folders
from swapconf.cli.common import EXIT_ERRORS, format_option, go_on, print_findings, say
from swapconf.cli.help import Command
from swapconf.report.findings_text import printable
from swapconf.words.findings import Finding
from swapconf.words.phrases import phrase, show
from swapconf.words.units import show_bytes

if TYPE_CHECKING:
    from swapconf.dryrun.outcome import RankReport
    from swapconf.memory.fragmentation import Fragmentation
    from swapconf.memory.replay import Replay
    from swapconf.trace.trace import Trace

NUM_CAUSES = 5


@dataclass(frozen=True, kw_only=True)
class _Row:
    """All about one trace. ``grown``: from what it was made, "" where a run left it."""

    folder: Path
    rank: int
    grown: str
    replay: Replay
    fragmentation: Fragmentation
    findings: tuple[Finding, ...]
    confirmed: RankReport | None = None


@click.command(cls=Command)
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", type=click.Path(path_type=Path))
@format_option()
@click.option(
    "--confirm",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="YAML",
    help="Dry-run this YAML, the one of the trace, with the recommended pool setting.",
)
@click.option(
    "--thorough",
    is_flag=True,
    help="Search for up to minutes, until the offline plan is within 1 % of the lower bound.",
)
def command(traces: tuple[Path, ...], form: str, confirm: Path | None, thorough: bool) -> None:
    """Compare memory allocators on the traces of dry runs, folders that `swapconf dryrun --keep DIR` left behind.

    For a job that does not fit although its used peak would: which blocks cause the gap, and which setting closes it.
    See docs/evidence/fragmentation.md.

    gap: what an allocator takes at its peak, minus the used peak, which no allocator can get below. mindspore:
    MindSpore's own pool, replayed exactly. lifetime: AscendSpeed's method; MEMORY_FRAGMENTATION=1 says that it is in
    use. expandable: virtual memory. offline: a plan that knows all lifetimes in advance.

    \b
    swapconf fragmentation tests/traces/llama_l3_flash_n1
    swapconf dryrun train.yaml --keep traces
    swapconf fragmentation traces/rank_0 --confirm train.yaml

    Exit codes: 0 done; 1 the pool of a trace does not follow MindSpore's known rules, or --confirm found another peak
    than was predicted; 2 a file could not be read, or the command line is wrong.
    """
    from swapconf.memory.allocators import default_policy

    policy = default_policy(os.environ)
    rows = [_study(folder, policy, confirm, thorough) for folder in traces]
    if form == "json":
        click.echo(json.dumps([_as_record(row, policy) for row in rows], indent=2))
    else:
        for row in rows:
            _print(row, policy)
    wrong = any(not row.replay.is_exact or _misses(row) for row in rows)
    raise SystemExit(EXIT_ERRORS if wrong else 0)


def _study(given: Path, policy: str, confirm: Path | None, thorough: bool) -> _Row:
    from swapconf.memory import fragmentation
    from swapconf.memory.fragmentation_findings import Device, findings
    from swapconf.memory.replay import replay
    from swapconf.memory.trace_lifetimes import lifetimes
    from swapconf.trace import run_record, trace_folder

    folder = trace_folders.trace_folder(given)
    report = run_record.report(folder)
    rank = int(report.get("rank", 0))
    trace = trace_folder.read(folder, rank)
    live = lifetimes(trace)
    replayed = replay(trace, live, run_record.pool(folder))
    result = fragmentation.study(live, replayed.pool, is_exact=replayed.is_exact, thorough=thorough)
    device = Device(
        device_bytes=report.get("device_bytes"),
        limit_bytes=report.get("limit_bytes"),
        num_communicators=_num_communicators(trace),
    )
    best = result.best_block_gib
    confirmed = _rehearse(confirm, rank, best) if confirm is not None and best is not None else None
    return _Row(
        folder=folder,
        rank=rank,
        grown=run_record.grown(report),
        replay=replayed,
        fragmentation=result,
        confirmed=confirmed,
        findings=tuple(findings(result, policy, device, str(folder))),
    )


def _num_communicators(trace: Trace) -> int:
    return len({kernel.group for kernel in trace.kernels if kernel.group})


def _rehearse(config: Path, rank: int, block_gib: int) -> RankReport:
    """The dry run of a YAML with another block size of the pool."""
    from swapconf.config import overrides
    from swapconf.dryrun.fold import folded
    from swapconf.dryrun.rank_order import RankOrder
    from swapconf.memory.knobs import BLOCK_SIZE
    from swapconf.study.study import study_for_run

    try:
        document = overrides.of_file(str(config), [f"{BLOCK_SIZE.name}={block_gib}GB"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    studied = study_for_run(document, os.environ)
    go_on(studied)
    return folded.rehearse(RankOrder(document=document, rank=rank, settings=studied.settings))


def _misses(row: _Row) -> bool:
    if row.confirmed is None:
        return False
    return row.confirmed.with_fragments_peak_bytes != row.fragmentation.best_mapped_bytes


def _as_record(row: _Row, policy: str) -> dict[str, Any]:
    result = row.fragmentation
    return {
        "trace": str(row.folder),
        "grown": show(row.grown),
        "rank": row.rank,
        "policy": policy,
        "lower_bound_bytes": result.lower_bound_bytes,
        "replay": {
            "exact": row.replay.is_exact,
            "same_addresses": row.replay.num_same,
            "blocks": row.replay.num_blocks,
            "growth_bytes": row.replay.pool.growth_bytes,
        },
        "policies": [
            {
                "policy": name,
                "allocated_bytes": placement.used_peak_bytes,
                "mapped_bytes": placement.mapped_bytes,
                "reserved_bytes": placement.reserved_bytes,
                "gap_bytes": placement.gap_bytes,
                "fragmentation_ratio": round(placement.fragmentation_ratio, 6),
                "device_requests": placement.device_requests,
            }
            for name, placement in result.placements.items()
        ],
        "causes": [
            {
                "hole_bytes": cause.hole_bytes,
                "block_bytes": cause.size_bytes,
                "layer": cause.layer,
                "category": cause.category.value,
                "name": cause.name,
            }
            for cause in result.causes[:NUM_CAUSES]
        ],
        "mapped_bytes_by_block_gib": dict(result.mapped_by_block_size),
        "best_block_gib": result.best_block_gib,
        "confirmed": None
        if row.confirmed is None
        else {
            "outcome": row.confirmed.outcome.value,
            "as_predicted": not _misses(row),
            "mapped_bytes": row.confirmed.with_fragments_peak_bytes,
        },
        "findings": [show(str(finding)) for finding in row.findings],
    }


def _print(row: _Row, policy: str) -> None:
    result = row.fragmentation
    say(printable(str(row.folder)), bold=True)
    if row.grown:
        say(phrase("placed anew, {grown}", grown=row.grown))
    cells = [
        (
            phrase("{policy} (in use)", policy=name) if name == policy else name,
            *map(
                show_bytes,
                (placement.used_peak_bytes, placement.mapped_bytes, placement.reserved_bytes, placement.gap_bytes),
            ),
            f"{placement.fragmentation_ratio:.2%}",
            str(placement.device_requests),
        )
        for name, placement in result.placements.items()
    ]
    bound = show_bytes(result.lower_bound_bytes)
    _table(
        (
            phrase("policy"),
            phrase("allocated"),
            phrase("with fragments"),
            phrase("reserved"),
            phrase("gap"),
            phrase("ratio"),
            phrase("device requests"),
        ),
        [*cells, (phrase("lower bound"), bound, bound, bound, "0B", "0.00%", "-")],
    )
    if not row.replay.is_exact:
        say(
            phrase(
                "only {same} of {blocks} addresses follow MindSpore's known rules; the figures of `mindspore` are "
                "approximate, and no setting is recommended",
                same=row.replay.num_same,
                blocks=row.replay.num_blocks,
            ),
            fg="red",
        )
    if result.causes:
        say(phrase("Largest holes in MindSpore's pool when it last grew, and the block above each:"))
        _table(
            (phrase("hole"), phrase("block"), phrase("holds"), phrase("layer"), phrase("made by")),
            [
                (
                    show_bytes(cause.hole_bytes),
                    show_bytes(cause.size_bytes),
                    phrase(cause.category.value),
                    str(cause.layer) if cause.layer >= 0 else "-",
                    cause.name,
                )
                for cause in result.causes[:NUM_CAUSES]
            ],
        )
    print_findings(row.findings)
    if row.confirmed is not None:
        say(
            phrase(
                "mempool_block_size {block}GB: predicted {predicted}, dry run {peak} ({outcome})",
                block=result.best_block_gib,
                predicted=show_bytes(result.best_mapped_bytes),
                peak=show_bytes(row.confirmed.with_fragments_peak_bytes),
                outcome=phrase(row.confirmed.outcome.value),
            )
        )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from swapconf.cli.tables import print_rows

    print_rows(head, rows, (head[0], head[-1]))
