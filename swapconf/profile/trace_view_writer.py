"""STEP PROFILE -> TRACE_VIEW.JSON: a list of Chrome trace events, in layers named as MindSpore's profiler names them.

Phases, their fields and units are those of the Trace Event Format (Google, *Trace Event Format*): complete events
(``X``: ts and dur in microseconds), metadata (``M``), flows (``s``, ``f``) and counters (``C``). Names of layers and
threads are those of ``TimelineLayerName`` and ``OverlapAnalysisTidName`` in mindspore.profiler 2.9.0. A copy tells its
``operation`` and ``size(B)`` as msprof does, a collective is named ``hcom_allReduce__GROUP_NUMBER_1``. Process numbers
are our own. There is no layer for the host, because launching is not simulated.
"""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Iterable, Iterator
from typing import Any

from swapconf.profile.step_profile import Intervals, StepProfile
from swapconf.timing.cost import ORIGINS
from swapconf.timing.timing import COLLECTIVE, TO_DEVICE, TO_HOST
from swapconf.trace.trace import Tensor

Event = dict[str, Any]
# (name, number, sort index, label)
HARDWARE = ("Ascend Hardware", 4, 13, "NPU")
HCCL = ("HCCL", 5, 14, "NPU")
OVERLAP = ("Overlap Analysis", 6, 15, "NPU")
MEMORY = ("NPU MEM", 7, 16, "NPU")
COMPUTING, COMMUNICATION, NOT_OVERLAPPED, FREE = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
OPERATIONS = {TO_HOST: "device to host", TO_DEVICE: "host to device"}
COUNTER = "Device memory (bytes)"
_COPY_NAME = "MEMCPY_ASYNC"
_US = 1000


def text(profile: StepProfile) -> str:
    """The file, one event a line."""
    return "[" + ",\n".join(json.dumps(event) for event in events(profile)) + "]\n"


def events(profile: StepProfile) -> Iterator[Event]:
    """Kernels that take no time are left out: the device never sees a view."""
    kernels = [kernel for kernel, time in enumerate((profile.end_ns - profile.start_ns).tolist()) if time > 0]
    threads = _Threads(profile, kernels)
    yield from _layers(profile, threads)
    for number, kernel in enumerate(kernels):
        yield _kernel(profile, threads, kernel, number)
    yield from _waits(profile, threads, kernels)
    for thread, (name, spans) in enumerate(_overlap(profile)):
        yield from (_slice(OVERLAP[1], thread, name, start, end, {}) for start, end in spans.tolist())
    yield from _memory(profile)


def device_name(profile: StepProfile, kernel: int) -> str:
    """What the device would call it."""
    task = profile.tasks[kernel]
    if profile.program.kind[kernel] in OPERATIONS:
        return _COPY_NAME
    if profile.program.kind[kernel] != COLLECTIVE:
        return task.primitive
    group = crc32(profile.groups[kernel].encode()) % 1000  # three digits, as HCCL shortens a group
    return f"{operator_type(profile, kernel)}_{group}_{task.name.rpartition('-op')[2]}_1"


def operator_type(profile: StepProfile, kernel: int) -> str:
    """The type of an operator as the profiler tells it: ``hcom_allReduce_`` of AllReduce."""
    primitive = profile.tasks[kernel].primitive
    is_collective = profile.program.kind[kernel] == COLLECTIVE
    return f"hcom_{primitive[0].lower()}{primitive[1:]}_" if is_collective else primitive


def copied_bytes(profile: StepProfile, kernel: int) -> int:
    task = profile.tasks[kernel]
    tensors: tuple[Tensor, ...] = (*task.input_tensors, *task.output_tensors)
    return max((tensor.size_bytes or 0 for tensor in tensors), default=0)


class _Threads:
    """Where each kernel is drawn: by stream on the hardware, a collective by group and stream among its own."""

    def __init__(self, profile: StepProfile, kernels: Iterable[int]) -> None:
        self.groups: dict[tuple[str, int], int] = {}
        self.streams: set[int] = set()
        self._of: dict[int, tuple[int, int]] = {}
        for kernel in kernels:
            stream = int(profile.program.stream[kernel])
            if profile.program.kind[kernel] == COLLECTIVE:
                thread = self.groups.setdefault((profile.groups[kernel], stream), len(self.groups))
                self._of[kernel] = HCCL[1], thread
            else:
                self.streams.add(stream)
                self._of[kernel] = HARDWARE[1], stream

    def __contains__(self, kernel: int) -> bool:
        return kernel in self._of

    def __getitem__(self, kernel: int) -> tuple[int, int]:
        return self._of[kernel]


def _layers(profile: StepProfile, threads: _Threads) -> Iterator[Event]:
    names = {
        HARDWARE: {stream: f"Stream {stream}" for stream in sorted(threads.streams)},
        HCCL: {
            thread: f"Group {group or 0} Communication, stream {stream}"
            for (group, stream), thread in threads.groups.items()
        },
        OVERLAP: {thread: name for thread, (name, _) in enumerate(_overlap(profile))},
        MEMORY: {},
    }
    for (name, pid, sort_index, label), known in names.items():
        yield _metadata("process_name", pid, 0, {"name": name})
        yield _metadata("process_labels", pid, 0, {"labels": f"{label} (simulated: {profile.hardware})"})
        yield _metadata("process_sort_index", pid, 0, {"sort_index": sort_index})
        for thread, thread_name in known.items():
            yield _metadata("thread_name", pid, thread, {"name": thread_name})
            yield _metadata("thread_sort_index", pid, thread, {"sort_index": thread})


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> Event:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args}


def _kernel(profile: StepProfile, threads: _Threads, kernel: int, number: int) -> Event:
    kind, (pid, tid) = int(profile.program.kind[kernel]), threads[kernel]
    args: dict[str, Any] = {
        "Model Id": 0,
        "Task Type": task_type(kind),
        "Stream Id": int(profile.program.stream[kernel]),
        "Task Id": number,
        "mindspore_op": profile.program.names[kernel],
        "known": ORIGINS[profile.origin[kernel]].value,
    }
    if kind in OPERATIONS:
        args |= {"size(B)": copied_bytes(profile, kernel), "operation": OPERATIONS[kind]}
    start_ns, end_ns = int(profile.start_ns[kernel]), int(profile.end_ns[kernel])
    return _slice(pid, tid, device_name(profile, kernel), start_ns, end_ns, args)


def task_type(kind: int) -> str:
    """What the profiler calls the part of the card that runs a kernel."""
    return "HCCL" if kind == COLLECTIVE else "SDMA" if kind in OPERATIONS else "AI_CORE"


def _slice(pid: int, tid: int, name: str, start_ns: int, end_ns: int, args: dict[str, Any]) -> Event:
    return {
        "name": name,
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": start_ns / _US,
        "dur": (end_ns - start_ns) / _US,
        "cat": "",
        "args": args,
    }


def _waits(profile: StepProfile, threads: _Threads, kernels: Iterable[int]) -> Iterator[Event]:
    """A flow from a kernel to the one on another stream that could only start when it had ended."""
    for kernel in kernels:
        cause = int(profile.cause[kernel])
        if cause in threads and profile.program.stream[cause] != profile.program.stream[kernel]:
            for phase, end in (("s", cause), ("f", kernel)):
                pid, tid = threads[end]
                yield {
                    "name": "wait",
                    "cat": "wait",
                    "ph": phase,
                    "bp": "e",
                    "id": str(kernel),
                    "pid": pid,
                    "tid": tid,
                    "ts": int(profile.start_ns[end]) / _US,
                }


def _overlap(profile: StepProfile) -> tuple[tuple[str, Intervals], ...]:
    return (
        (COMPUTING, profile.computing),
        (COMMUNICATION, profile.communicating),
        (NOT_OVERLAPPED, profile.only_communicating),
        (FREE, profile.free),
    )


def _memory(profile: StepProfile) -> Iterator[Event]:
    columns = {category.value: column.tolist() for category, column in profile.memory_bytes.items()}
    for place, time_ns in enumerate(profile.memory_ns.tolist()):
        yield {
            "name": COUNTER,
            "ph": "C",
            "pid": MEMORY[1],
            "tid": 0,
            "ts": time_ns / _US,
            "args": {name: column[place] for name, column in columns.items()},
        }
