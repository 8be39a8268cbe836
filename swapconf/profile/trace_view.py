"""TRACE_VIEW.JSON -> MEASURED: copies between host and device, and collectives, as they ran on a real card.

A list of Chrome trace events, with or without ``{"traceEvents": ...}`` around it. Used are complete events (``ph`` X,
``dur`` in microseconds) of two kinds: those whose ``args`` tell ``size(B)`` and ``operation`` (*device to host*, *host
to device*), which msprof writes for asynchronous copies (MemcpyAsyncEvent in its source), and those named after a
collective, ``hcom_allReduce__628_0_1``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

from swapconf.files.opening import open_binary
from swapconf.files.table_lines import GARBLED, HEADER, NOT_FOUND, Damage
from swapconf.profile.profiler_csv import profiler_damage
from swapconf.timing.measurements import Measured, MeasuredCopy
from swapconf.upstream.device_kernels import is_between_stages
from swapconf.words.phrases import phrase

MAX_OBJECT_CHARS = 32 * 2**20  # of `traceEvents` in an object
MAX_EVENT_CHARS = 2**20
CHUNK_CHARS = 2**20
_SPACE = re.compile(r"[ \t\n\r]*")
_COLLECTIVE = re.compile(r"(hcom_[A-Za-z]+_)")
_DIRECTIONS = ("device to host", "host to device")


def read(path: str | Path) -> Measured:
    """The copies of a file, and the average time of each kind of collective; of messages between stages the shortest,
    as the others waited. Raises SwapconfError."""
    damage = profiler_damage(path)
    copies: list[MeasuredCopy] = []
    times_us: dict[str, list[float]] = {}
    for number, event in enumerate(_events(Path(path), damage)):
        if event.get("ph") != "X":
            continue
        try:
            copy = _copy(event)
            collective = _COLLECTIVE.match(str(event.get("name", "")))
            if copy is not None:
                copies.append(copy)
            elif collective is not None:
                times_us.setdefault(collective[1], []).append(_positive(event.get("dur"), "dur"))
        except ValueError as error:
            damage.add(GARBLED, phrase("event {number}: {reason}", number=number, reason=error))
    damage.refuse()
    return Measured(
        copies=tuple(copies),
        average_us={
            name: min(times) if is_between_stages(name) else sum(times) / len(times) for name, times in times_us.items()
        },
    )


def _events(path: Path, damage: Damage) -> Iterator[Mapping[str, Any]]:
    """A list is read event by event, because its objects take ten times the room of its text."""
    try:
        with TextIOWrapper(open_binary(path), encoding="utf-8-sig") as stream:
            head = stream.read(1)
            while head.isspace():
                head = stream.read(1)
            found = _listed(stream) if head == "[" else _wrapped(head + stream.read(MAX_OBJECT_CHARS), damage)
            yield from (event for event in found if isinstance(event, dict))
    except OSError as error:
        damage.add(NOT_FOUND, phrase("cannot be read ({reason})", reason=error.strerror))
    except (ValueError, RecursionError) as error:
        damage.add(GARBLED, phrase("is not JSON: {reason}", reason=str(error)[:200]))
    damage.refuse()


def _listed(stream: TextIO) -> Iterator[Any]:
    """The items of a list that began before. Raises ValueError."""
    decode, text, at = json.JSONDecoder().raw_decode, "", 0
    while True:
        try:
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
            if text[at : at + 1] == "]":
                return
            event, end = decode(text, at)
            end = _SPACE.match(text, end).end()  # type: ignore[union-attr]
            if text[end : end + 1] not in (",", "]") or (end + 1 >= len(text) and text[end] == ","):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, end)
        except json.JSONDecodeError:
            more = stream.read(CHUNK_CHARS) if len(text) - at <= MAX_EVENT_CHARS else ""
            if not more:
                raise
            text, at = text[at:] + more, 0
            continue
        yield event
        if text[end] == "]":
            return
        at = end + 1


def _wrapped(text: str, damage: Damage) -> Iterator[Any]:
    if len(text) > MAX_OBJECT_CHARS:
        damage.add(GARBLED, phrase("is larger than {size:,} characters; profile fewer steps", size=MAX_OBJECT_CHARS))
        return
    data = json.loads(text)
    listed = data.get("traceEvents") if isinstance(data, dict) else None
    if isinstance(listed, list):
        yield from listed
    else:
        damage.add(HEADER, phrase("is not a list of trace events"))


def _copy(event: Mapping[str, Any]) -> MeasuredCopy | None:
    told = event.get("args")
    if not isinstance(told, dict) or "size(B)" not in told:
        return None
    direction = str(told.get("operation", "")).removesuffix(" ex")
    size = _positive(told["size(B)"], "size(B)")
    if direction not in _DIRECTIONS or not size:
        return None
    return MeasuredCopy(
        to_host=direction == _DIRECTIONS[0], size_bytes=int(size), duration_us=_positive(event.get("dur"), "dur")
    )


def _positive(value: Any, what: str) -> float:
    """Numbers are also written as text, so that they keep their digits."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else float("nan")
    except (ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number) or number < 0:
        raise ValueError(phrase("{what} is {text}, not a positive number", what=what, text=repr(str(value)[:40])))
    return number
