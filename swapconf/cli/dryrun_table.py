"""REPORTS -> TERMINAL: what a dry run tells of each rank, in a table and in lines below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from swapconf.cli.common import print_findings, say
from swapconf.cli.tables import print_rows
from swapconf.dryrun.outcome import RankReport, origin
from swapconf.dryrun.report_record import COLUMNS
from swapconf.words.columns import table
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import show_bytes


def print_reports(reports: Sequence[RankReport], limit: int | None, card: str = "") -> None:
    """``limit``: of ``--budget``, None without. ``card``: whose memory beside the pool is told."""
    print_rows(*table(COLUMNS, reports), styles=("" if report.outcome.good else "bold red" for report in reports))
    for report in reports:
        if report.by_step:
            _print_steps(report)
    for report in reports:
        if report.device_bytes is not None:
            say(
                phrase(
                    "Device MOC memory size {size}, MindSpore may use {usable}, base address {address}",
                    size=show_bytes(report.device_bytes),
                    usable=show_bytes(report.usable_bytes),
                    address=report.base_address,
                )
            )
            break
    if any(report.level == 1 for report in reports):
        say(phrase("dry run level 1: operator workspace is not included"))
    for report in reports:
        for text in _lines(report, card):
            say(phrase("rank {rank}: {text}", rank=report.rank, text=text))
    print_findings([finding for report in reports for finding in report.findings])
    for report in reports:
        if limit is not None and report.needs_more_than(limit):
            say(_over(report, limit), fg="red")


def _lines(report: RankReport, card: str) -> Iterator[str]:
    """What is told of a rank below the table."""
    from swapconf.memory.whole_device import device_line
    from swapconf.timing.host_demand import host_line

    if report.level > 1:
        yield _added(report)
    if report.hyper_parallel:
        yield origin(report)
    if report.least_used_peak_bytes is not None:
        yield _raced(report)
    if report.fold_note:
        yield report.fold_note
    if report.device is not None:
        yield device_line(report.device, card)
    if report.host_demand is not None:
        yield host_line(report.host_demand)


def _print_steps(report: RankReport) -> None:
    """What each step held, where more of them were asked for than usual."""
    head = (phrase("step"), phrase("used peak"), phrase("in use behind it"), phrase("process"), phrase("Tensors"))
    rows = [
        (
            str(step.step),
            show_bytes(step.peak_bytes),
            show_bytes(step.held_bytes),
            show_bytes(step.process_bytes),
            f"{step.tensors:,}",
        )
        for step in report.by_step
    ]
    title = phrase("{file}, rank {rank}, step by step", file=Path(report.file).name, rank=report.rank)
    if report.folded:
        title = phrase("{title}, of {layers} layers", title=title, layers=max(report.folded))
    print_rows(head, rows, (), title=title)


def _over(report: RankReport, limit: int) -> str:
    """Why a rank needs more than a budget."""
    peak = report.with_fragments_peak_bytes or 0
    told = phrase(
        "rank {rank}: {size} is over the budget of {budget}",
        rank=report.rank,
        size=show_bytes(peak),
        budget=show_bytes(limit),
    )
    if peak > limit or report.beside is None:
        return told
    return phrase(
        "rank {rank}: {size} is over the {room} that a card of {card} has left for MindSpore's pool where all "
        "beside it takes the most",
        rank=report.rank,
        size=show_bytes(peak),
        room=show_bytes(report.beside.room_bytes),
        card=show_bytes(report.beside.card_bytes),
    )


def _raced(report: RankReport) -> str:
    """What the peak of a card may be, by who of its threads is faster."""
    least, used = show_bytes(report.least_used_peak_bytes), show_bytes(report.used_peak_bytes)
    if report.ahead_used_peak_bytes is None:
        return phrase(
            "threads race for when memory is given back: {used} in this run, {least} at the least, and at the most "
            "what --launch-blocking shows",
            used=used,
            least=least,
        )
    return phrase(
        "threads race on a card for when memory is given back: its used peak lies between {least} and {used}, and is "
        "{ahead} with Python some operators ahead",
        used=used,
        least=least,
        ahead=show_bytes(report.ahead_used_peak_bytes),
    )


def _added(report: RankReport) -> str:
    """What levels 2 and 3 say beyond the table."""
    parts = [origin(report)]
    if report.workspace_bytes:
        parts.append(
            phrase(
                "the largest is {size}, of {kernel}",
                size=show_bytes(report.workspace_bytes),
                kernel=report.workspace_kernel,
            )
        )
    if report.workspace_for:
        parts.append(phrase("workspace is that of {card}", card=report.workspace_for))
    if report.outside_bytes:
        parts.append(
            phrase(
                "HCCL takes {size} besides (its own buffers, in no column above)", size=show_bytes(report.outside_bytes)
            )
        )
    if report.step_us is not None:
        parts.append(phrase("{milliseconds:.3f} ms a step", milliseconds=report.step_us / 1000))
    return joined("; ", parts)
