"""What the Trace Event Format asks of a whole file beyond the fields of one event, which its schema has.

Source: Google, *Trace Event Format*. Slices of one thread nest or are apart; a flow that began ends, not before it
began, and both of its ends lie in a slice; every process and thread that is drawn has a name.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA = json.loads((Path(__file__).parent / "trace_event_format.schema.json").read_text(encoding="utf-8"))
_VALIDATOR = Draft202012Validator(SCHEMA)
Event = dict[str, Any]


def loads(text: str) -> list[Event]:
    """Numbers keep their digits, so that ends can be compared."""
    events: list[Event] = json.loads(text, parse_float=Decimal)
    return events


def mistakes(events: Sequence[Event]) -> list[str]:
    fields = [
        f"event {index}: {told}"
        for index, event in enumerate(events)
        for told in _mistakes_in(json.dumps(event, default=float))
    ]
    return fields or [*_overlaps(events), *_flows(events), *_names(events)]


@cache
def _mistakes_in(event: str) -> list[str]:
    """Of one event alone; the same one stands in a file and in a copy of it with a change."""
    return [f"{error.json_path}: {error.message[-120:]}" for error in _VALIDATOR.iter_errors([json.loads(event)])]


def _overlaps(events: Sequence[Event]) -> Iterator[str]:
    for thread, slices in _slices(events).items():
        open_ends: list[Decimal] = []
        for start, end in sorted(slices, key=lambda item: (item[0], -item[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and end > open_ends[-1]:
                yield f"slices of thread {thread} overlap at {start}"
            open_ends.append(end)


def _flows(events: Sequence[Event]) -> Iterator[str]:
    slices = _slices(events)
    ends: dict[tuple[str, str, str], dict[str, Event]] = defaultdict(dict)
    for event in events:
        if event["ph"] in ("s", "f"):
            key = event["cat"], event["name"], str(event["id"])
            if event["ph"] in ends[key]:
                yield f"flow {key} has two ends {event['ph']}"
            ends[key][event["ph"]] = event
            thread = slices[event["pid"], event["tid"]]
            if not any(start <= event["ts"] <= end for start, end in thread):
                yield f"flow {key} is bound to no slice at {event['ts']}"
    for key, pair in ends.items():
        if len(pair) < 2 or pair["s"]["ts"] > pair["f"]["ts"]:
            yield f"flow {key} does not end after it began"


def _names(events: Sequence[Event]) -> Iterator[str]:
    named = {(event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M"}
    for event in events:
        if event["ph"] == "M":
            continue
        if ("process_name", event["pid"], 0) not in named:
            yield f"process {event['pid']} has no name"
        if event["ph"] == "X" and ("thread_name", event["pid"], event["tid"]) not in named:
            yield f"thread {event['tid']} of process {event['pid']} has no name"


def _slices(events: Sequence[Event]) -> dict[tuple[int, int], list[tuple[Decimal, Decimal]]]:
    found: dict[tuple[int, int], list[tuple[Decimal, Decimal]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = Decimal(event["ts"])
            found[event["pid"], event["tid"]].append((start, start + Decimal(event["dur"])))
    return found
