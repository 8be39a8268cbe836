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
from math import isfinite
from pathlib import Path
from typing import Any

from swapconf.cost import Measured, MeasuredCopy
from swapconf.formats.profiler_csv import profiler_damage
from swapconf.formats.trace_lines import GARBLED, HEADER, NOT_FOUND, Damage

MAX_FILE_BYTES = 2**29
_COLLECTIVE = re.compile(r"(hcom_[A-Za-z]+_)")
_DIRECTIONS = ("device to host", "host to device")


def read(path: str | Path) -> Measured:
    """The copies of a file, and the average time of each kind of collective. Raises SwapconfError."""
    damage = profiler_damage(path)
    copies: list[MeasuredCopy] = []
    total_us: dict[str, float] = {}
    launches: dict[str, int] = {}
    for number, event in enumerate(_events(Path(path), damage)):
        if event.get("ph") != "X":
            continue
        try:
            copy = _copy(event)
            collective = _COLLECTIVE.match(str(event.get("name", "")))
            if copy is not None:
                copies.append(copy)
            elif collective is not None:
                name = collective[1]
                total_us[name] = total_us.get(name, 0.0) + _positive(event.get("dur"), "dur")
                launches[name] = launches.get(name, 0) + 1
        except ValueError as error:
            damage.add(GARBLED, f"event {number}: {error}")
    damage.refuse()
    return Measured(copies=tuple(copies), average_us={name: total_us[name] / count for name, count in launches.items()})


def _events(path: Path, damage: Damage) -> Iterator[Mapping[str, Any]]:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            damage.add(GARBLED, f"is larger than {MAX_FILE_BYTES:,} bytes; profile fewer steps")
        damage.refuse()
        data = json.loads(path.read_bytes())
    except OSError as error:
        damage.add(NOT_FOUND, f"cannot be read ({error.strerror})")
    except (ValueError, RecursionError) as error:
        damage.add(GARBLED, f"is not JSON: {error}")
    damage.refuse()
    listed = data.get("traceEvents") if isinstance(data, dict) else data
    if isinstance(listed, list):
        yield from (event for event in listed if isinstance(event, dict))
    else:
        damage.add(HEADER, "is not a list of trace events")


def _copy(event: Mapping[str, Any]) -> MeasuredCopy | None:
    told = event.get("args")
    if not isinstance(told, dict) or "size(B)" not in told:
        return None
    direction = str(told.get("operation", "")).removesuffix(" ex")
    size = _positive(told["size(B)"], "size(B)")
    if direction not in _DIRECTIONS or not size:
        return None
    return MeasuredCopy(to_host=direction == _DIRECTIONS[0], size_bytes=int(size),
                        duration_us=_positive(event.get("dur"), "dur"))


def _positive(value: Any, what: str) -> float:
    """Numbers are also written as text, so that they keep their digits."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else float("nan")
    except (ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number) or number < 0:
        raise ValueError(f"{what} is {str(value)[:40]!r}, not a positive number")
    return number
