"""``swapconf fragmentation``: what each allocator makes of the allocations of a dry run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli import trace_folders
from swapconf.cli.common import EXIT_ERRORS, format_option, go_on, print_findings, say
from swapconf.cli.help import Command
from swapconf.report.findings_text import printable
from swapconf.words.columns import Column, count, record, size, table, term, words
from swapconf.words.findings import Finding
from swapconf.words.phrases import phrase, show
from swapconf.words.units import show_bytes

if TYPE_CHECKING:
    from swapconf.dryrun.outcome import RankReport
    from swapconf.memory.fragmentation import Cause, Fragmentation
    from swapconf.memory.replay import Replay
    from swapconf.trace.lifetimes import Placement
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Policy:
    """One allocator, and where it puts the blocks."""

    name: str
    is_in_use: bool
    placement: Placement


POLICIES: tuple[Column[_Policy], ...] = (
    Column(
        title=phrase("policy"),
        shown=lambda item: phrase("{policy} (in use)", policy=item.name) if item.is_in_use else item.name,
        key="policy",
        value=lambda item: item.name,
        in_words=True,
    ),
    size(phrase("allocated"), lambda item: item.placement.used_peak_bytes, "allocated_bytes"),
    size(phrase("with fragments"), lambda item: item.placement.mapped_bytes, "mapped_bytes"),
    size(phrase("reserved"), lambda item: item.placement.reserved_bytes, "reserved_bytes"),
    size(phrase("gap"), lambda item: item.placement.gap_bytes, "gap_bytes"),
    Column(
        title=phrase("ratio"),
        shown=lambda item: f"{item.placement.fragmentation_ratio:.2%}",
        key="fragmentation_ratio",
        value=lambda item: round(item.placement.fragmentation_ratio, 6),
    ),
    count(phrase("device requests"), lambda item: item.placement.device_requests, "device_requests"),
)
CAUSES: tuple[Column[Cause], ...] = (
    size(phrase("hole"), lambda cause: cause.hole_bytes, "hole_bytes"),
    size(phrase("block"), lambda cause: cause.size_bytes, "block_bytes"),
    term(phrase("holds"), lambda cause: cause.category.value, "category"),
    Column(
        title=phrase("layer"),
        shown=lambda cause: str(cause.layer) if cause.layer >= 0 else "-",
        key="layer",
        value=lambda cause: cause.layer,
    ),
    words(phrase("made by"), lambda cause: cause.name, "name"),
)


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
    confirmed = _dry_run(confirm, rank, best) if confirm is not None and best is not None else None
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


def _dry_run(config: Path, rank: int, block_gib: int) -> RankReport:
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
    return folded.dry_run(RankOrder(document=document, rank=rank, settings=studied.settings))


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
        "policies": [record(POLICIES, item) for item in _policies(row, policy)],
        "causes": [record(CAUSES, cause) for cause in result.causes[:NUM_CAUSES]],
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


def _policies(row: _Row, policy: str) -> Iterator[_Policy]:
    """``policy``: the one in use."""
    for name, placement in row.fragmentation.placements.items():
        yield _Policy(name=name, is_in_use=name == policy, placement=placement)


def _print(row: _Row, policy: str) -> None:
    from swapconf.cli.tables import print_rows

    result = row.fragmentation
    say(printable(str(row.folder)), bold=True)
    if row.grown:
        say(phrase("placed anew, {grown}", grown=row.grown))
    told, bound = table(POLICIES, _policies(row, policy)), show_bytes(result.lower_bound_bytes)
    bounds = (phrase("lower bound"), bound, bound, bound, "0B", "0.00%", "-")
    print_rows(told.head, [*told.rows, bounds], told.in_words)
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
        print_rows(*table(CAUSES, result.causes[:NUM_CAUSES]))
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
