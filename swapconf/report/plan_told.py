"""What is told of a plan in both modes, graph and PyNative: its lines, and the columns of its tables and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from swapconf.memory.advice import advice, peak_line
from swapconf.memory.holders import peak
from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.frontier import PointEntry
from swapconf.plan.limits import Limits
from swapconf.trace.trace import Trace
from swapconf.words.columns import Column, PrintedTable, count, milliseconds, record, size, table, words
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import Span, show_bytes, spans

ENDED_EARLY = phrase("the search was ended early; this is the best until then")


# --- lines ------------------------------------------------------------------------------------------------------------


def comment(budget: str, needs: str, step: str, hardware: str, slower_us: float, slower_link: float) -> str:
    """What stands above a plan in the YAML; in English, as the file may be read by anybody."""
    return (
        f"planned by swapconf for {budget} a card: needs {needs}, {step} on {hardware} (estimated; "
        f"{slower_us / 1000:.1f} ms with a host link {slower_link:.0%} slower)"
    )


def room_line(limits: Limits) -> Iterator[str]:
    """Where a card has less left than the budget."""
    if limits.usable_bytes < limits.budget_bytes:
        yield phrase(
            "beside all else that it may hold a card has {room} left, less than the budget of {budget}",
            room=show_bytes(limits.usable_bytes),
            budget=show_bytes(limits.budget_bytes),
        )


def not_needed(needed_bytes: int, limits: Limits) -> str:
    return phrase(
        "nothing is needed: without swap and recompute each card holds at most {needed} of {budget}",
        needed=show_bytes(needed_bytes),
        budget=show_bytes(limits.usable_bytes),
    )


def nothing_fits(
    needed_bytes: int, limits: Limits, traces: Iterable[tuple[int, Trace]], *, is_out_of_reach: bool = False
) -> Iterator[str]:
    """``traces``: with their ranks, one for each of the limits; what holds the memory of each is told.
    ``is_out_of_reach``: no plan can fit, so that only the simplest were tried."""
    words = {"budget": show_bytes(limits.usable_bytes), "needed": show_bytes(needed_bytes)}
    if is_out_of_reach:
        yield phrase("no plan can fit in {budget}; the lowest of the simple ones needs {needed}", **words)
    else:
        yield phrase("no plan that was tried fits in {budget}; the lowest needs {needed}", **words)
    for (rank, trace), most_bytes in zip(traces, limits.pool_bytes, strict=True):
        held = peak(trace)
        yield phrase("rank {rank}: {held}", rank=rank, held=advice(held, most_bytes) or peak_line(held))


def link_line(nominal: str, slower_us: float, slower_link: float) -> str:
    """What a slower link does to the plan, and how sure its time is. ``nominal``: the step with the link as told."""
    return phrase(
        "with the host link as told a step of the plan is estimated at {nominal}; with one {share:.0%} slower at "
        "{slower:.3f} ms; strategies share what is uncertain of their kernels, so that their differences are surer",
        nominal=nominal,
        slower=slower_us / 1000,
        share=slower_link,
    )


def entry(path: str, prefetch: int | None) -> str:
    """``path``: "" for whole layers. ``prefetch``: None for a recompute."""
    what = path or phrase("whole layers")
    if prefetch is None:
        return phrase("recompute {operator}", operator=what)
    return phrase("swap {operator}, prefetch {prefetch}", operator=what, prefetch=prefetch)


def in_words(entries: Iterable[PointEntry], num_layers: int) -> str:
    """What a plan asks for; "" for nothing."""
    return joined("; ", (in_layers(entry(one.path, one.prefetch), one.layers, num_layers) for one in entries))


def in_layers(told: str, layers: Sequence[int], num_layers: int) -> str:
    """An entry, and the layers that it is for."""
    if len(layers) == num_layers:
        return phrase("{entry}, in all layers", entry=told)
    if len(layers) == 1:
        return phrase("{entry}, in layer {layer}", entry=told, layer=layers[0])
    return phrase("{entry}, in layers {layers}", entry=told, layers=layers_told(layers))


def layers_told(layers: Sequence[int]) -> str:
    """``0-25, every 2nd of 26-30``."""
    return joined(", ", map(_span, spans(layers)))


def _span(span: Span) -> str:
    first, last, step = span
    if first == last:
        return str(first)
    if step == 1:
        return f"{first}-{last}"
    if step == 2:
        return phrase("every 2nd of {first}-{last}", first=first, last=last)
    if step == 3:
        return phrase("every 3rd of {first}-{last}", first=first, last=last)
    return phrase("one in {step} of {first}-{last}", step=step, first=first, last=last)


def regular_line(ranges: int, of_fastest: int, change: float) -> str:
    """``change``: what it costs, as a share of the step."""
    return phrase(
        "layers in ranges that are easy to read cost {change:.2f}% of a step: the fastest plan that was found has "
        "{others} of them, this one {ranges}",
        change=100 * change,
        ranges=ranges,
        others=of_fastest,
    )


# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of a plan, and what it is worth. ``path``: "" for whole layers; ``prefetch``: None for a recompute."""

    path: str
    prefetch: int | None
    layers: tuple[int, ...]
    saved_bytes: int
    cost_us: float
    moved_bytes: int


def _asked(prefetch_key: str) -> tuple[Column[Entry | PointEntry], ...]:
    return (
        Column(key="kind", value=lambda item: "recompute" if item.prefetch is None else "swap"),
        Column(key="operator", value=lambda item: item.path),
        Column(key=prefetch_key, value=lambda item: item.prefetch),
    )


def _entries(prefetch_key: str) -> tuple[Column[Entry], ...]:
    """``prefetch_key``: what the YAML calls a prefetch."""
    return (
        *_asked(prefetch_key),
        words(phrase("entry"), lambda item: entry(item.path, item.prefetch)),
        Column(
            title=phrase("layers"),
            shown=lambda item: layers_told(item.layers),
            key="layers",
            value=lambda item: list(item.layers),
            in_words=True,
        ),
        size(phrase("saves"), lambda item: item.saved_bytes, "saved_bytes"),
        milliseconds(phrase("costs ms"), lambda item: item.cost_us, "cost_us", "+.3f"),
        size(phrase("moves"), lambda item: item.moved_bytes, "moved_bytes_per_step"),
    )


def worth(entries: Sequence[Entry]) -> PrintedTable:
    """What each entry is there for."""
    return table(_entries(""), entries)


def entry_records(entries: Sequence[Entry], prefetch_key: str) -> list[dict[str, Any]]:
    return [record(_entries(prefetch_key), item) for item in entries]


def point_records(entries: Iterable[PointEntry], prefetch_key: str) -> list[dict[str, Any]]:
    return [{**record(_asked(prefetch_key), item), "layers": list(item.layers)} for item in entries]


def yes_no(is_so: bool) -> str:
    return phrase("yes") if is_so else phrase("no")


CONFIRMED: tuple[Column[ConfirmedRank], ...] = (
    count(phrase("rank"), lambda item: item.rank, "rank"),
    size(phrase("used peak, predicted"), lambda item: item.predicted_used_bytes, "predicted_used_peak_bytes"),
    size(phrase("true"), lambda item: item.used_bytes, "used_peak_bytes"),
    Column(title=phrase("off by"), shown=lambda item: f"{100 * item.error:+.3f}%"),
    size(phrase("with fragments, predicted"), lambda item: item.predicted_pool_bytes, "predicted_with_fragments_bytes"),
    size(phrase("true"), lambda item: item.pool_bytes if item.is_placed else None, "with_fragments_peak_bytes"),
    Column(
        title=phrase("fits"),
        shown=lambda item: yes_no(item.fits),
        key="fits",
        value=lambda item: item.fits,
        in_words=True,
    ),
)
