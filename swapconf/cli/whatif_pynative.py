"""``swapconf whatif`` of a PyNative YAML: the same question of a trace with marks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli.common import say
from swapconf.words.phrases import joined, mark, phrase, show
from swapconf.words.units import show_bytes

if TYPE_CHECKING:
    from swapconf.study.study import Study
    from swapconf.whatif.pynative.question import NativeAnswer


def run(trace: Path, study: Study, form: str, safe: bool, refused: dict[str, bool]) -> None:
    """``safe``: print the upper bound, too. ``refused``: options that have no answer in PyNative mode, and whether they
    were given. Raises UsageError."""
    from swapconf.dryrun.pynative.expert_load import told_by
    from swapconf.dryrun.rank_order import cluster_of
    from swapconf.whatif.pynative.question import OF_RANK, ORIGIN, RACING, NativeMismatch, NativeQuestion

    for option, is_given in refused.items():
        if is_given:
            raise click.UsageError(phrase(_REASONS[option], option=option))
    try:
        answer = NativeQuestion(trace, study).answer()
    except NativeMismatch as error:
        raise click.UsageError(str(error)) from None
    are_several = cluster_of(study.document).num_devices > 1
    load = told_by(trace)
    origin = joined(", ", [OF_RANK if are_several else ORIGIN, *[load] * bool(load)])
    if form == "json":
        click.echo(json.dumps(as_record(answer, origin), indent=2))
        return
    _print(answer, safe)
    say(origin)
    if are_several and not answer.launches_blocked:
        say(RACING)


_UNTIMED = mark(
    "{option} is not there in PyNative mode: operators start as Python launches them, and no times of them are known"
)
_REASONS = {
    "--hardware": _UNTIMED,
    "--sweep": mark(
        "{option} is not there in PyNative mode, where a prefetch counts layers; ask for each with "
        "--set swap.default_prefetch=N"
    ),
    "--html": mark("{option} is not there in PyNative mode yet; `swapconf memory` shows the trace of a dry run"),
}


def as_record(answer: NativeAnswer, origin: str) -> dict[str, Any]:
    """The JSON form, with the keys of graph mode; what is not known is null. Bytes as whole numbers."""
    from swapconf.memory.categories import bytes_at_peak
    from swapconf.report.memory_tables import entry_records

    found, placed = answer.prediction, answer.placement
    return {
        "used_peak_bytes": found.used_peak_bytes,
        "with_fragments_peak_bytes": None if placed is None else placed.mapped_bytes,
        "reserved_bytes": None if placed is None else placed.reserved_bytes,
        "device": None,
        "safe_used_peak_bytes": answer.safe_bytes,
        "baseline_used_peak_bytes": answer.baseline_peak_bytes,
        "categories": {category.value: size for category, size in bytes_at_peak(found.device).items()},
        "host_peak_bytes": found.host_peak_bytes,
        "moved_bytes_per_step": answer.moved_bytes,
        "recomputed_kernels_per_step": answer.recomputed,
        "entries": entry_records(answer.entries),
        "layers": [
            {
                "layer": one.layer,
                "baseline_bytes_at_peak": one.before_bytes,
                "bytes_at_peak": one.used_bytes,
                "moved_bytes_per_step": one.moved_bytes,
                "recomputed_kernels_per_step": one.recomputed,
            }
            for one in answer.layers
        ],
        "time": {},
        "host": None,
        "sweep": [],
        "best": {},
        "findings": [],
        "origin": show(origin),
    }


def _print(answer: NativeAnswer, safe: bool) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report.memory_tables import entries_table

    peak = answer.prediction.used_peak_bytes
    say(
        phrase(
            "used peak {peak} ({bytes} bytes), without swap and recompute {before}; with fragments {mapped}",
            peak=show_bytes(peak),
            bytes=peak,
            before=show_bytes(answer.baseline_peak_bytes),
            mapped=phrase("not known") if answer.placement is None else show_bytes(answer.placement.mapped_bytes),
        )
    )
    if safe:
        say(phrase("at most   {size} ({bytes} bytes)", size=show_bytes(answer.safe_bytes), bytes=answer.safe_bytes))
    say(
        phrase(
            "host peak {peak}, moved in each step {moved}, kernels run again in each step {kernels}",
            peak=show_bytes(answer.prediction.host_peak_bytes),
            moved=show_bytes(answer.moved_bytes),
            kernels=answer.recomputed,
        )
    )
    if answer.entries:
        print_rows(*entries_table(answer.entries))
    head = (
        phrase("layer"),
        phrase("without at its peak"),
        phrase("at the peak"),
        phrase("moved per step"),
        phrase("run again"),
    )
    rows = [
        (
            str(one.layer),
            show_bytes(one.before_bytes),
            show_bytes(one.used_bytes),
            show_bytes(one.moved_bytes),
            str(one.recomputed),
        )
        for one in answer.layers
    ]
    print_rows(head, rows, ())
