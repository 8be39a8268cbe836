"""FIGURES of memory that a run prints -> what in them cannot be: figures that contradict each other.

Source: MindSpore prints as the peak without fragments the most that was in use, and as the one with fragments what its
pool has mapped when it prints, where virtual memory is on (AscendDynamicMemAdapter::DevMemStatistics in public sources
of 2.x), else the most that the pool held. On a card neither can be above what the pool may take, nor that above the
card; a dry run has no card, and MindSpore does not stop it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swapconf.words.phrases import phrase
from swapconf.words.units import MIB, show_bytes

ROUNDED_BYTES = MIB  # MindSpore gives whole MiB, rounded down
_ROUNDED_GIB = 2**24  # torch_npu gives GiB with two decimals


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """In bytes; None is not told. ``summed_peak``: of all cards of a process together; ``limit``: what the pool may
    take; ``pool``: what it had taken at one time, and then ``in_use`` of it, and ``free`` of the card."""

    used_peak: int | None = None
    mapped_peak: int | None = None
    summed_peak: int | None = None
    limit: int | None = None
    device: int | None = None
    pool: int | None = None
    in_use: int | None = None
    free: int | None = None

    @property
    def is_told(self) -> bool:
        return self != Figures()


def impossible(figures: Figures) -> Iterator[tuple[str, str]]:
    """What cannot be, and what was probably meant or what to do."""
    yield from _peaks(figures)
    yield from _above(figures)
    yield from _pool(figures)


def _peaks(found: Figures) -> Iterator[tuple[str, str]]:
    if _is_above(found.used_peak, found.mapped_peak):
        yield (
            phrase(
                "the peak with fragments ({mapped}) is below the one without ({used}), which is a part of it",
                mapped=show_bytes(found.mapped_peak),
                used=show_bytes(found.used_peak),
            ),
            phrase(
                "take {used} as the least that was needed: with virtual memory MindSpore prints what its pool holds at "
                "the end, not the most; or the two lines are of two runs, or were changed",
                used=show_bytes(found.used_peak),
            ),
        )


def _above(found: Figures) -> Iterator[tuple[str, str]]:
    peak = max((one for one in (found.used_peak, found.mapped_peak) if one is not None), default=None)
    of_no_card = phrase("no card gives that: these are figures of a dry run, or of two runs")
    if _is_above(peak, found.device):
        yield (
            phrase(
                "the peak ({peak}) is above the card ({device})", peak=show_bytes(peak), device=show_bytes(found.device)
            ),
            of_no_card,
        )
    elif _is_above(peak, found.limit):
        yield (
            phrase(
                "the peak ({peak}) is above what the pool may take ({limit})",
                peak=show_bytes(peak),
                limit=show_bytes(found.limit),
            ),
            of_no_card,
        )
    if _is_above(found.summed_peak, found.device, _ROUNDED_GIB):
        yield (
            phrase(
                "memory(GiB) tells {peak} of a card of {device}",
                peak=show_bytes(found.summed_peak),
                device=show_bytes(found.device),
            ),
            phrase("ms-swift adds up all cards that a process sees: divide it by their number"),
        )
    if _is_above(found.limit, found.device):
        yield (
            phrase(
                "the pool may take {limit} of a card of {device}",
                limit=show_bytes(found.limit),
                device=show_bytes(found.device),
            ),
            of_no_card,
        )


def _pool(found: Figures) -> Iterator[tuple[str, str]]:
    mixed = phrase("the figures are of two moments or of two processes: do not add them up")
    if _is_above(found.in_use, found.pool, _ROUNDED_GIB):
        yield (
            phrase("{used} are in use in a pool of {pool}", used=show_bytes(found.in_use), pool=show_bytes(found.pool)),
            mixed,
        )
    for size, words in (
        (found.pool, phrase("the pool has taken {size}", size=show_bytes(found.pool))),
        (found.free, phrase("{size} are free", size=show_bytes(found.free))),
    ):
        if _is_above(size, found.device, _ROUNDED_GIB):
            yield phrase("{words} of a card of {device}", words=words, device=show_bytes(found.device)), mixed


def _is_above(one: int | None, other: int | None, rounded_bytes: int = ROUNDED_BYTES) -> bool:
    return one is not None and other is not None and one > other + rounded_bytes
