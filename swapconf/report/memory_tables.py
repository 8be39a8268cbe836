"""MEMORY VIEW -> TABLES of what is alive at the peak: by category, by layer, by operator. Each table adds up to the
used peak; what does not fit into ``num_rows`` is the last row. And the same entries as the JSON forms have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from swapconf.memory.memory_view import EntryTotal, MemoryView
from swapconf.trace.lifetimes import CATEGORIES
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import show_bytes

OUTSIDE = phrase("outside")


def categories_table(view: MemoryView) -> PrintedTable:
    """One row a category."""
    total = view.used_peak_bytes
    rows = [
        (phrase(category.value), show_bytes(size), f"{size / total:.1%}")
        for category, size in view.category_bytes.items()
    ]
    head = (phrase("at the peak"), phrase("bytes"), phrase("share"))
    return PrintedTable(head, rows, frozenset(head[:1]))


def layers_table(view: MemoryView, num_rows: int | None = None) -> PrintedTable:
    """One row a layer, one column a category; the rows with the most, in order of layers."""
    categories = [category for category in CATEGORIES if category in view.category_bytes]
    ranked = sorted(view.layer_bytes, key=lambda layer: -sum(view.layer_bytes[layer].values()))
    kept, rest = sorted(ranked[:num_rows]), ranked[len(ranked[:num_rows]) :]

    def row(name: str, layers: Iterable[int]) -> tuple[str, ...]:
        sizes = [sum(view.layer_bytes[layer].get(category, 0) for layer in layers) for category in categories]
        return (name, show_bytes(sum(sizes)), *(show_bytes(size) if size else "-" for size in sizes))

    rows = [row(OUTSIDE if layer < 0 else str(layer), [layer]) for layer in kept]
    if rest:
        rows.append(row(_more(rest), rest))
    head = (phrase("layer"), phrase("bytes"), *(phrase(category.value) for category in categories))
    return PrintedTable(head, rows, frozenset(head[:1]))


def operators_table(view: MemoryView, num_rows: int | None = None) -> PrintedTable:
    """One row an operator and category, over all layers, the largest first."""
    kept, rest = view.operators[:num_rows], view.operators[len(view.operators[:num_rows]) :]
    rows: list[tuple[str, ...]] = [
        (
            total.operator,
            phrase(total.category.value),
            layers_in_words(total.layers),
            str(total.num_blocks),
            show_bytes(total.size_bytes),
        )
        for total in kept
    ]
    if rest:
        rows.append(
            (
                _more(rest),
                "",
                "",
                str(sum(total.num_blocks for total in rest)),
                show_bytes(sum(total.size_bytes for total in rest)),
            )
        )
    head = (phrase("operator"), phrase("holds"), phrase("layers"), phrase("blocks"), phrase("bytes"))
    return PrintedTable(head, rows, frozenset(head[:3]))


def _more(rest: Sequence[object]) -> str:
    return phrase("{number} more", number=len(rest))


def entries_table(entries: Iterable[EntryTotal]) -> PrintedTable:
    """One row an entry of the YAML."""
    rows = [
        (
            total.text,
            str(total.origin.line or "-"),
            show_bytes(total.saved_bytes),
            show_bytes(total.moved_bytes),
            str(total.recomputed),
        )
        for total in entries
    ]
    head = (phrase("entry"), phrase("line"), phrase("saved at the peak"), phrase("moved per step"), phrase("run again"))
    return PrintedTable(head, rows, frozenset(head[:1]))


def entry_records(entries: Iterable[EntryTotal]) -> list[dict[str, Any]]:
    """The same as values of the JSON forms."""
    return [
        {
            "path": total.origin.path,
            "line": total.origin.line,
            "entry": total.text,
            "saved_bytes": total.saved_bytes,
            "moved_bytes_per_step": total.moved_bytes,
            "recomputed_kernels_per_step": total.recomputed,
        }
        for total in entries
    ]


def layers_in_words(layers: Sequence[int]) -> str:
    """``0-3, 5`` of ascending indices; ``outside`` of -1."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and runs[-1][0] >= 0 and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return joined(
        ", ", (OUTSIDE if run[0] < 0 else str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    )
