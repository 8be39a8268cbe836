"""``swapconf timeline``: how long a step takes on a card, and what its copies and collectives cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli import timeline_measured, trace_folders
from swapconf.cli.common import EXIT_ERRORS, format_option, say, write_out
from swapconf.cli.help import Command
from swapconf.cli.machine import MachineOptions, machine_options, print_assumed, shares
from swapconf.cli.outputs import OUT_FILE, html_option
from swapconf.words.columns import record, table
from swapconf.words.findings import Finding, Severity, SwapconfError
from swapconf.words.findings import Origin as Place
from swapconf.words.phrases import joined, phrase, plural, show
from swapconf.words.units import parse_bytes, show_bytes, show_range

if TYPE_CHECKING:
    from swapconf.timing.cost import Costs, Machine
    from swapconf.timing.timing import Prefetch, Timeline
    from swapconf.trace.trace import Trace

NUM_ROWS = 10


@dataclass(frozen=True, kw_only=True)
class _Step:
    """All that is shown of one trace.

    Attributes:
        grown: From what it was made, "" where a run left it.
        few, count: How many micro-batches the trace has, and how many the step has; both 0 where that is not told.
        round_us: How long one more takes, None where that does not follow.
    """

    folder: Path
    trace: Trace
    grown: str
    machine: Machine
    costs: Costs
    line: Timeline
    prefetches: tuple[Prefetch, ...]
    device_peak_bytes: int
    host_peak_bytes: int
    few: int = 0
    count: int = 0
    round_us: float | None = None

    @property
    def whole_us(self) -> float | None:
        """Of the step with all its micro-batches; None where the trace has them, or it does not follow."""
        if self.round_us is None:
            return None
        return self.line.step_us + (self.count - self.few) * self.round_us


@click.command(cls=Command)
@click.argument("trace", type=click.Path(path_type=Path))
@machine_options("generic")
@click.option(
    "--host-memory",
    metavar="SIZE",
    help="Host memory that these cards share, for example 1.5TB; exit 1 if the copies do not fit.",
)
@click.option(
    "--trace-view",
    type=OUT_FILE,
    metavar="FILE",
    help="Write the step as the profiler's trace_view.json, for Perfetto, chrome://tracing and MindStudio Insight.",
)
@format_option()
@html_option("the streams and the memory over the clock")
def command(
    trace: Path, machine: MachineOptions, host_memory: str | None, trace_view: Path | None, form: str, html: Path | None
) -> None:
    """Replay one step of a dry run on its streams, from the folder that `swapconf dryrun --keep DIR` left behind; or
    tell what a real step did, from the files of a profiler.

    Use it to see what swap costs in time: how long a step takes, where the main stream stalls, and how far each
    prefetch could move. Times are estimated from shapes and from what public kernels took, unless --measured replaces
    them; each with the range that such kernels were seen in. See docs/explanation/timeline.md.

    exposed: how long a kernel stalls the main stream. `later`: how much later a prefetch could end without a stall.
    `earlier`: how much earlier it could start without the tensor being on the device twice.

    Of a profile (ASCEND_PROFILER_OUTPUT, PROF_*, or a folder of these of several ranks): how long each step computed,
    waited for another stage, communicated otherwise and did nothing, and what was recomputed. See
    docs/how-to/read-a-profile.md.

    \b
    swapconf timeline tests/traces/llama_l2_layerswap_n1 --hardware ascend_910b2
    swapconf timeline traces/rank_0 --trace-view trace_view.json
    swapconf timeline traces/rank_0 --cards-per-host 8 --host-bandwidth 100 --host-memory 1.5TB
    swapconf timeline prof/ASCEND_PROFILER_OUTPUT

    Exit codes: 0 done; 1 the copies do not fit into --host-memory; 2 a file could not be read or written, or the
    command line is wrong."""
    if profiled := timeline_measured.found(trace):
        timeline_measured.tell(profiled, form)
        return
    limit = _size(host_memory) if host_memory else None
    step = _study(trace, machine.load())
    if form == "json":
        record = _as_record(step)
        if machine.measured is not None:
            record["profile"] = timeline_measured.records(machine.measured)
        click.echo(json.dumps(record, indent=2))
    else:
        _print(step)
        if machine.measured is not None:
            timeline_measured.tell_waits(machine.measured)
    if trace_view is not None:
        _write_trace_view(step, trace_view)
    if html is not None:
        _write_page(step, html)
    needed = step.host_peak_bytes * machine.cards_per_host
    if limit is not None and needed > limit:
        say(
            plural(
                machine.cards_per_host,
                "{count} card holds {needed} on the host, which has {limit}",
                "{count} cards hold {needed} on the host, which has {limit}",
                needed=show_bytes(needed),
                limit=show_bytes(limit),
            ),
            err=True,
        )
        raise SystemExit(EXIT_ERRORS)


def _write_page(step: _Step, html: Path) -> None:
    from swapconf.cli.memory import write_page
    from swapconf.compare import folders, traced

    shown = traced.of_traces(str(step.folder), [folders.of_trace(step.folder, step.trace)], step.machine)
    write_page(shown.views, html, [shown.timeline] if shown.timeline is not None else [])


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--host-memory") from None


def _write_trace_view(step: _Step, file: Path) -> None:
    from swapconf.memory.replay import replay
    from swapconf.memory.trace_lifetimes import lifetimes
    from swapconf.profile import trace_view_writer
    from swapconf.profile.simulated import step_profile
    from swapconf.trace import run_record

    told = run_record.pool(step.folder)
    reserved_bytes = replay(step.trace, lifetimes(step.trace), told).placement.reserved_bytes
    profile = step_profile(step.trace, step.line, step.costs, step.machine.hardware.name, reserved_bytes)
    write_out(file, trace_view_writer.text(profile))


def _study(given: Path, machine: Machine) -> _Step:
    from swapconf.memory.trace_lifetimes import lifetimes
    from swapconf.timing import costing, program, steady, timeline
    from swapconf.trace import run_record, trace_folder

    folder = trace_folders.trace_folder(given)
    report = run_record.report(folder)
    trace = trace_folder.read(folder, int(report.get("rank") or 0))
    if trace.marks:
        raise click.UsageError(
            phrase(
                "a PyNative run has no timeline: its operators start as Python calls them, and a dry run does not tell "
                "how long Python takes from one to the next; what holds its memory: {command}",
                command=f"swapconf memory {folder}",
            )
        )
    try:
        work, steps = costing.workload(trace), program.program(trace)
    except ValueError as error:
        raise SwapconfError(
            [
                Finding(
                    origin=Place(file=str(folder)),
                    rule="trace-incomplete",
                    severity=Severity.ERROR,
                    message=str(error),
                    hint=phrase("keep the files of a run together; or run it again with memory_optimize_level O0"),
                )
            ]
        ) from None
    known = costing.costs(work, machine.hardware, machine.host, machine.measured)
    line = timeline.replay(steps, known.duration_us)
    _, used = timeline.memory(line, lifetimes(trace))
    few, count = run_record.micro_batches(folder)
    return _Step(
        folder=folder,
        trace=trace,
        grown=run_record.grown(report),
        machine=machine,
        costs=known,
        line=line,
        prefetches=timeline.prefetches(line),
        device_peak_bytes=int(used.max(initial=0)),
        host_peak_bytes=trace.host_peak_bytes,
        few=few,
        count=count,
        round_us=steady.round_us(line, few) if few < count else None,
    )


def _as_record(step: _Step) -> dict[str, Any]:
    from swapconf.report import step_tables
    from swapconf.timing.cost import FigureOrigin
    from swapconf.timing.timing import KernelKind

    line, card = step.line, step.machine.hardware
    return {
        "trace": str(step.folder),
        "grown": show(step.grown),
        "hardware": card.name,
        "step_us": line.step_us,
        **_range_record("step", step, line.step_us),
        "micro_batches": {
            "in_trace": step.few,
            "in_step": step.count,
            "round_us": step.round_us,
            "step_us": step.whole_us,
            **({} if step.whole_us is None else _range_record("step", step, step.whole_us)),
        }
        if step.few < step.count
        else None,
        "figures": {
            name: {"value": figure.value, "source": figure.source, "assumed": name in card.assumed}
            for name, figure in card.figures.items()
        },
        "share": {origin.value: step.costs.share(origin) for origin in FigureOrigin},
        "host_link_gbps": step.machine.host.link_gbps(step.machine.hardware),
        "critical_path_kernels": len(line.critical_path),
        "streams": [record(step_tables.STREAMS, item) for item in step_tables.streams(line)],
        "exposed_us": {kind.value: line.exposed_of(kind) for kind in KernelKind if kind is not KernelKind.COMPUTE},
        "occupancy": {kind.value: line.occupancy(kind) for kind in KernelKind},
        "exposed": [record(step_tables.EXPOSED, item) for item in step_tables.exposed(line, step.costs)],
        "prefetches": [record(step_tables.prefetches(line), item) for item in step.prefetches],
        "device_peak_bytes": step.device_peak_bytes,
        "host_peak_bytes": step.host_peak_bytes,
    }


def _range_record(name: str, step: _Step, time_us: float) -> dict[str, float]:
    low_us, high_us = step.costs.range_of(time_us)
    return {f"{name}_low_us": low_us, f"{name}_high_us": high_us}


def _print(step: _Step) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report import step_tables

    _print_step(step)
    print_assumed(step.machine)
    print_rows(*table(step_tables.STREAMS, step_tables.streams(step.line)))
    _print_use(step)
    if longest := step_tables.exposed(step.line, step.costs)[:NUM_ROWS]:
        say(phrase("What the main stream waits for longest:"))
        print_rows(*table(step_tables.EXPOSED, longest))
    if step.prefetches:
        say(
            phrase(
                "prefetches: {number}, waited for {late}, tensor held twice {twice}",
                number=len(step.prefetches),
                late=sum(item.late_us > 0 for item in step.prefetches),
                twice=sum(item.earlier_us < 0 for item in step.prefetches),
            )
        )
        latest = sorted(step.prefetches, key=lambda item: -item.late_us)[:NUM_ROWS]
        print_rows(*table(step_tables.prefetches(step.line), latest))


def _print_step(step: _Step) -> None:
    """How long it takes."""
    line = step.line
    say(
        phrase(
            "{trace}: a step on {hardware} takes {time} ({shares})",
            trace=step.folder,
            time=show_range(line.step_us, *step.costs.range_of(line.step_us)),
            hardware=step.machine.hardware.name,
            shares=shares(step.costs.shares()),
        ),
        bold=True,
    )
    if step.grown:
        say(phrase("the step is {grown}", grown=step.grown))
    if step.whole_us is not None:
        say(
            phrase(
                "each micro-batch more takes {round:.3f} ms: with all {count} a step takes {time}",
                round=(step.round_us or 0.0) / 1000,
                count=step.count,
                time=show_range(step.whole_us, *step.costs.range_of(step.whole_us)),
            )
        )
    elif step.few < step.count:
        say(phrase("how long a step with all {count} micro-batches takes is not known", count=step.count))


def _print_use(step: _Step) -> None:
    """Of streams, link and memory."""
    from swapconf.timing.timing import KernelKind

    in_use = joined(
        ", ",
        (phrase("{kind} {share:.1%}", kind=phrase(kind.value), share=step.line.occupancy(kind)) for kind in KernelKind),
    )
    say(
        phrase(
            "in use: {kinds}; host link {rate:.1f} GB/s a card",
            kinds=in_use,
            rate=step.machine.host.link_gbps(step.machine.hardware),
        )
    )
    say(
        phrase(
            "memory: device {device}, host {host} a card",
            device=show_bytes(step.device_peak_bytes),
            host=show_bytes(step.host_peak_bytes),
        )
    )
