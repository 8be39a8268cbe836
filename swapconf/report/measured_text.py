"""MEASURED MEMORY -> TEXT or JSON: what filled a card, what lay outside of the pool, and what ran again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from swapconf.postmortem.measured import MeasuredMemory
from swapconf.profile.device_memory import DeviceMemory
from swapconf.profile.measured_step import Repeated
from swapconf.report import oom_tables
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import GIB, MIB, show_bytes

_MOST_MODULES, _MOST_OPERATORS = 8, 4


def title(measured: MeasuredMemory) -> str:
    """Where it is from, of which rank, and whether a card was there."""
    files = measured.files
    parts = [phrase("rank {rank}", rank=files.rank)] * (files.rank is not None)
    parts.append(phrase("a simulated step, not a card") if files.is_simulated else phrase("measured"))
    return phrase("{place}: {what}", place=files.place, what=joined(", ", parts))


def printed(measured: MeasuredMemory) -> Iterator[PrintedTable]:
    device = measured.fullest
    if device is not None:
        yield _device(device, is_alone=len(measured.devices) == 1)
        if device.modules:
            yield _modules(device)
    if measured.held is not None:
        yield from oom_tables.printed(measured.held)


def _device(device: DeviceMemory, *, is_alone: bool) -> PrintedTable:
    head = (
        phrase("device"),
        (device.device or "-") if is_alone else phrase("{device}, the fullest", device=device.device),
    )
    rows: list[tuple[str, str]] = []
    if device.used_bytes is not None:
        rows.append((phrase("in use"), phrase("{size} at most", size=show_bytes(device.used_bytes))))
    if device.reserved_bytes is not None:
        rows.append((phrase("pool"), phrase("had taken {size} of the card", size=show_bytes(device.reserved_bytes))))
    if device.process_bytes is not None:
        rows.append((phrase("driver"), phrase("counts {size} for the process", size=show_bytes(device.process_bytes))))
    if device.outside_bytes is not None:
        rows.append((phrase("outside the pool"), outside(device)))
    if device.card_bytes is not None:
        rows.append((phrase("card"), phrase("{size} held by all processes", size=show_bytes(device.card_bytes))))
    return PrintedTable(head, rows, frozenset(head))


def outside(device: DeviceMemory) -> str:
    """What no pool holds, and whose it is as far as it is told."""
    size = show_bytes(device.outside_bytes)
    others = [one for one in device.modules if not one.is_pool]
    if not others:
        return phrase("{size} of that in no pool: CANN, HCCL and the runtime took it", size=size)
    named = [phrase("{module} {size}", module=one.module, size=show_bytes(one.most_bytes)) for one in others]
    return phrase("{size} of that in no pool: {modules}", size=size, modules=joined(", ", named[:_MOST_OPERATORS]))


def _modules(device: DeviceMemory) -> PrintedTable:
    head = (phrase("module of CANN"), phrase("most"), phrase("what it is"))
    rows = [
        (
            one.module,
            show_bytes(one.most_bytes),
            phrase("the pool of the framework") if one.is_pool else phrase("in no pool"),
        )
        for one in device.modules[:_MOST_MODULES]
    ]
    return PrintedTable(head, rows, frozenset(head[:1] + head[2:]))


def ranks(found: Sequence[MeasuredMemory]) -> PrintedTable:
    """Several profiles beside each other."""
    head = (
        phrase("rank"),
        phrase("in use"),
        phrase("pool"),
        phrase("driver"),
        phrase("outside the pool"),
        phrase("profile"),
    )
    rows = []
    for one in found:
        device = one.fullest
        sizes = (
            ()
            if device is None
            else (device.used_bytes, device.reserved_bytes, device.process_bytes, device.outside_bytes)
        )
        cells = ["-" if size is None else show_bytes(size) for size in sizes or (None,) * 4]
        rows.append(("-" if one.files.rank is None else str(one.files.rank), *cells, str(one.files.place)))
    return PrintedTable(head, rows, frozenset(head[-1:]))


def notes(measured: MeasuredMemory, *, is_failure: bool) -> Iterator[str]:
    """``is_failure``: it was asked why a run failed."""
    for one in measured.refused[:1]:
        yield phrase(
            "the driver refused {size} that {call} asked for on {device}, {more} more after it",
            size=show_bytes(one.size_bytes),
            call=one.call or "-",
            device=one.device or "-",
            more=len(measured.refused) - 1,
        )
    if text := again(measured.repeated):
        yield text
    device = measured.fullest
    if device is not None and device.outside_bytes:
        yield phrase(
            "max_device_memory bounds the pool alone; a plan leaves room for the rest: `swapconf plan train.yaml "
            "--budget ... --beside {size}`, and more for what an idle card holds",
            size=_as_option(device.outside_bytes),
        )
    for name in measured.files.packed:
        yield phrase("{file} is compressed and was not read", file=name)
    if is_failure and not measured.refused:
        yield from (oom_tables.notes(measured.held) if measured.held is not None else [oom_tables.NO_FAILURE])


def _as_option(size_bytes: int) -> str:
    """Rounded up, as `swapconf plan` takes it."""
    return f"{-(-size_bytes * 100 // GIB) / 100:.2f}GB" if size_bytes >= GIB else f"{-(-size_bytes // MIB)}MB"


def again(repeated: Sequence[Repeated]) -> str:
    """What was recomputed, by how often operators ran and their gradients; "" where that is not told."""
    if not repeated:
        return ""
    more = [one for one in repeated if one.forward > one.gradient]
    shown = joined(
        "; ",
        [
            phrase(
                "{operator} ran {forward} times, its gradient {gradient}",
                operator=one.operator,
                forward=one.forward,
                gradient=one.gradient,
            )
            for one in (more or repeated)[:_MOST_OPERATORS]
        ],
    )
    if more:
        return phrase("recomputed: {operators}", operators=shown)
    return phrase("nothing was recomputed: {operators}", operators=shown)


def as_record(measured: MeasuredMemory) -> dict[str, Any]:
    """The JSON form. Bytes as whole numbers; null is not told."""
    device = measured.fullest
    return {
        **({"kind": "profile"} if measured.held is None else oom_tables.as_record(measured.held)),
        "profile": str(measured.files.place),
        "rank": measured.files.rank,
        "simulated": measured.files.is_simulated,
        "device_memory": None
        if device is None
        else {
            "device": device.device or None,
            "used_peak_bytes": device.used_bytes,
            "reserved_bytes": device.reserved_bytes,
            "process_bytes": device.process_bytes,
            "outside_bytes": device.outside_bytes,
            "card_bytes": device.card_bytes,
            "modules": [
                {"module": one.module, "bytes": one.most_bytes, "is_pool": one.is_pool} for one in device.modules
            ],
        },
        "repeated": [
            {"operator": one.operator, "forward": one.forward, "gradient": one.gradient} for one in measured.repeated
        ],
        "refused": [
            {"device": one.device or None, "call": one.call, "bytes": one.size_bytes} for one in measured.refused
        ],
    }
