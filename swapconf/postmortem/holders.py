"""HITS of the driver's statistics -> HOLDERS: how much each module of a process held when an allocation failed.

The driver prints for each module of CANN what it holds, when an allocation fails and when the process ends. These lines
mostly stand in another file (run/plog) than the failure (debug/plog), so they are joined by process and time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from swapconf.postmortem.cann_modules import APP
from swapconf.postmortem.scan import Hit

NEAR_S = 10.0  # between a failure and the statistics about it; the driver writes both at once
_SAME_BYTES = 2**14  # lines of one printing stand closer
_MOST_PRINTINGS, _MOST_LINES = 256, 1024
_NOT_HBM = ("DDR", "DVPP")  # kinds of a device's memory that are not what training fills

_Key = tuple[int | None, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """``module``: in CANN's words, APP for the framework. ``device``: None for pinned memory of the host."""

    module: str
    device: int | None
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Printing:
    """What the modules of one process held at a time. ``process``: its number; both "" where not told."""

    process: str
    time: str
    holders: tuple[Holder, ...]


@dataclass(kw_only=True)
class _Open:
    process: str
    time: str
    end: int
    held: dict[_Key, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class Printings:
    """Those of one log, as their lines are found; of a log without end the first ones."""

    _found: list[_Open] = field(default_factory=list)

    def take(self, hit: Hit, process: str, time: str) -> None:
        values = hit.values
        size, module, kind, device = (values.get(name) for name in ("held", "held_by", "held_in", "held_on"))
        if not isinstance(size, int) or not isinstance(module, str) or any(part in str(kind) for part in _NOT_HBM):
            return
        key = (device if isinstance(device, int) else None, str(kind), module)
        last = self._found[-1] if self._found else None
        is_same = last is not None and last.process == process and hit.place.offset - last.end <= _SAME_BYTES
        if last is None or not is_same or key in last.held:
            if len(self._found) == _MOST_PRINTINGS:
                return
            last = _Open(process=process, time=time, end=hit.place.offset)
            self._found.append(last)
        last.end = hit.place.offset
        if len(last.held) < _MOST_LINES:
            last.held[key] = size

    def found(self) -> tuple[Printing, ...]:
        return tuple(
            Printing(process=one.process, time=one.time, holders=tuple(_by_module(one.held))) for one in self._found
        )


def _by_module(held: dict[_Key, int]) -> Iterable[Holder]:
    """Small and huge pages together, the largest first; none for what holds nothing."""
    sums: dict[tuple[int | None, str], int] = {}
    for (device, _, module), size in held.items():
        sums[device, module] = sums.get((device, module), 0) + size
    found = [Holder(module=module, device=device, size_bytes=size) for (device, module), size in sums.items() if size]
    return sorted(found, key=lambda one: (-one.size_bytes, one.module))


def nearest(printings: Iterable[Printing], process: str, time: str, device: int | None) -> tuple[Holder, ...]:
    """Those of the same process within `NEAR_S` of a time, on one device and the host: on the given one, else on the
    fullest. None where a process or a time is not told."""
    near = [
        (distance, one.holders)
        for one in printings
        if process and one.process == process and (distance := seconds_between(one.time, time)) <= NEAR_S
    ]
    if not near:
        return ()
    holders = min(near, key=lambda pair: pair[0])[1]
    if device is None or all(one.device != device for one in holders):
        device = _fullest(holders)
    return tuple(one for one in holders if one.device in (None, device))


def app_bytes(holders: Iterable[Holder]) -> int | None:
    """What the framework itself held of the device: its pool."""
    return next((one.size_bytes for one in holders if one.module == APP and one.device is not None), None)


def _fullest(holders: Iterable[Holder]) -> int | None:
    sums: dict[int, int] = {}
    for one in holders:
        if one.device is not None:
            sums[one.device] = sums.get(one.device, 0) + one.size_bytes
    return max(sums, key=sums.__getitem__, default=None)


def seconds_between(one: str, other: str) -> float:
    """Of two times as logs write them; infinite where one is none."""
    try:
        return abs((datetime.fromisoformat(one) - datetime.fromisoformat(other)).total_seconds())
    except (ValueError, TypeError):
        return inf
