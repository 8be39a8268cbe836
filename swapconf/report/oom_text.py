"""ANSWER -> TEXT or JSON: which allocation failed, whose it was, why, what held the memory, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swapconf.postmortem.answer import Answer
from swapconf.postmortem.cann_modules import APP
from swapconf.postmortem.cause import Cause, Diagnosis
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.holders import Holder
from swapconf.postmortem.message import Memory
from swapconf.postmortem.run_log import RunLog
from swapconf.postmortem.whose import Moment, Use, Whose
from swapconf.report.ending_text import beside, endings_as_records, rank_name, strange_figures
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import joined, mark, phrase, plural, show
from swapconf.words.units import runs, show_bytes

_MOST_RANKS, _MOST_HOLDERS = 12, 8


def failure_table(log: RunLog, found: Answer) -> PrintedTable:
    """One row for each thing that is told; what is not told has none."""
    head = (rank_name(found.failure.rank), _when(log, found))
    return PrintedTable(head, list(_rows(log, found)), frozenset(head))


def remedies_table(found: Answer) -> PrintedTable:
    head = ("#", phrase("what to do"))
    rows = [(str(number), text) for number, text in enumerate(found.remedies, 1)]
    return PrintedTable(head, rows, frozenset(head[1:]))


def _rows(log: RunLog, found: Answer) -> Iterator[tuple[str, str]]:
    failure, held = found.failure, found.diagnosis
    yield phrase("asked"), _asked(failure, held)
    if found.whose.operator:
        yield phrase("by"), _owner(found.whose)
    if found.whose.use is not Use.UNKNOWN and (found.whose.operator or found.whose.use is not Use.TENSOR):
        yield phrase("for"), phrase(found.whose.use.value)
    if found.whose.moment is not Moment.UNKNOWN:
        yield phrase("during"), phrase(found.whose.moment.value)
    if place := _place(failure):
        yield phrase("on"), place
    yield phrase("why"), _why(held)
    if pool := _pool(held):
        yield phrase("pool"), pool
    if card := _card(held):
        yield phrase("card"), card
    if failure.holders:
        yield phrase("held"), joined(", ", [_holder(one) for one in failure.holders[:_MOST_HOLDERS]])
    if held.used_peak_bytes is not None or held.mapped_peak_bytes is not None:
        yield (
            phrase("peak"),
            phrase(
                "{used} used, {mapped} with fragments",
                used=show_bytes(held.used_peak_bytes),
                mapped=show_bytes(held.mapped_peak_bytes),
            ),
        )
    if others := _others(log):
        yield phrase("also"), others
    yield phrase("said"), failure.text
    yield phrase("in"), f"{failure.path}:{failure.line}"


def _when(log: RunLog, found: Answer) -> str:
    failure = found.failure
    if found.diagnosis.cause is Cause.UNREAL:
        what = phrase("asked for memory of a size that cannot be")
    elif failure.memory is Memory.HOST:
        what = phrase("ran out of pinned host memory")
    else:
        what = phrase("ran out of device memory")
    parts: list[str] = [what]
    if failure.time:
        parts.append(phrase("at {time}", time=failure.time))
    if len(log.failures) > 1:
        if all(one.rank is None for one in log.failures):
            count = phrase("one of {count} processes", count=len(log.failures))
            first = phrase("first of {count} processes", count=len(log.failures))
            return joined(", ", [*parts, first if log.is_ordered else count])
        parts.append(
            phrase("first of {count} ranks", count=len(log.failures))
            if log.is_ordered
            else phrase("one of {count} ranks; not all tell the time", count=len(log.failures))
        )
    return joined(", ", parts)


def _asked(failure: Failure, held: Diagnosis) -> str:
    if failure.unreal_size:
        return failure.unreal_size
    if held.asked_bytes is None:
        return phrase("not told")
    return phrase("{size} ({bytes:,} bytes) at once", size=show_bytes(held.asked_bytes), bytes=held.asked_bytes)


def _owner(owner: Whose) -> str:
    if not owner.layer:
        return owner.operator
    return phrase("{operator} of layer {layer}", operator=owner.operator, layer=owner.layer)


def _place(failure: Failure) -> str:
    parts: list[str] = []
    if (device := failure.size("device")) is not None:
        parts.append(phrase("device {device}", device=device))
    if module := failure.word("module"):
        parts.append(
            phrase("for the framework itself (APP)")
            if module == APP
            else phrase("for the library {module}", module=module)
        )
    if purpose := failure.word("purpose"):
        parts.append(phrase("for {purpose}", purpose=purpose))
    if failure.process.pid and not failure.process.thread:
        parts.append(
            phrase("process {pid} ({component})", pid=failure.process.pid, component=failure.process.component)
        )
    elif failure.process.pid:
        parts.append(
            phrase(
                "process {pid}, thread {thread} ({component})",
                pid=failure.process.pid,
                thread=failure.process.thread,
                component=failure.process.component,
            )
        )
    return joined(", ", parts) if parts else ""


def _holder(one: Holder) -> str:
    size = show_bytes(one.size_bytes)
    if one.device is None:
        return phrase("{module} {size} of the host", module=one.module, size=size)
    if one.module == APP:
        return phrase("the framework (APP) {size}", size=size)
    return phrase("{module} {size}", module=one.module, size=size)


def _why(held: Diagnosis) -> str:
    cause = phrase(held.cause.value)
    if not held.short_bytes or held.cause not in (Cause.FULL, Cause.SETTING):
        return cause
    short = show_bytes(held.short_bytes)
    if held.cause is Cause.SETTING:
        return phrase("{cause}; {short} more would have sufficed", cause=cause, short=short)
    return phrase("{cause}; even without fragments {short} would have been missing", cause=cause, short=short)


def _pool(held: Diagnosis) -> str:
    return _sizes(
        (mark("may take {size}"), held.limit_bytes),
        (mark("had taken {size}"), held.pool_bytes),
        (mark("{size} in use"), held.in_use_bytes),
        (mark("{size} waiting for other streams"), held.by_event_bytes or None),
        (mark("{size} free in pieces"), held.fragments_bytes),
        (mark("{size} given back"), held.eager_free_bytes or None),
    )


def _card(held: Diagnosis) -> str:
    return _sizes(
        (mark("{size} in all"), held.device_bytes),
        (mark("{size} free"), held.device_free_bytes),
        (mark("{size} held outside of this pool"), held.others_bytes),
    )


def _sizes(*told: tuple[str, int | None]) -> str:
    """(what is said of a size, bytes): of those that are known."""
    parts = [phrase(text, size=show_bytes(size)) for text, size in told if size is not None]
    return joined(", ", parts) if parts else ""


def _others(log: RunLog) -> str:
    parts: list[str] = []
    others = log.failures[1:]
    if ranks := runs(one.rank for one in others if one.rank is not None):
        names = ", ".join(ranks[:_MOST_RANKS]) + ", ..." * (len(ranks) > _MOST_RANKS)
        parts.append(phrase("ranks {ranks} ran out of memory, too", ranks=names))
    if pids := [one.process.pid for one in others if one.rank is None and one.process.pid]:
        names = ", ".join(pids[:_MOST_RANKS]) + ", ..." * (len(pids) > _MOST_RANKS)
        parts.append(phrase("processes {pids} ran out of memory, too", pids=names))
    parts += beside(log.endings)
    if log.num_others:
        parts.append(plural(log.num_others, "{count} more failure after it", "{count} more failures after it"))
    return joined("; ", parts) if parts else ""


def endings(log: RunLog) -> Iterator[str]:
    """What a log tells in which nothing is said to have failed."""
    for hit in log.tried[:1]:
        yield phrase(
            "one attempt of the pool failed ({file}:{line}), but no allocation is said to have failed after it",
            file=hit.place.path,
            line=hit.place.line,
        )
    if not log.tried:
        yield phrase("if the run ran out of memory, the log of another rank may tell it, or the end of the launcher's")


def as_record(log: RunLog, found: Answer) -> dict[str, Any]:
    """The JSON form. Bytes as whole numbers; null is not told."""
    held, failure = found.diagnosis, found.failure
    return {
        "kind": "log",
        "failure": {
            "rank": failure.rank,
            "file": str(failure.path),
            "line": failure.line,
            "time": failure.time or None,
            "framework": failure.framework.value,
            "memory": failure.memory.value,
            "messages": list(failure.messages),
            "asked_bytes": held.asked_bytes,
            "kernel": failure.word("kernel") or None,
            "layer": found.whose.layer or None,
            "operator": found.whose.operator or None,
            "use": found.whose.use.name.lower(),
            "moment": found.whose.moment.name.lower(),
            "device": failure.size("device"),
            "library": failure.word("module") or None,
            "process": failure.process.pid or None,
            "thread": failure.process.thread or None,
            "text": failure.text,
        },
        "cause": held.cause.name.lower(),
        "cause_text": show(phrase(held.cause.value)),
        "held": {
            "limit_bytes": held.limit_bytes,
            "pool_bytes": held.pool_bytes,
            "in_use_bytes": held.in_use_bytes,
            "by_event_bytes": held.by_event_bytes,
            "free_in_pieces_bytes": held.fragments_bytes,
            "eager_free_bytes": held.eager_free_bytes,
            "device_bytes": held.device_bytes,
            "device_free_bytes": held.device_free_bytes,
            "outside_pool_bytes": held.others_bytes,
            "short_bytes": held.short_bytes,
            "used_peak_bytes": held.used_peak_bytes,
            "with_fragments_peak_bytes": held.mapped_peak_bytes,
        },
        "holders": [{"module": one.module, "device": one.device, "bytes": one.size_bytes} for one in failure.holders],
        "unreal_size": failure.unreal_size or None,
        "endings": endings_as_records(log),
        "strange_figures": [show(line) for line in strange_figures(log)],
        "ranks": [one.rank for one in log.failures],
        "ranks_in_order": log.is_ordered,
        "more_failures": log.num_others,
        "remedies": [show(text) for text in found.remedies],
        "next_command": found.next_command or None,
    }
