"""``swapconf whatif``: what a YAML would do to the memory of a rank, from one trace without swap and recompute."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli.cluster import cards_told
from swapconf.cli.common import EXIT_ERRORS, format_option, go_on, print_findings, say, set_option
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.cli.machine import MachineOptions, machine_options, print_assumed, shares
from swapconf.cli.memory import write_page
from swapconf.cli.outputs import html_option
from swapconf.words.findings import has_errors
from swapconf.words.phrases import joined, mark, phrase, show
from swapconf.words.units import show_bytes, show_ms

if TYPE_CHECKING:
    from swapconf.memory.whole_device import WholeDevice
    from swapconf.study.study import Study
    from swapconf.timing.cost import Known, StepTime
    from swapconf.timing.host_demand import HostDemand
    from swapconf.whatif.question import Answer, Question, Times
    from swapconf.whatif.sweep import Point

_SWEEP = re.compile(r"backward_prefetch=(\d{1,6})\.\.(\d{1,6})(?:\.\.(\d{1,6}))?")
_TITLES = {"step": mark("step"), "exposed_copy": mark("exposed copy"), "exposed_collective": mark("exposed collective")}


@click.command(cls=Command)
@click.argument("trace", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="TRACE")
@click.option("--config", "file", required=True, metavar="FILE", type=FILE, help="The training YAML to ask about.")
@set_option
@format_option()
@click.option(
    "--sweep",
    metavar="backward_prefetch=1..400",
    help="Print the peak for every prefetch, and the step time with --hardware. A..B..STEP takes every STEP-th.",
)
@machine_options(None)
@html_option("the pictures before and after")
@click.option("--safe", is_flag=True, help="Also print an upper bound of the true dry run's peak, to use as a gate.")
def command(
    trace: Path,
    file: str,
    changes: tuple[str, ...],
    form: str,
    sweep: str | None,
    machine: MachineOptions,
    html: Path | None,
    safe: bool,
) -> None:
    """Predict the memory of one rank under any swap and recompute, in milliseconds, without running anything.

    Use it to search for a config: what each entry saves, how the peak moves with the prefetch and, with --hardware,
    what a step costs in time. How far it is from true dry runs: docs/evidence/what-if.md. TRACE is the folder of one
    rank of a run without swap and recompute, as the first of these commands leaves it in DIR:

    \b
    swapconf dryrun train.yaml --set swap_config.swap=False --keep DIR
    swapconf whatif DIR/rank_0 --config train.yaml
    swapconf whatif DIR/rank_0 --config train.yaml --sweep backward_prefetch=1..400
    swapconf whatif DIR/rank_0 --config train.yaml --sweep backward_prefetch=1..400 --hardware ascend_910b2

    With a trace of this repository:

    \b
    swapconf whatif tests/traces/llama_l2_none --config tests/traces/llama.yaml

    With --sweep and --hardware, the best prefetch is printed: the one of the fastest step; ties within 0.1 % go to the
    lowest peak, then to the smallest prefetch. Those that make MindSpore crash are left out. Also, for each layer, the
    smallest one at which its copies do not stall the main stream and no tensor is on the device twice, with the same
    prefetch in all layers.

    A YAML of PyNative mode is asked in the same way, with a trace of `swapconf dryrun`: full recompute, recompute of
    modules, and layer swap as on several cards; memory only.

    Exit codes: 0 predicted; 1 predicted, with findings of severity error; 2 a file could not be read or written, the
    trace is not one of this config without swap and recompute, or the command line is wrong.
    """
    from swapconf.cli.whatif_pynative import run
    from swapconf.config import overrides
    from swapconf.config.config import Dialect
    from swapconf.memory.allocators import default_policy
    from swapconf.memory.whole_device import device_line
    from swapconf.report.sweep_chart import chart, choices
    from swapconf.study.beside import beside
    from swapconf.study.own_model import as_run
    from swapconf.study.study import study_for_check
    from swapconf.timing.host_demand import host_line
    from swapconf.whatif.question import Question

    if machine.profile is None and (machine.measured or machine.cards_per_host > 1 or machine.host_bandwidth):
        raise click.UsageError(phrase("--measured, --cards-per-host and --host-bandwidth need --hardware"))
    try:
        study = as_run(study_for_check(overrides.of_file(file, changes), os.environ), trace, os.environ)
        go_on(study)
        if study.config.dialect is Dialect.PYNATIVE:
            refused = {"--hardware": machine.profile is not None, "--sweep": sweep is not None}
            run(trace, study, form, safe, {**refused, "--html": html is not None})
            return
        question = Question(
            trace, study, default_policy(os.environ), machine.load() if machine.profile is not None else None
        )
        print_findings(question.findings, err=True)
        points = question.sweep(_shown(_prefetches(sweep))) if sweep else ()
        answer = question.answer()
        on = machine.load() if machine.profile is not None else None
        whole = beside(question.trace, study.config, on, os.environ).whole(
            answer.placement.mapped_bytes, question.origin, answer.placement.used_peak_bytes
        )
    except ValueError as error:  # also a Mismatch
        raise click.UsageError(str(error)) from None
    origin = joined("; ", [question.origin, answer.way.told])
    host = _host(answer, question, study, cards_told(click.get_current_context(), machine.cards_per_host))
    if html is not None:
        write_page(question.views(answer), html, sweep=points)
    if form == "json":
        click.echo(json.dumps(as_record(answer, points, origin, whole, host), indent=2))
    else:
        _print(answer, safe)
        say(device_line(whole, phrase("a card") if on is None else on.hardware.name))
        if host is not None:
            say(host_line(host))
        say(origin)
        if points:
            say(joined("\n", ["", *chart(points), *choices(points)]))
        print_findings(answer.findings)
    raise SystemExit(EXIT_ERRORS if has_errors(answer.findings) else 0)


def _prefetches(text: str) -> range:
    match = _SWEEP.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= int(match[2]) or match[3] == "0":
        raise click.UsageError(phrase("--sweep {given}: write backward_prefetch=1..400", given=text))
    return range(int(match[1]), int(match[2]) + 1, int(match[3] or 1))


def _shown(prefetches: range) -> Iterable[int]:
    from swapconf.cli.progress import shown

    return shown(prefetches, len(prefetches), phrase("prefetches"))


def _host(answer: Answer, question: Question, study: Study, cards: int | None) -> HostDemand | None:
    """What a strategy asks of the host, all cards together; None where it copies nothing or no time is told. ``cards``:
    of a host, None for as many as the hardware profile has."""
    from swapconf.dryrun.rank_order import cluster_of
    from swapconf.timing.copied_step import CopiedStep, demand, of_host
    from swapconf.timing.cost import Host

    found, times = answer.prediction, answer.times
    if times is None or not found.moved_bytes:
        return None
    line, devices = times.step.timeline, cluster_of(study.document).num_devices
    step = CopiedStep(
        kind=line.program.kind,
        start_us=line.start_us,
        end_us=line.end_us,
        moved_bytes=found.moved_bytes,
        pinned_bytes=found.host_peak_bytes,
    )
    asked = demand(step, times.machine, min(cards or devices, of_host(times.machine, devices)))
    if not asked.needs_binding:
        return asked
    unbound = replace(times.machine, host=Host(cards=asked.cards, bandwidth_gbps=asked.unbound_gbps))
    return replace(asked, unbound_step_us=question.timed(unbound).timeline.step_us)


def as_record(
    answer: Answer, points: Sequence[Point], origin: str, whole: WholeDevice, host: HostDemand | None
) -> dict[str, Any]:
    """The JSON form. Bytes as whole numbers."""
    from swapconf.memory import whole_device
    from swapconf.memory.categories import bytes_at_peak
    from swapconf.report.memory_tables import entry_records
    from swapconf.timing import host_demand

    found = answer.prediction
    return {
        "used_peak_bytes": found.used_peak_bytes,
        "with_fragments_peak_bytes": answer.placement.mapped_bytes,
        "reserved_bytes": answer.placement.reserved_bytes,
        "device": whole_device.as_record(whole),
        "safe_used_peak_bytes": answer.safe_bytes,
        "baseline_used_peak_bytes": answer.baseline_peak_bytes,
        "categories": {category.value: size for category, size in bytes_at_peak(found.device).items()},
        "host_peak_bytes": found.host_peak_bytes,
        "moved_bytes_per_step": found.moved_bytes,
        "recomputed_kernels_per_step": found.recomputed,
        "entries": entry_records(answer.entries),
        "time": {} if answer.times is None else _time_record(answer.times),
        "host": None if host is None else host_demand.as_record(host),
        "sweep": [_point_record(point) for point in points],
        "best": _best_record(points),
        "findings": [show(str(finding)) for finding in answer.findings],
        "order_of_launches": answer.way.as_record(),
        "origin": show(origin),
    }


def _time_record(times: Times) -> dict[str, Any]:
    def record(time: StepTime) -> dict[str, Any]:
        return {
            f"{name}_us": {
                "value": known.us,
                "low": known.low_us,
                "high": known.high_us,
                "share": {origin.value: part for origin, part in known.share.items()},
            }
            for name, known in _figures(time).items()
        }

    return {
        "hardware": times.machine.hardware.name,
        "assumed": sorted(times.machine.hardware.assumed),
        "host_link_gbps": times.machine.host.link_gbps(times.machine.hardware),
        "baseline": record(times.before),
        "predicted": record(times.after),
        "added_operations_per_step": times.added_operations,
    }


def _figures(time: StepTime) -> dict[str, Known]:
    return {"step": time.step, "exposed_copy": time.exposed_copy, "exposed_collective": time.exposed_collective}


def _point_record(point: Point) -> dict[str, Any]:
    known = {
        "backward_prefetch": point.prefetch,
        "used_peak_bytes": point.peak_bytes,
        "two_copies_bytes": point.twice_bytes,
        "crashes": point.crashes,
    }
    if point.time is None:
        return known
    return known | {"step_us": point.time.step_us, "exposed_copy_us": point.time.exposed_copy_us}


def _best_record(points: Sequence[Point]) -> dict[str, Any]:
    from swapconf.whatif.sweep import best_of_layers, best_overall

    best = best_overall(points)
    if best is None:
        return {}
    return {
        "backward_prefetch": best.prefetch,
        "layers": {
            choice.layer: {
                "backward_prefetch": choice.best,
                "without_waiting": choice.punctual
                and {"backward_prefetch": choice.punctual[0], "two_copies_bytes": choice.punctual[1]},
                "without_two_copies": choice.single
                and {"backward_prefetch": choice.single[0], "late_us": choice.single[1]},
            }
            for choice in best_of_layers(points)
        },
    }


def _print(answer: Answer, safe: bool) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.memory.advice import host_line as optimizer_line
    from swapconf.report.memory_tables import entries_table

    found, before = answer.prediction, answer.baseline_peak_bytes
    peak = found.used_peak_bytes
    say(
        phrase(
            "used peak {peak} ({bytes} bytes), without swap and recompute {before}; with fragments {mapped}",
            peak=show_bytes(peak),
            bytes=peak,
            before=show_bytes(before),
            mapped=show_bytes(answer.placement.mapped_bytes),
        )
    )
    if safe:
        say(phrase("at most   {size} ({bytes} bytes)", size=show_bytes(answer.safe_bytes), bytes=answer.safe_bytes))
    say(
        phrase(
            "host peak {peak}, moved in each step {moved}, kernels run again in each step {kernels}",
            peak=show_bytes(found.host_peak_bytes),
            moved=show_bytes(found.moved_bytes),
            kernels=found.recomputed,
        )
    )
    if words := optimizer_line(found.lasting_host_bytes, found.host_peak_bytes):
        say(words)
    if answer.entries:
        print_rows(*entries_table(answer.entries))
    if answer.times is not None:
        _print_times(answer.times)


def _range(known: Known) -> str:
    _, low, high = show_ms(known.us, known.low_us, known.high_us)
    return phrase("{low} to {high}", low=low, high=high)


def _print_times(times: Times) -> None:
    from swapconf.cli.tables import print_rows

    after = _figures(times.after)
    say(
        phrase(
            "one step on {hardware}, host link {rate:.1f} GB/s a card:",
            hardware=times.machine.hardware.name,
            rate=times.machine.host.link_gbps(times.machine.hardware),
        )
    )
    print_rows(
        (
            phrase("what"),
            phrase("without ms"),
            phrase("predicted ms"),
            phrase("change ms"),
            phrase("predicted range ms"),
            phrase("known"),
        ),
        [
            (
                phrase(_TITLES[name]),
                f"{known.us / 1000:.3f}",
                f"{after[name].us / 1000:.3f}",
                f"{(after[name].us - known.us) / 1000:+.3f}",
                _range(after[name]),
                shares(after[name].share),
            )
            for name, known in _figures(times.before).items()
        ],
        ("what", "known"),
    )
    say(
        phrase(
            "recompute adds {operations:.2f} GFLOP a step (counted from shapes)",
            operations=times.added_operations / 1e9,
        )
    )
    print_assumed(times.machine)
