"""TRACE -> WAITS: which kernels of a step wait for kernels of other streams, from the events in execute_order.csv.

A StreamSend records what its stream has been given so far; the StreamRecv of the same event makes its stream wait for
that. A send hands on what its stream itself still waits for, where no kernel stands in between. Each event is sent once
and received once in a step (all traces of MindSpore 2.9.0); a receive without a send waits for nothing.
"""

from __future__ import annotations

from swapconf.trace.trace import Kernel, Trace


def waits_of(trace: Trace) -> tuple[list[Kernel], list[tuple[int, ...]]]:
    """The kernels of one step that are no events, and for each the kernels of other streams that it waits for."""
    last: dict[int, int] = {}
    waiting: dict[int, set[int]] = {}
    sent: dict[tuple[str, str], frozenset[int]] = {}
    kernels: list[Kernel] = []
    waits: list[tuple[int, ...]] = []
    for kernel in trace.step:
        stream = kernel.stream
        pending = waiting.setdefault(stream, set())
        if kernel.primitive == "StreamSend":
            sent[kernel.graph, kernel.event] = frozenset(pending | ({last[stream]} if stream in last else set()))
        elif kernel.primitive == "StreamRecv":
            pending |= sent.get((kernel.graph, kernel.event), frozenset())
        else:
            waits.append(_others(pending, kernels, stream) if pending else ())
            pending.clear()
            last[stream] = len(kernels)
            kernels.append(kernel)
    return kernels, waits


def _others(pending: set[int], kernels: list[Kernel], stream: int) -> tuple[int, ...]:
    return tuple(sorted(item for item in pending if kernels[item].stream != stream))
