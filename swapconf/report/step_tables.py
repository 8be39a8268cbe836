"""TIMELINE -> COLUMNS of its tables and records: its streams, what the main stream waits for, and its prefetches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swapconf.timing.cost import ORIGINS, Costs
from swapconf.timing.timing import KINDS, Prefetch, Timeline
from swapconf.words.columns import Column, count, microseconds, milliseconds, term, words
from swapconf.words.phrases import joined, phrase


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """One stream in one step."""

    stream: int
    does: str
    kernels: int
    busy_us: float
    idle_us: float
    exposed_us: float


STREAMS: tuple[Column[Stream], ...] = (
    count(phrase("stream"), lambda item: item.stream, "stream"),
    words(phrase("does"), lambda item: item.does, "does"),
    count(phrase("kernels"), lambda item: item.kernels, "kernels"),
    milliseconds(phrase("busy ms"), lambda item: item.busy_us, "busy_us"),
    milliseconds(phrase("idle ms"), lambda item: item.idle_us, "idle_us"),
    milliseconds(phrase("exposed ms"), lambda item: item.exposed_us, "exposed_us"),
)


def streams(line: Timeline) -> Iterator[Stream]:
    program = line.program
    for stream in sorted(set(program.stream.tolist())):
        mine = program.stream == stream
        yield Stream(
            stream=stream,
            does=joined("/", (phrase(KINDS[kind].value) for kind in sorted(set(program.kind[mine].tolist())))),
            kernels=int(mine.sum()),
            busy_us=line.busy_us(stream),
            idle_us=line.step_us - line.busy_us(stream),
            exposed_us=float(line.exposed_us[mine].sum()),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Exposed:
    """A kernel that the main stream waits for. ``origin``: how its time is known."""

    name: str
    kind: str
    stream: int
    start_us: float
    end_us: float
    exposed_us: float
    origin: str


EXPOSED: tuple[Column[Exposed], ...] = (
    microseconds(phrase("exposed us"), lambda item: item.exposed_us, "exposed_us"),
    microseconds(phrase("takes us"), lambda item: item.end_us - item.start_us),
    term(phrase("kind"), lambda item: item.kind, "kind"),
    term(phrase("known"), lambda item: item.origin, "origin"),
    words(phrase("name"), lambda item: item.name, "name"),
    Column(key="stream", value=lambda item: item.stream),
    Column(key="start_us", value=lambda item: item.start_us),
    Column(key="end_us", value=lambda item: item.end_us),
)


def exposed(line: Timeline, costs: Costs) -> list[Exposed]:
    """Kernels off the main stream that it stands still for, the longest first."""
    program = line.program
    return [
        Exposed(
            name=program.names[kernel],
            kind=KINDS[program.kind[kernel]].value,
            stream=int(program.stream[kernel]),
            start_us=float(line.start_us[kernel]),
            end_us=float(line.end_us[kernel]),
            exposed_us=float(line.exposed_us[kernel]),
            origin=str(ORIGINS[costs.origin[kernel]].value),
        )
        for kernel in (-line.exposed_us).argsort(kind="stable")
        if line.exposed_us[kernel] > 0
    ]


def prefetches(line: Timeline) -> tuple[Column[Prefetch], ...]:
    names = line.program.names
    return (
        microseconds(phrase("late us"), lambda item: item.late_us, "late_us"),
        microseconds(phrase("later us"), lambda item: item.later_us, "later_us"),
        microseconds(phrase("earlier us"), lambda item: item.earlier_us, "earlier_us"),
        words(phrase("name"), lambda item: names[item.kernel], "name"),
    )
