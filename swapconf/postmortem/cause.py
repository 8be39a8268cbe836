"""FAILURE -> DIAGNOSIS: what held the memory, how much of it was fragments, and which limit was met.

Only figures that the log tells are used; what is not told stays None, and where the figures do not suffice the cause
says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from swapconf.postmortem.cann_modules import APP
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.holders import app_bytes
from swapconf.postmortem.message import Memory
from swapconf.postmortem.whose import is_communication
from swapconf.words.phrases import mark

OTHERS_SHARE = 0.2  # of a card: driver, HCCL and runtime hold less, 3.3 to 8 GiB of 64
PIECES_SHARE = 0.03  # of a pool: with less in pieces it is as good as full, whatever was asked
MOST_OF_A_CARD = 2**40  # bytes; no Ascend card has a third of it
LIMIT_SHARE = 0.85  # of a card: MindSpore leaves about a tenth of it to others where nobody sets a limit


class Cause(Enum):
    """Why it failed."""

    UNREAL = mark("no card has what was asked for: the size is wrong, the card is not full")
    HOST = mark("the host gave no pinned memory; the card was not full")
    TOO_LARGE = mark("what was asked at once is larger than all that there is")
    FRAGMENTS = mark("enough was free, but not in one piece")
    OTHERS = mark("the card was taken by something else than this pool")
    SETTING = mark("max_device_memory, not the card, was the limit")
    SETTING_TOO_HIGH = mark("max_device_memory asks for more than the card has free")
    FULL = mark("what was in use left too little room")
    COMMUNICATION = mark("no memory was left for a buffer of communication")
    CARD = mark("the card had no room left when the framework asked for more")
    BESIDE = mark("the card was full when memory beside the pool was asked for")
    UNTOLD = mark("the log does not tell figures enough to say why")


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """In bytes; None is not told.

    Attributes:
        asked_bytes: At once, by what failed.
        limit_bytes: What the pool may take.
        device_bytes, device_free_bytes: Of the whole card.
        pool_bytes: What the pool had taken; where only the driver tells, what the framework held.
        in_use_bytes, by_event_bytes: Of it, what tensors held, and what was released but not yet free.
        fragments_bytes: Of it, what was free in pieces that were too small, if that is what it was; else what was free.
        eager_free_bytes: Of it, what was given back to be mapped again.
        others_bytes: Of the card, what neither the pool held nor was free.
        short_bytes: How much more would have sufficed.
        used_peak_bytes, mapped_peak_bytes: Of the run, without and with fragments.
    """

    cause: Cause
    asked_bytes: int | None = None
    limit_bytes: int | None = None
    device_bytes: int | None = None
    device_free_bytes: int | None = None
    pool_bytes: int | None = None
    in_use_bytes: int | None = None
    by_event_bytes: int | None = None
    fragments_bytes: int | None = None
    eager_free_bytes: int | None = None
    others_bytes: int | None = None
    short_bytes: int | None = None
    used_peak_bytes: int | None = None
    mapped_peak_bytes: int | None = None

    @property
    def budget_bytes(self) -> int | None:
        """What a plan may let the pool take: its limit, or else what it had when the card gave no more."""
        if self.cause in (Cause.HOST, Cause.SETTING_TOO_HIGH, Cause.UNREAL):
            return None
        return self.limit_bytes or self.pool_bytes


def diagnose(failure: Failure) -> Diagnosis:
    size = failure.size
    asked, limit, whole = failure.asked_bytes, size("limit"), size("device_total")
    pool, in_use, by_event = size("pool_total"), size("in_use"), size("by_event")
    if pool is None:
        pool = app_bytes(failure.holders)
    if in_use is not None and (planned := size("planned")):
        in_use += planned
    free = size("idle")
    if free is None and pool is not None and in_use is not None:
        free = max(0, pool - in_use - (by_event or 0))
    device_free = size("device_free")
    others = None
    if whole is not None and pool is not None and device_free is not None:
        others = max(0, whole - pool - device_free)
    found = Diagnosis(
        cause=Cause.UNTOLD,
        asked_bytes=asked,
        limit_bytes=limit,
        device_bytes=whole,
        device_free_bytes=device_free,
        pool_bytes=pool,
        in_use_bytes=in_use,
        by_event_bytes=by_event,
        fragments_bytes=free,
        eager_free_bytes=size("eager_free"),
        others_bytes=others,
        short_bytes=_short(asked, limit, in_use, by_event, device_free, free),
        used_peak_bytes=size("used_peak"),
        mapped_peak_bytes=size("mapped_peak"),
    )
    return replace(found, cause=_cause(failure, found))


def _short(
    asked: int | None,
    limit: int | None,
    in_use: int | None,
    by_event: int | None,
    device_free: int | None,
    free: int | None,
) -> int | None:
    """Below the limit of the pool where that is told, else below what the card still had, if it suffices for that."""
    if asked is None:
        return None
    if limit is not None:
        return max(0, (in_use or 0) + (by_event or 0) + asked - limit) or None
    if device_free is not None:
        return max(0, asked - device_free - (free or 0)) or None
    return None


def _cause(failure: Failure, found: Diagnosis) -> Cause:
    if failure.unreal_size or (found.asked_bytes or 0) > MOST_OF_A_CARD:
        return Cause.UNREAL
    if failure.memory is Memory.HOST:
        return Cause.HOST
    if "setting-too-high" in failure.messages:
        return Cause.SETTING_TOO_HIGH
    if _is_setting(found):
        return Cause.SETTING
    asked, most = found.asked_bytes, found.limit_bytes or found.device_bytes
    if asked is not None and most is not None and asked >= most:
        return Cause.TOO_LARGE
    if is_communication(failure):
        return Cause.COMMUNICATION
    if _are_others(failure, found):
        return Cause.OTHERS
    if _are_pieces(found):
        return Cause.FRAGMENTS
    if found.short_bytes is not None or (asked is not None and found.in_use_bytes is not None):
        return Cause.FULL
    room = failure.size("room")
    if room is not None and asked is not None and room < asked:
        return Cause.FULL
    return _refused(failure)


def _refused(failure: Failure) -> Cause:
    """Where only the device tells: by the module that asked; pages for a pool of virtual memory come without one."""
    module = failure.word("module")
    is_physical = "hal-physical" in failure.messages or "driver-create" in failure.messages
    if module == APP or (is_physical and not module):
        return Cause.CARD
    is_launch = "call-launch" in failure.messages
    return Cause.BESIDE if module or is_launch or failure.size("device_asked") is not None else Cause.UNTOLD


def _is_setting(found: Diagnosis) -> bool:
    """A higher limit would have sufficed, and the card has room for it."""
    limit, whole, short = found.limit_bytes, found.device_bytes, found.short_bytes
    if limit is None or whole is None or short is None:
        return False
    return limit + short <= LIMIT_SHARE * whole


def _are_pieces(found: Diagnosis) -> bool:
    """With what the pool could still take, the pieces would have sufficed if they had been one."""
    asked, pieces, pool = found.asked_bytes, found.fragments_bytes, found.pool_bytes
    if asked is None or pieces is None or pool is None:
        return False
    most = max(0, found.limit_bytes - pool) if found.limit_bytes is not None else found.device_free_bytes or 0
    return pieces + most >= asked and pieces >= PIECES_SHARE * pool


def _are_others(failure: Failure, found: Diagnosis) -> bool:
    if found.device_bytes is not None and found.others_bytes is not None:
        return found.others_bytes >= OTHERS_SHARE * found.device_bytes
    if "memory-pool" in failure.messages:  # not even the runtime could start
        return True
    if "device" not in failure.messages:
        return False
    had, more = found.pool_bytes or 0, failure.size("device_asked") or 0
    return found.in_use_bytes is None or (found.limit_bytes is not None and had + more <= found.limit_bytes)
