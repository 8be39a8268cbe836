"""``swapconf whatif``: what a YAML would do to the memory of a rank, from one trace without swap and recompute."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli.common import EXIT_UNREADABLE, print_findings, versions
from swapconf.cli.memory import write_page
from swapconf.errors import SwapconfError
from swapconf.units import show_bytes

if TYPE_CHECKING:
    from swapconf.whatif import Answer, Point

_SWEEP = re.compile(r"backward_prefetch=(\d{1,6})\.\.(\d{1,6})(?:\.\.(\d{1,6}))?")
_BARS = " ▁▂▃▄▅▆▇█"
_HEIGHT, _WIDTH = 10, 100


@click.command()
@click.argument("trace", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="TRACE")
@click.option("--config", "file", required=True, metavar="FILE", help="The training YAML to ask about.")
@click.option("--set", "changes", multiple=True, metavar="A.B.C=VALUE", help="Override a key of the YAML; repeatable.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--sweep", metavar="backward_prefetch=1..400", help="The peak for every prefetch; A..B..STEP skips some.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False, writable=True), metavar="FILE",
              help="Write one page with the pictures before and after; it opens without a network.")
@click.option("--safe", is_flag=True, help="Print a bound that the true dry run does not exceed, for use as a gate.")
def command(trace: Path, file: str, changes: tuple[str, ...], form: str, sweep: str | None, html: Path | None,
            safe: bool) -> None:
    """Predict the memory of one rank under any swap and recompute, in milliseconds, without running anything.

    TRACE is the folder of one rank of a run without both:

    \b
    swapconf dryrun train.yaml --set swap_config.swap=False --keep DIR
    swapconf whatif DIR/rank_0 --config train.yaml
    swapconf whatif DIR/rank_0 --config train.yaml --sweep backward_prefetch=1..400

    Exit codes: 0 predicted; 2 a file could not be read, or the trace is not one of this config without swap and
    recompute.
    """
    from swapconf import pipeline
    from swapconf.formats import overrides
    from swapconf.simulate.policies import default_policy
    from swapconf.whatif import Mismatch, Question

    try:
        document = overrides.read(["--config", file], changes)
        assert document is not None
        used = versions(None, None)
        question = Question(trace, pipeline.study_document(document, used, os.environ), used,
                            default_policy(os.environ))
        points = question.sweep(_prefetches(sweep)) if sweep else ()
        answer = question.answer()
    except Mismatch as error:
        raise click.UsageError(str(error)) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except SwapconfError as error:
        print_findings(error.findings, err=True)
        raise SystemExit(EXIT_UNREADABLE) from None
    if html is not None:
        write_page(question.views(answer), html)
    if form == "json":
        click.echo(json.dumps(as_record(answer, points), indent=2))
        return
    _print(answer, safe)
    if points:
        click.echo("\n".join(["", *chart(points)]))
    print_findings(answer.findings)


def _prefetches(text: str) -> range:
    match = _SWEEP.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= int(match[2]) or match[3] == "0":
        raise click.UsageError(f"--sweep {text}: write backward_prefetch=1..400")
    return range(int(match[1]), int(match[2]) + 1, int(match[3] or 1))


def as_record(answer: Answer, points: Sequence[Point] = ()) -> dict[str, Any]:
    """The JSON form. Bytes as whole numbers."""
    from swapconf.simulate.memory import bytes_at_peak
    from swapconf.whatif import ORIGIN

    found = answer.prediction
    return {
        "used_peak_bytes": found.used_peak_bytes, "with_fragments_peak_bytes": answer.placement.mapped_bytes,
        "reserved_bytes": answer.placement.reserved_bytes,
        "safe_used_peak_bytes": answer.safe_bytes, "baseline_used_peak_bytes": answer.baseline_peak_bytes,
        "categories": {category.value: size for category, size in bytes_at_peak(found.device).items()},
        "host_peak_bytes": found.moves.host.peak_bytes,
        "moved_bytes_per_step": found.moved_bytes, "recomputed_kernels_per_step": found.recomputed,
        "entries": [{"path": entry.origin.path, "line": entry.origin.line, "entry": entry.text,
                     "saved_bytes": entry.saved_bytes, "moved_bytes_per_step": entry.moved_bytes,
                     "recomputed_kernels_per_step": entry.recomputed} for entry in answer.entries],
        "sweep": [{"backward_prefetch": point.prefetch, "used_peak_bytes": point.peak_bytes,
                   "two_copies_bytes": point.twice_bytes, "crashes": point.crashes} for point in points],
        "findings": [str(finding) for finding in answer.findings],
        "origin": ORIGIN,
    }


def _print(answer: Answer, safe: bool) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report.memory_tables import entries_table

    found, before = answer.prediction, answer.baseline_peak_bytes
    peak = found.used_peak_bytes
    click.echo(f"used peak {show_bytes(peak)} ({peak} bytes), without swap and recompute {show_bytes(before)}; "
               f"with fragments {show_bytes(answer.placement.mapped_bytes)}")
    if safe:
        click.echo(f"at most   {show_bytes(answer.safe_bytes)} ({answer.safe_bytes} bytes)")
    click.echo(f"host peak {show_bytes(found.moves.host.peak_bytes)}, moved in each step "
               f"{show_bytes(found.moved_bytes)}, kernels run again in each step {found.recomputed}")
    if answer.entries:
        print_rows(*entries_table(answer.entries))


def chart(points: Sequence[Point]) -> list[str]:
    """The peak against the prefetch, as lines of text; `!` below marks where two copies of a tensor live at once, `x`
    where MindSpore cannot compile."""
    columns = min(len(points), _WIDTH)
    groups = [points[index * len(points) // columns:(index + 1) * len(points) // columns] for index in range(columns)]
    tops = [max(point.peak_bytes for point in group) for group in groups]
    low, high = min(tops), max(tops)
    eighths = [1 + (8 * _HEIGHT - 1) * (top - low) // max(high - low, 1) for top in tops]
    lines = []
    for row in range(_HEIGHT - 1, -1, -1):
        label = show_bytes(low + (high - low) * (row + 1) // _HEIGHT)
        lines.append(f"{label:>8} |" + "".join(_BARS[max(0, min(8, level - 8 * row))] for level in eighths).rstrip())
    marks = "".join("x" if any(point.crashes for point in group) else
                    "!" if any(point.twice_bytes for point in group) else "-" for group in groups)
    lines.append(f"{'':>8} +{marks}")
    best = min((point for point in points if not point.crashes), key=lambda point: point.peak_bytes, default=points[0])
    lines.append(f"{'':>10}{points[0].prefetch} to {points[-1].prefetch}; ! two copies live on the device; x MindSpore "
                 f"crashes; lowest {show_bytes(best.peak_bytes)} at {best.prefetch}")
    return lines
