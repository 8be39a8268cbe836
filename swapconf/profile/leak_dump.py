"""MEMSCOPE_DUMP.CSV, LEAKS_DUMP.CSV -> DUMP: every allocation that msMemScope (before CANN 9.0 msLeaks) saw.

A row is an event. ``MALLOC`` and ``FREE`` of the type of a pool (PTA, MindSpore, ATB, PTA_WORKSPACE) are what a
framework gave out, of the type HAL what the driver did; of HOST and HOST_PINNED the host's. ``Attr`` has the rest:
``{addr:0x12c041400000,size:16778240,owner:,total:20971520,used:16780288}``. An allocation is named after its owner,
else after the operator (``OP_LAUNCH`` between ..._START and ..._END) that ran on its thread. A release names its
process and pointer, not always its device. ``OOM_DETAIL`` of the type OOM_TRIGGER is an allocation that the driver
refused. See `known_files` for sources.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from swapconf.files.table_lines import number, shown
from swapconf.profile.memory_profile import UNKNOWN, Curve, OperatorMemory
from swapconf.profile.profiler_csv import Header, each
from swapconf.trace.lifetimes import NEVER
from swapconf.words.phrases import phrase

NEEDED = ("Event", "Event Type", "Timestamp", "Attr")
DRIVER = "HAL"
PROCESS = "APP"
_OFF_DEVICE = frozenset({"HOST", "HOST_PINNED"})
_NOWHERE = frozenset({"", "host", "N/A"})
_ATTRIBUTE = re.compile(r"(\w+):([^,{}]*)")
_START, _END = "_START", "_END"

_Key = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """An allocation of the driver that failed. ``call``: the function of CANN's driver."""

    time_ns: int
    device: str
    call: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class LeakDump:
    """``pools``: allocations of pools, named after who asked. ``curves``: what each pool had given out and taken, as
    far as it is told, and what the driver had given out to the process. ``modules``: the latter by who asked.
    ``refused``: in order."""

    pools: OperatorMemory
    curves: tuple[Curve, ...]
    modules: tuple[Curve, ...]
    refused: tuple[Refused, ...]


def read(*paths: str | Path) -> LeakDump:
    """Raises SwapconfError, with a finding for each line that is wrong."""
    events = _Events()
    for _ in each(paths, NEEDED, events.taker):
        pass
    return events.done()


@dataclass(kw_only=True)
class _Block:
    name: str
    pool: str
    device: str
    start_ns: int
    size_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    end_ns: int = NEVER


@dataclass(kw_only=True)
class _Events:
    """All of a dump, as its rows are read."""

    blocks: list[_Block] = field(default_factory=list)
    open: dict[_Key, _Block] = field(default_factory=dict)
    running: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    refused: list[Refused] = field(default_factory=list)

    def taker(self, header: Header) -> Callable[[Sequence[str]], None]:
        """What takes a row of a file with this header. It raises ValueError with what is wrong with a row."""
        event, kind, name = (header.text(column) for column in ("Event", "Event Type", "Name"))
        process = header.text("Process Id", "Process ID")
        thread, device = header.text("Thread Id", "Thread ID"), header.text("Device Id", "Device ID")
        pointer, attributes, time_ns = header.text("Ptr"), header.text("Attr"), header.time_ns("Timestamp")

        def take(row: Sequence[str]) -> None:
            what, which, time = event(row).upper(), kind(row), time_ns(row)
            if time is None or time < 0:
                raise ValueError(phrase("{column} is empty", column="Timestamp"))
            if what in ("OP_LAUNCH", "KERNEL_LAUNCH"):
                self._launched(which, name(row), thread(row))
            elif what in ("MALLOC", "FREE"):
                told = dict(_ATTRIBUTE.findall(attributes(row)))
                key = process(row), which, pointer(row) or told.get("addr", "")
                if (block := self.open.pop(key, None)) is not None:  # a pointer that is given out again was released
                    block.end_ns = max(time, block.start_ns)
                if what == "MALLOC" and which not in _OFF_DEVICE and device(row) not in _NOWHERE:
                    owner = _owner(which, told) or next(iter(self.running[thread(row)][-1:]), "")
                    self._allocated(key, _device(device(row)), owner, time, told)
            elif what == "OOM_DETAIL" and which == "OOM_TRIGGER":
                told = dict(_ATTRIBUTE.findall(attributes(row)))
                self.refused.append(
                    Refused(
                        time_ns=time,
                        device=_device(device(row)),
                        call=told.get("func", ""),
                        size_bytes=number(told.get("req_size", ""), "req_size"),
                    )
                )

        return take

    def _launched(self, which: str, name: str, thread: str) -> None:
        """Operators nest: the innermost counts."""
        running = self.running[thread]
        if which.endswith(_START):
            running.append(name)
        elif which.endswith(_END) and name in running:
            del running[running.index(name) :]

    def _allocated(self, key: _Key, device: str, owner: str, time: int, told: dict[str, str]) -> None:
        size = told.get("size", "")
        if not size.isdecimal():
            raise ValueError(phrase("{what} is {text}, not a number", what="size", text=shown(size)))
        block = _Block(
            name=owner,
            pool=key[1],
            device=device,
            start_ns=time,
            size_bytes=number(size, "size"),
            allocated_bytes=_sum(told, "used"),
            reserved_bytes=_sum(told, "total"),
        )
        self.blocks.append(block)
        self.open[key] = block

    def done(self) -> LeakDump:
        pools = [block for block in self.blocks if block.pool != DRIVER]
        driver = [block for block in self.blocks if block.pool == DRIVER]
        return LeakDump(
            pools=_table(pools),
            curves=(*_told(pools), *_given(driver, lambda block: PROCESS)),
            modules=tuple(_given(driver, lambda block: block.name)),
            refused=tuple(self.refused),
        )


def _owner(which: str, told: dict[str, str]) -> str:
    """``CANN@HCCL`` is HCCL; older dumps tell the number of a module of the driver."""
    owner = told.get("owner", "").rpartition("@")[2].strip()
    return owner or (told.get("MID", "") if which == DRIVER else "")


def _device(text: str) -> str:
    return f"NPU:{text}" if text.isdecimal() else text


def _sum(told: dict[str, str], name: str) -> int:
    text = told.get(name, "")
    return number(text, name) if text.isdecimal() else UNKNOWN


def _table(blocks: Sequence[_Block]) -> OperatorMemory:
    def codes(of: Callable[[_Block], str]) -> tuple[list[int], tuple[str, ...]]:
        known: dict[str, int] = {}
        found = [known.setdefault(of(block), len(known)) for block in blocks]
        return found, tuple(known)

    (name, names), (stream, streams), (device, devices) = (
        codes(of) for of in (lambda one: one.name, lambda one: one.pool, lambda one: one.device)
    )
    return OperatorMemory(
        start_ns=np.array([block.start_ns for block in blocks], dtype=np.int64),
        end_ns=np.array([block.end_ns for block in blocks], dtype=np.int64),
        size_bytes=np.array([block.size_bytes for block in blocks], dtype=np.int64),
        allocated_bytes=np.array([block.allocated_bytes for block in blocks], dtype=np.int64),
        reserved_bytes=np.array([block.reserved_bytes for block in blocks], dtype=np.int64),
        name=np.array(name, dtype=np.int32),
        names=names,
        stream=np.array(stream, dtype=np.int32),
        streams=streams,
        device=np.array(device, dtype=np.int32),
        devices=devices,
    )


def _told(blocks: Sequence[_Block]) -> Iterator[Curve]:
    """The sums of each pool when it gave something out."""
    groups: dict[tuple[str, str], list[_Block]] = defaultdict(list)
    for block in blocks:
        groups[block.pool, block.device].append(block)
    for (pool, device), group in groups.items():
        group.sort(key=lambda block: block.start_ns)
        yield Curve(
            component=pool,
            device=device,
            time_ns=np.array([block.start_ns for block in group], dtype=np.int64),
            allocated_bytes=np.array([block.allocated_bytes for block in group], dtype=np.int64),
            reserved_bytes=np.array([block.reserved_bytes for block in group], dtype=np.int64),
            active_bytes=np.full(len(group), UNKNOWN, dtype=np.int64),
        )


def _given(blocks: Sequence[_Block], of: Callable[[_Block], str]) -> Iterator[Curve]:
    """What was given out after each event, by device and name."""
    groups: dict[tuple[str, str], list[_Block]] = defaultdict(list)
    for block in blocks:
        groups[of(block), block.device].append(block)
    for (component, device), group in groups.items():
        changes = [(block.start_ns, block.size_bytes) for block in group]
        changes += [(block.end_ns, -block.size_bytes) for block in group if block.end_ns != NEVER]
        time, change = (np.array(column, dtype=np.int64) for column in zip(*sorted(changes), strict=True))
        unknown = np.full(len(time), UNKNOWN, dtype=np.int64)
        yield Curve(
            component=component,
            device=device,
            time_ns=time,
            allocated_bytes=unknown,
            reserved_bytes=np.cumsum(change),
            active_bytes=unknown,
        )
