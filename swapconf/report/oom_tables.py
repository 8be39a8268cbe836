"""HELD -> TEXT or JSON: what filled the memory that a table recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swapconf.postmortem.held import BEFORE, HeldAtPeak, HeldBlock
from swapconf.report.memory_tables import OUTSIDE
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import phrase, plural
from swapconf.words.units import show_bytes

UNTOLD = "-"
NO_FAILURE = phrase(
    "a table tells no failure, only what was allocated; the log of the run tells which allocation failed: "
    "`swapconf oom LOG`"
)


def printed(held: HeldAtPeak) -> Iterator[PrintedTable]:
    yield _summary(held)
    yield _shares(held)
    if held.by_phase:
        yield _phases(held)
    yield _blocks(held)


def _summary(held: HeldAtPeak) -> PrintedTable:
    blocks = plural(held.num_blocks, "{count} block", "{count} blocks")
    head = (phrase("peak"), phrase("{size} in use, {blocks}", size=show_bytes(held.peak_bytes), blocks=blocks))
    rows = [(phrase("made by"), _block(held.made_by))]
    if held.pool_bytes is not None:
        rows.append(
            (
                phrase("pool"),
                phrase(
                    "had taken {pool} then, {pieces} of it free in pieces",
                    pool=show_bytes(held.pool_bytes),
                    pieces=show_bytes(held.pieces_bytes),
                ),
            )
        )
    if held.device:
        rows.append(
            (
                phrase("device"),
                phrase("{device}, the fullest of {count}", device=held.device, count=held.num_devices)
                if held.num_devices > 1
                else held.device,
            )
        )
    rows.append((phrase("last"), _block(held.last)))
    rows.append((phrase("at the end"), phrase("{size} not released", size=show_bytes(held.alive_at_end_bytes))))
    return PrintedTable(head, rows, frozenset(head))


def _block(block: HeldBlock) -> str:
    if block.layer < 0:
        return phrase("{operator}, {size}", operator=block.name or UNTOLD, size=show_bytes(block.size_bytes))
    return phrase(
        "{operator} of layer {layer}, {size}", operator=block.name, layer=block.layer, size=show_bytes(block.size_bytes)
    )


def _shares(held: HeldAtPeak) -> PrintedTable:
    head = (phrase("at the peak"), phrase("bytes"), phrase("share"))
    rows = [
        (
            phrase(name) if held.kind == "memory_block" or name == BEFORE else name or UNTOLD,
            show_bytes(size),
            f"{size / held.peak_bytes:.1%}",
        )
        for name, size in held.by_category
        if held.peak_bytes
    ]
    return PrintedTable(head, rows, frozenset(head[:1]))


def _phases(held: HeldAtPeak) -> PrintedTable:
    head = (phrase("phase"), phrase("most in use"))
    rows = [(phrase(name), show_bytes(size)) for name, size in held.by_phase]
    return PrintedTable(head, rows, frozenset(head[:1]))


def _blocks(held: HeldAtPeak) -> PrintedTable:
    """Without the columns of which the table tells nothing."""
    head = (phrase("largest blocks"), phrase("bytes"), phrase("layer"), phrase("holds"), phrase("phase"))
    rows = [
        (
            one.name or UNTOLD,
            show_bytes(one.size_bytes),
            OUTSIDE if one.layer < 0 else str(one.layer),
            phrase(one.holds) if one.holds else "-",
            phrase(one.phase) if one.phase else "-",
        )
        for one in held.blocks
    ]
    width = len(head) if any(one.holds or one.phase for one in held.blocks) else 3
    return PrintedTable(head[:width], [row[:width] for row in rows], frozenset((head[0], *head[2:])))


def notes(held: HeldAtPeak) -> Iterator[str]:
    yield NO_FAILURE
    if held.kind == "memory_block":
        yield phrase("next: `swapconf plan train.yaml --budget 54GB` finds what to swap and to recompute")


def as_record(held: HeldAtPeak) -> dict[str, Any]:
    """The JSON form. Bytes as whole numbers; null is not told."""

    def block(one: HeldBlock) -> dict[str, Any]:
        return {
            "bytes": one.size_bytes,
            "operator": one.name,
            "layer": None if one.layer < 0 else one.layer,
            "holds": one.holds or None,
            "phase": one.phase or None,
        }

    return {
        "kind": held.kind,
        "file": held.file,
        "device": held.device or None,
        "peak_bytes": held.peak_bytes,
        "pool_bytes": held.pool_bytes,
        "free_in_pieces_bytes": held.pieces_bytes,
        "made_by": block(held.made_by),
        "last": block(held.last),
        "at_peak": [{"name": name, "bytes": size} for name, size in held.by_category],
        "phases": [{"phase": name, "used_peak_bytes": size} for name, size in held.by_phase],
        "largest_blocks": [block(one) for one in held.blocks],
        "blocks": held.num_blocks,
        "not_released_bytes": held.alive_at_end_bytes,
    }
