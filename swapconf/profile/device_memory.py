"""CURVES -> DEVICE MEMORY: what the pools of a process took, what the driver counts for it, and what lies outside.

The driver counts all that a process holds of a card (component ``APP``): the pools, and beside them what CANN, HCCL and
the runtime took for it. Pools are those of the framework and of the graph engine, which the tools also add up
(``PTA+GE``); the sums are left out here. What the driver counts is read every 20 ms or so, what pools hold whenever it
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from swapconf.profile import memory_record
from swapconf.profile.known_files import FileKind
from swapconf.profile.memory_profile import UNKNOWN, Curve
from swapconf.profile.profile_files import ProfileFiles

PROCESS, CARD, POOL = "APP", "Device", "APP"  # the last: the module of CANN through which a framework's pool asks
FRAMEWORKS = frozenset({"MindSpore", "PTA"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleMemory:
    """A module of CANN. ``most_bytes``: the most that it held; ``is_pool``: it is the framework's own."""

    module: str
    most_bytes: int
    is_pool: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceMemory:
    """One device of one profile. None is not told.

    Attributes:
        used_bytes, reserved_bytes: The most that the pools had given out, and had taken of the card, together.
        process_bytes: The most that the driver counted for the process; ``card_bytes``: for all of the card.
        outside_bytes: The most that it counted for the process beyond the pools, at one moment.
        modules: The largest first.
    """

    device: str
    used_bytes: int | None = None
    reserved_bytes: int | None = None
    process_bytes: int | None = None
    card_bytes: int | None = None
    outside_bytes: int | None = None
    modules: tuple[ModuleMemory, ...] = ()


def read(files: ProfileFiles) -> tuple[DeviceMemory, ...]:
    """By device; none where no file tells. Raises SwapconfError."""
    record = memory_record.read(*files.of(FileKind.RECORD))
    driver = memory_record.read_device(*files.of(FileKind.DEVICE))
    modules = memory_record.read_modules(*files.of(FileKind.MODULES))
    return of_curves([*record, *_unless(driver, record)], modules)


def of_curves(curves: Sequence[Curve], modules: Sequence[Curve]) -> tuple[DeviceMemory, ...]:
    """``curves``: of pools, PROCESS and CARD; ``modules``: of CANN. A tool that counts ranks and one that counts
    devices may call one device by two names: where each has one, it is the same."""
    named = sorted({curve.device for curve in curves})
    of_modules = sorted({curve.device for curve in modules})
    if not named:
        return tuple(_device(device, [], [one for one in modules if one.device == device]) for device in of_modules)
    is_same = len(named) == len(of_modules) == 1
    return tuple(
        _device(
            device,
            [one for one in curves if one.device == device],
            [one for one in modules if is_same or one.device == device],
        )
        for device in named
    )


def _unless(driver: Sequence[Curve], record: Sequence[Curve]) -> Sequence[Curve]:
    """memory_record.csv of a framework already has what npu_mem.csv tells of the process, and calls devices by rank."""
    is_told = any(curve.component == PROCESS for curve in record)
    devices = {curve.device for curve in record}
    if len(devices) == len({curve.device for curve in driver}) == 1:
        (device,) = devices
        driver = [replace(one, device=device) for one in driver]
    return [one for one in driver if one.component == CARD or not is_told]


def _device(device: str, curves: Sequence[Curve], modules: Sequence[Curve]) -> DeviceMemory:
    pools = [one for one in curves if one.component not in (PROCESS, CARD) and "+" not in one.component]
    process = [one for one in curves if one.component == PROCESS]
    card = [one for one in curves if one.component == CARD]
    held = [
        ModuleMemory(module=one.component, most_bytes=one.reserved_peak_bytes, is_pool=one.component == POOL)
        for one in modules
        if one.reserved_peak_bytes > 0
    ]
    return DeviceMemory(
        device=device,
        used_bytes=_most(pools, "allocated_bytes"),
        reserved_bytes=_most(pools, "reserved_bytes"),
        process_bytes=_most(process, "reserved_bytes"),
        card_bytes=_most(card, "reserved_bytes"),
        outside_bytes=_outside(pools, process, modules),
        modules=tuple(sorted(held, key=lambda one: (-one.most_bytes, one.module))),
    )


def _most(curves: Sequence[Curve], what: str) -> int | None:
    """Of several together at one moment."""
    told = [curve for curve in curves if (getattr(curve, what) != UNKNOWN).any()]
    if not told:
        return None
    moments = np.unique(np.concatenate([curve.time_ns for curve in told]))
    return int(_sum(told, what, moments).max())


def _sum(curves: Sequence[Curve], what: str, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n] at moments, ascending: what each told last; before its first word, that."""
    total = np.zeros(len(moments), dtype=np.int64)
    for curve in curves:
        values: NDArray[np.int64] = getattr(curve, what)
        is_told = values != UNKNOWN
        if is_told.any():
            place = np.searchsorted(curve.time_ns[is_told], moments, side="right") - 1
            total += values[is_told][np.maximum(place, 0)]
    return total


def _outside(pools: Sequence[Curve], process: Sequence[Curve], modules: Sequence[Curve]) -> int | None:
    """By what the driver counts for the process, where the pool of a framework is told; else by modules."""
    if process and any(one.component in FRAMEWORKS for one in pools):
        moments = np.unique(np.concatenate([one.time_ns for one in process]))
        beyond = _sum(process, "reserved_bytes", moments) - _sum(pools, "reserved_bytes", moments)
        return max(int(beyond.max(initial=0)), 0)
    return _most([one for one in modules if one.component != POOL], "reserved_bytes")
