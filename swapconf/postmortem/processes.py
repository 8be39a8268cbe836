"""FAILURES and PRINTINGS of all logs -> one FAILURE for each process, with what held the memory.

CANN's own log (plog) names no rank, but the process; where the framework's log of the same process is there, too, both
tell of one failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from swapconf.postmortem.failure import Failure
from swapconf.postmortem.holders import Printing, nearest, seconds_between
from swapconf.postmortem.message import Framework

_NEAR_S = 60  # a framework tells of it when the error has come up through its calls
_OF_CANN = ("device", "module", "device_asked", "purpose")  # what its log knows, and that of the framework may not


def of_each(failures: Iterable[Failure], printings: Sequence[Printing]) -> list[Failure]:
    """In the order given; a process that is not told is none that could be the same as another."""
    made: list[Failure] = []
    places: dict[str, int] = {}
    for failure in failures:
        pid = failure.process.pid
        place = places.get(pid) if pid else None
        if place is not None and (both := _together(made[place], failure)) is not None:
            made[place] = both
            continue
        if pid:
            places.setdefault(pid, len(made))
        made.append(failure)
    return [_with_holders(one, printings) for one in made]


def _together(one: Failure, other: Failure) -> Failure | None:
    """Both as one; None where they are of two ranks, as processes of two hosts may have the same number."""
    if one.rank is not None and other.rank is not None and one.rank != other.rank:
        return None
    if (one.framework is Framework.CANN) == (other.framework is Framework.CANN):
        return one if one.rank == other.rank and one.framework is Framework.CANN else None
    told, cann = (other, one) if one.framework is Framework.CANN else (one, other)
    if seconds_between(told.time, cann.time) > _NEAR_S:
        return None
    known = {name: cann.values[name] for name in _OF_CANN if name in cann.values}
    return replace(
        told, values={**known, **told.values}, messages=tuple(dict.fromkeys((*told.messages, *cann.messages)))
    )


def _with_holders(failure: Failure, printings: Sequence[Printing]) -> Failure:
    found = nearest(printings, failure.process.pid, failure.time, failure.size("device"))
    return replace(failure, holders=found) if found else failure
