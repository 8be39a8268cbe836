"""HITS of a log that several ranks share -> WHO: the rank, or else the device, that each message is of.

A line may begin with its rank (``[rank3]:``, ``[1,3]<stderr>:``). torch_npu writes ``(PID:927, Device:3, RankID:3)``
into the first line of a report, with -1 where it knows no rank; the lines behind it bear the number of the process, or
nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from swapconf.files.log_folder import RANK_TAG, number
from swapconf.postmortem.message import Framework
from swapconf.postmortem.scan import Hit

_SAME_BYTES = 4096  # only the first line of a message bears the rank
_ABOVE_BYTES = 512  # from a marker to the message that it is of, in the next lines
_MOST_PROCESSES = 10_000
_MARKER = re.compile(rb"\(PID: ?(\d{1,9}), ?Device: ?(-?\d{1,6}), ?RankID: ?(-?\d{1,6})\)")
_PID = re.compile(rb"\[PID: ?(\d{1,9})\]")


class Marker(NamedTuple):
    """``device``, ``rank``: -1 where torch_npu knows none."""

    pid: bytes
    device: int
    rank: int


def marker_of(hit: Hit) -> Marker | None:
    """The marker in the line of a message, or below one of torch_npu, or in the lines right above it."""
    found = _MARKER.search(hit.around)
    if found is None and hit.message.framework is Framework.TORCH_NPU:
        found = _MARKER.search(hit.below)
    if found is None:
        found = next(iter(list(_MARKER.finditer(hit.before[-_ABOVE_BYTES:]))[::-1]), None)
    return Marker(found[1], int(found[2]), int(found[3])) if found is not None else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Who:
    """``device``: its number on the host, where no rank is told."""

    rank: int | None = None
    device: int | None = None


@dataclass(kw_only=True)
class Whose:
    """Asked for one hit after the other. ``rank``: of all of the log, by its name; None where each line may tell."""

    rank: int | None
    _last: Who = field(default_factory=Who)
    _end: int = 0
    _by_pid: dict[bytes, Who] = field(default_factory=dict)

    def of(self, hit: Hit) -> Who:
        if self.rank is not None:
            return Who(rank=self.rank)
        is_near = hit.place.offset - self._end <= _SAME_BYTES
        self._last = self._told(hit, is_near) or (self._last if is_near else Who())
        self._end = hit.place.offset
        return self._last

    def _told(self, hit: Hit, is_near: bool) -> Who | None:
        tag, marker = RANK_TAG.match(hit.line), marker_of(hit)
        if tag is not None:
            return self._remember(marker if _MARKER.search(hit.around) else None, Who(rank=number(tag)))
        if (pid := _PID.search(hit.around)) is not None and pid[1] in self._by_pid:
            return self._by_pid[pid[1]]
        if marker is None:
            return None
        if marker.rank >= 0:
            return self._remember(marker, Who(rank=marker.rank))
        if marker.device < 0 or (is_near and self._last.rank is not None):
            return None  # of a report whose first line bears the rank
        return self._remember(marker, Who(device=marker.device))

    def _remember(self, marker: Marker | None, who: Who) -> Who:
        if marker is not None and len(self._by_pid) < _MOST_PROCESSES:
            self._by_pid[marker.pid] = who
        return who
