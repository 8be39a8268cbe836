"""LIFETIMES + PLACEMENT -> MEMORY VIEW: what a picture shows, with no more points than it has pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.allocators import place
from swapconf.memory.categories import by_category, holdings_at_peak
from swapconf.memory.memory_view import BlockMap, EntryTotal, MemoryCurves, MemoryView
from swapconf.memory.replay import Replay, replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace.lifetimes import NEVER, UNTOLD, Lifetimes, Placement, PoolRecord, high_water_bytes
from swapconf.trace.trace import Trace
from swapconf.words.phrases import phrase

NUM_SPANS = 600
NUM_DRAWN = 6000
_PIXELS = (1000, 400)


def of_trace(
    trace: Trace, title: str, origin: str, reported: PoolRecord = UNTOLD, policy: str = "mindspore"
) -> MemoryView:
    """The view of a recorded run; both peaks are MindSpore's own. ``reported``: what the run said of the pool (where
    not what it took of the device, that is what the replay takes). With another policy than MindSpore's the blocks
    stand where it puts them, and only the used peak is recorded."""
    live = lifetimes(trace)
    replayed = replay(trace, live, reported)
    placement = replayed.placement
    if policy != "mindspore":
        placement = place(policy, live, replayed.pool)
        return view(
            live,
            placement,
            title=title,
            rank=trace.rank,
            origin=phrase("{origin}, placed by the policy {policy}", origin=origin, policy=policy),
            with_fragments_peak_bytes=placement.mapped_bytes,
            reserved_bytes=placement.reserved_bytes,
            notes=_notes(trace, replayed),
        )
    return view(
        live,
        placement,
        title=title,
        rank=trace.rank,
        origin=origin,
        with_fragments_peak_bytes=trace.with_fragments_peak_bytes,
        reserved_bytes=placement.reserved_bytes if reported.reserved_bytes is None else reported.reserved_bytes,
        notes=_notes(trace, replayed),
    )


def view(
    live: Lifetimes,
    placement: Placement,
    *,
    title: str,
    rank: int,
    origin: str,
    with_fragments_peak_bytes: int,
    reserved_bytes: int,
    notes: tuple[str, ...] = (),
    ticks: int = 1,
    entries: tuple[EntryTotal, ...] = (),
) -> MemoryView:
    """The view of any set of lifetimes, recorded or predicted, as an allocator places it. ``ticks``: TICKS where the
    lifetimes are predicted."""
    return MemoryView(
        title=title,
        rank=rank,
        origin=origin,
        used_peak_bytes=live.used_peak_bytes,
        with_fragments_peak_bytes=with_fragments_peak_bytes,
        reserved_bytes=reserved_bytes,
        peak_time=live.used.peak_time,
        timeline=timeline(live),
        held_at_peak=holdings_at_peak(live),
        blocks=block_map(live, placement),
        notes=notes,
        ticks=ticks,
        entries=entries,
    )


def timeline(live: Lifetimes, num_spans: int = NUM_SPANS) -> MemoryCurves:
    """At most ``2 * num_spans + 1`` moments: of each span of time the highest and the lowest, and the last of all."""
    used = live.used
    settled = np.diff(used.time, append=NEVER) > 0  # of events at one time, what is in use after all of them
    time, total = used.time[settled], used.bytes_after[settled]
    if not len(time):
        return MemoryCurves(time=time, by_category={})
    span = (time - time[0]) * num_spans // (time[-1] - time[0] + 1)
    firsts = np.flatnonzero(np.diff(span, prepend=-1))
    chosen = np.unique([*_extremes(total, firsts), *_extremes(-total, firsts), len(time) - 1])
    moments = time[chosen]
    return MemoryCurves(
        time=moments,
        by_category={
            category: curve.bytes_after[np.maximum(np.searchsorted(curve.time, moments, side="right") - 1, 0)]
            * (moments >= curve.time[0])
            for category, curve in by_category(live).items()
        },
    )


def _extremes(values: NDArray[np.int64], firsts: NDArray[np.int64]) -> list[int]:
    """The place of the first maximum of each group; a group reaches from one of ``firsts`` to the next."""
    highest = np.repeat(np.maximum.reduceat(values, firsts), np.diff(firsts, append=len(values)))
    places = np.flatnonzero(values == highest)
    group = np.searchsorted(firsts, places, side="right")
    found: list[int] = places[np.flatnonzero(np.diff(group, prepend=0))].tolist()
    return found


def block_map(live: Lifetimes, placement: Placement, num_drawn: int = NUM_DRAWN) -> BlockMap:
    """The blocks that cover the most of a picture; what is thinner than a pixel counts as a pixel thick, so that a
    large block stays, however short its life."""
    last = int(live.used.time[-1]) if len(live) else 0
    end = np.minimum(live.end, last)
    pieces = high_water_bytes(placement.segment, placement.offset, live.size_bytes)
    base = np.cumsum(pieces) - pieces
    width, height = _PIXELS
    life = np.maximum(end - live.start, last / width)
    area = life * np.maximum(live.size_bytes, pieces.sum() / height)
    drawn = np.sort(np.argsort(-area, kind="stable")[:num_drawn])
    left_out = np.delete(live.size_bytes, drawn)
    weight = live.size_bytes.astype(np.float64) * (end - live.start)
    code, names = np.unique(live.name[drawn], return_inverse=True)
    return BlockMap(
        start=live.start[drawn],
        end=end[drawn],
        is_released=live.end[drawn] != NEVER,
        bottom=base[placement.segment[drawn]] + placement.offset[drawn],
        size_bytes=live.size_bytes[drawn],
        category=live.category[drawn],
        layer=live.layer[drawn],
        name=names.astype(np.int32),
        names=tuple(live.names[index] for index in code),
        piece_bytes=tuple(pieces.tolist()),
        num_blocks=len(live),
        drawn_share=float(weight[drawn].sum() / weight.sum()) if weight.sum() else 1.0,
        largest_left_out_bytes=int(left_out.max(initial=0)),
    )


def _notes(trace: Trace, replayed: Replay) -> tuple[str, ...]:
    notes: list[str] = []
    if not replayed.is_exact:
        notes.append(
            phrase(
                "Only {same} of {blocks} addresses follow MindSpore's known rules; where the blocks stand "
                "in the picture is approximate.",
                same=replayed.num_same,
                blocks=replayed.num_blocks,
            )
        )
    if not trace.tasks:
        notes.append(
            phrase(
                "{reason}. Activations, gradients and temporaries cannot be told apart; all of them are "
                "temporaries here.",
                reason=trace.why_no_graph,
            )
        )
    return tuple(notes)
