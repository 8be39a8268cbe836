"""KERNEL_DETAILS.CSV, OP_SUMMARY.CSV -> MEASURED STEPS: what a card did in each step, and how long it waited.

A send or receive between pipeline stages takes as long as the other stage lets it wait; the profilers call that
communication. The one of MindSpore (PP_OP_PATTERN of AscendStepTraceTimeViewer, 2.9.0) counts sends, receives and
batches of both as the bubble; that of torch_npu (_trace_step_time_parser.py at 9e73e708) only ``hcom_receive``, so that
a pipeline that exchanges in batches has a bubble of 0 there. Here all are waiting, as far as nothing is computed.

Which kernels run again follows from counts: an operator of which each launch has a gradient runs once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swapconf.profile.known_files import FileKind
from swapconf.profile.profile_files import ProfileFiles
from swapconf.profile.profiler_csv import Header, each
from swapconf.profile.step_profile import Intervals, length_ns, union, without
from swapconf.upstream.device_kernels import is_between_stages
from swapconf.words.phrases import phrase

KERNELS = ("Name", "Type", "Duration", "Start Time")
SUMMARY = ("Op Name", "OP Type", "Task Duration", "Task Start Time")
_CORES = frozenset({"COMMUNICATION", "HCCL"})
_COLLECTIVE = re.compile("hcom|hccl", re.IGNORECASE)
_VERSION = re.compile(r"V\d+$")
_GRADIENT = "Grad"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """Collectives of one type in a step. ``waits``: they are between two stages."""

    type: str
    count: int
    total_ns: int
    longest_ns: int
    shortest_ns: int
    waits: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredStep:
    """One step of one device. The parts without overlap add up to the span.

    Attributes:
        step: As the profiler numbers it, "" where it does not.
        span_ns: From the start of the first kernel to the end of the last.
        computing_ns: Any kernel that computes runs.
        communicating_ns: Any collective runs; ``overlapped_ns`` of it beside kernels that compute.
        waiting_ns: Only messages between stages run. ``exchanging_ns``: other collectives run, and nothing computes.
        free_ns: Nothing runs.
        exchanges: By type, the longest together first.
        counts: Kernels by type without version, of those that compute.
    """

    device: str
    step: str
    span_ns: int
    computing_ns: int
    communicating_ns: int
    overlapped_ns: int
    waiting_ns: int
    exchanging_ns: int
    free_ns: int
    exchanges: tuple[Exchange, ...]
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeated:
    """An operator with a gradient: how often each ran."""

    operator: str
    forward: int
    gradient: int


@dataclass(frozen=True, slots=True)
class _Launch:
    type: str
    start_ns: int
    end_ns: int
    is_collective: bool
    is_between_two: bool


def of_profile(files: ProfileFiles) -> tuple[MeasuredStep, ...]:
    """None where no kernels are told. Raises SwapconfError."""
    if kernels := files.of(FileKind.KERNELS):
        return read(KERNELS, *kernels)
    return read(SUMMARY, *files.of(FileKind.SUMMARY))


def read(columns: tuple[str, str, str, str], *paths: str | Path) -> tuple[MeasuredStep, ...]:
    """``columns``: KERNELS or SUMMARY. By device and step, in order. Raises SwapconfError, with a finding for each line
    that is wrong."""
    launches: dict[tuple[str, str], list[_Launch]] = defaultdict(list)
    for device, step, launch in each(paths, columns, lambda header: _parser(header, columns)):
        launches[device, step].append(launch)
    return tuple(_step(device, step, found) for (device, step), found in sorted(launches.items(), key=_order))


def _parser(header: Header, columns: tuple[str, str, str, str]) -> Callable[[Sequence[str]], tuple[str, str, _Launch]]:
    """What makes (device, step, launch) of a row. It raises ValueError with what is wrong with a row."""
    name, kind = header.text(columns[0]), header.text(columns[1])
    took, begun = header.time_ns(columns[2]), header.time_ns(columns[3])
    core = header.text("Accelerator Core", "Task Type")
    device, step = header.text("Device_id", "Device_Id"), header.text("Step Id", "Step ID")

    def parse(row: Sequence[str]) -> tuple[str, str, _Launch]:
        duration, start = took(row), begun(row)
        if duration is None or duration < 0:
            raise ValueError(phrase("{column} is empty or negative", column=columns[2]))
        if start is None or start < 0:
            raise ValueError(phrase("{column} is empty or negative", column=columns[3]))
        type_ = kind(row) or name(row)
        is_collective = core(row).upper() in _CORES or _COLLECTIVE.match(type_) is not None
        between = is_collective and is_between_stages(type_)
        return device(row), step(row), _Launch(type_, start, start + duration, is_collective, between)

    return parse


def _order(item: tuple[tuple[str, str], list[_Launch]]) -> tuple[str, int]:
    (device, _), launches = item
    return device, min(one.start_ns for one in launches)


def _step(device: str, step: str, launches: Sequence[_Launch]) -> MeasuredStep:
    computing = _running(one for one in launches if not one.is_collective)
    communicating = _running(one for one in launches if one.is_collective)
    between = _running(one for one in launches if one.is_between_two)
    others = _running(one for one in launches if one.is_collective and not one.is_between_two)
    alone = without(communicating, computing)
    exchanging = length_ns(without(others, computing))
    span = max(one.end_ns for one in launches) - min(one.start_ns for one in launches)
    computed = length_ns(computing)
    counts: dict[str, int] = {}
    for one in launches:
        if not one.is_collective:
            counts[plain(one.type)] = counts.get(plain(one.type), 0) + 1
    return MeasuredStep(
        device=device,
        step=step,
        span_ns=span,
        computing_ns=computed,
        communicating_ns=length_ns(communicating),
        overlapped_ns=length_ns(communicating) - length_ns(alone),
        waiting_ns=length_ns(without(without(between, computing), others)),
        exchanging_ns=exchanging,
        free_ns=span - computed - length_ns(alone),
        exchanges=tuple(_exchanges(launches)),
        counts=tuple(sorted(counts.items())),
    )


def _running(launches: Iterable[_Launch]) -> Intervals:
    return union(np.array([(one.start_ns, one.end_ns) for one in launches], dtype=np.int64).reshape(-1, 2))


def _exchanges(launches: Sequence[_Launch]) -> list[Exchange]:
    by_type: dict[str, list[_Launch]] = defaultdict(list)
    for one in launches:
        if one.is_collective:
            by_type[one.type].append(one)
    found = [
        Exchange(
            type=name,
            count=len(group),
            total_ns=sum(one.end_ns - one.start_ns for one in group),
            longest_ns=max(one.end_ns - one.start_ns for one in group),
            shortest_ns=min(one.end_ns - one.start_ns for one in group),
            waits=group[0].is_between_two,
        )
        for name, group in by_type.items()
    ]
    return sorted(found, key=lambda one: -one.total_ns)


def repeated(counts: Iterable[tuple[str, int]]) -> tuple[Repeated, ...]:
    """Operators of which there is a gradient, those that ran most first. ``counts``: of kernels by type."""
    sums: dict[str, int] = defaultdict(int)
    for name, count in counts:
        sums[plain(name)] += count
    found = [
        Repeated(operator=name.removesuffix(_GRADIENT), forward=sums[name.removesuffix(_GRADIENT)], gradient=count)
        for name, count in sums.items()
        if name.endswith(_GRADIENT) and sums.get(name.removesuffix(_GRADIENT))
    ]
    return tuple(sorted(found, key=lambda one: (-one.gradient, one.operator)))


def plain(name: str) -> str:
    """``MatMulV3`` is ``MatMul``."""
    return _VERSION.sub("", name) or name
