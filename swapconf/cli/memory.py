"""``swapconf memory``: what fills the memory of a dry run, over time, at the peak and as a picture."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf import __version__
from swapconf.cli import trace_folders
from swapconf.cli.common import format_option, say, write_out
from swapconf.cli.help import Command
from swapconf.cli.outputs import html_option
from swapconf.report.findings_text import printable
from swapconf.words.phrases import phrase, show
from swapconf.words.units import show_bytes

if TYPE_CHECKING:
    from swapconf.compare.variant import Variant
    from swapconf.memory.memory_view import MemoryView
    from swapconf.postmortem.measured import MeasuredMemory
    from swapconf.timing.timeline_view import TimelineView
    from swapconf.whatif.sweep import Point

NUM_ROWS = 10
_PIPE_WIDTH = 100


@click.command(cls=Command)
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", type=click.Path(path_type=Path))
@format_option()
@html_option("the pictures of all traces")
def command(traces: tuple[Path, ...], form: str, html: Path | None) -> None:
    """Show what fills the device memory in dry runs, folders that `swapconf dryrun --keep DIR` left behind, and what
    filled it in a real run, by the files of a profiler.

    Use it to find what to swap or to recompute: used memory by category over time, then what is alive at the peak, by
    category, layer and operator. The page has the same chart to zoom into, and a chart of all blocks by time and
    address, where fragments show as holes. With MEMORY_FRAGMENTATION=1, blocks lie where AscendSpeed's pools put them.

    Of a profile (ASCEND_PROFILER_OUTPUT of MindSpore or torch_npu, PROF_* of msprof, a dump of msMemScope): the peak
    and what made it, the pool, what the driver counts for the process, so what lies outside of the pool, and what was
    recomputed. See docs/how-to/read-a-profile.md.

    \b
    swapconf memory tests/traces/llama_l2_none
    swapconf dryrun train.yaml --keep traces
    swapconf memory before/rank_0 after/rank_0 --html memory.html
    swapconf memory prof/ASCEND_PROFILER_OUTPUT

    Exit codes: 0 done; 2 a trace could not be read, the page could not be written, or the command line is wrong.
    """
    from swapconf.memory.memory_view import MemoryView

    shown = [one for path in traces for one in _read(path)]
    views = [one for _, one in shown if isinstance(one, MemoryView)]
    if html is not None and len(views) < len(shown):
        raise click.UsageError(phrase("--html draws the blocks of a dry run; a profile does not tell where they lie"))
    if form == "json":
        click.echo(json.dumps([_record(path, one) for path, one in shown], indent=2))
    else:
        for number, (_, one) in enumerate(shown):
            click.echo(nl=number > 0)
            _show(one)
    if html is not None:
        write_page(views, html)


def _read(path: Path) -> Sequence[tuple[Path, MemoryView | MeasuredMemory]]:
    """What a path holds: a trace, or the profiles of one rank or several."""
    from swapconf.cli import profiles
    from swapconf.postmortem import measured

    found = profiles.find(path, measured.READS, "memory")
    return [(files.place, measured.read(files)) for files in found] or [(path, _view(path))]


def _record(path: Path, one: MemoryView | MeasuredMemory) -> dict[str, Any]:
    from swapconf.postmortem.measured import MeasuredMemory
    from swapconf.report import measured_text

    return measured_text.as_record(one) if isinstance(one, MeasuredMemory) else _as_record(path, one)


def _show(one: MemoryView | MeasuredMemory) -> None:
    from swapconf.postmortem.measured import MeasuredMemory

    if isinstance(one, MeasuredMemory):
        _print_measured(one)
    else:
        _print(one)


def _print_measured(found: MeasuredMemory) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report import measured_text

    say(measured_text.title(found), bold=True)
    for printed in measured_text.printed(found):
        click.echo()
        print_rows(*printed)
    for line in measured_text.notes(found, is_failure=False):
        say(line)


def _view(given: Path) -> MemoryView:
    from swapconf.memory import view
    from swapconf.memory.allocators import default_policy
    from swapconf.trace import run_record, trace_folder

    folder = trace_folders.trace_folder(given)
    report = run_record.report(folder)
    trace = trace_folder.read(folder, _number(report, "rank") or 0)
    return view.of_trace(
        trace,
        title=str(given),
        origin=run_record.origin(report) or phrase("measured"),
        reported=run_record.pool(folder),
        policy=default_policy(os.environ),
    )


def _number(report: Mapping[str, Any], key: str) -> int | None:
    value = report.get(key)
    return value if isinstance(value, int) else None


def _as_record(folder: Path, view: MemoryView) -> dict[str, Any]:
    return {
        "trace": str(folder),
        "rank": view.rank,
        "origin": show(view.origin),
        "used_peak_bytes": view.used_peak_bytes,
        "with_fragments_peak_bytes": view.with_fragments_peak_bytes,
        "reserved_bytes": view.reserved_bytes,
        "peak_event": view.peak_event,
        "categories": {category.value: size for category, size in view.category_bytes.items()},
        "at_peak": [
            {
                "category": held.category.value,
                "layer": held.layer,
                "operator": held.operator,
                "blocks": held.num_blocks,
                "bytes": held.size_bytes,
            }
            for held in view.held_at_peak
        ],
        "notes": [show(note) for note in view.notes],
    }


def _print(view: MemoryView) -> None:
    from rich.console import Console
    from rich.text import Text

    from swapconf.report.memory_chart import chart

    console = Console()
    width = console.width if console.is_terminal else _PIPE_WIDTH
    in_colour = console.color_system is not None and not console.no_color and not console.options.ascii_only
    console.print(Text(printable(view.title), style="bold"), soft_wrap=True)
    console.print(
        Text(
            printable(
                phrase(
                    "used peak {used}, with fragments {mapped}, reserved {reserved}; rank {rank}, {origin}",
                    rank=view.rank,
                    used=show_bytes(view.used_peak_bytes),
                    mapped=show_bytes(view.with_fragments_peak_bytes),
                    reserved=show_bytes(view.reserved_bytes),
                    origin=view.origin,
                )
            )
        ),
        soft_wrap=True,
    )
    for note in view.notes:
        console.print(Text(show(note), style="yellow"), soft_wrap=True)
    console.print()
    console.print(chart(view, width, in_colour=in_colour), soft_wrap=True)
    _print_tables(view)


def _print_tables(view: MemoryView) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report.memory_tables import categories_table, layers_table, operators_table

    for head, rows, in_words in (categories_table(view), layers_table(view, NUM_ROWS), operators_table(view, NUM_ROWS)):
        click.echo()
        print_rows(head, ([printable(cell) for cell in row] for row in rows), in_words)


def write_page(
    views: Sequence[MemoryView],
    file: Path,
    timelines: Sequence[TimelineView] = (),
    variants: Sequence[Variant] = (),
    sweep: Sequence[Point] = (),
) -> None:
    """Write the page; the message of a ClickException says why it cannot be."""
    from swapconf.report import memory_page

    write_out(file, memory_page.page(views, __version__, timelines, variants, sweep))
