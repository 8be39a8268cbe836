"""HITS at the end of a log -> ENDING of each rank: which message tells what ended it, and what the others add."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from swapconf.postmortem.codes import of_code, of_reason
from swapconf.postmortem.ending import Ending, Steps
from swapconf.postmortem.failure import Process
from swapconf.postmortem.families import Family
from swapconf.postmortem.hit_context import frames, process_of, text_of, time_of
from swapconf.postmortem.message import Says, Value
from swapconf.postmortem.scan import Hit, Place
from swapconf.postmortem.who import Who, marker_of

NEAR_BYTES = 2**14  # messages about one end are not further apart
END_BYTES = 2**18  # an exception of Python further from the end of a log was caught
_MOST_NOTES = 32  # the first half and the last, of more
FIRST = "first-failure"  # a launcher's word for who ended first
_OF_ALL = ("sigkill", "sigterm", "sigsegv", "sigabrt")  # what it tells of each process, before
_SIGKILL, _SIGTERM, _CRASHES = -9, -15, (-4, -6, -7, -8, -11)
_LEVEL = re.compile(rb"^.{0,80}?(?:\[(?:WARNING|INFO|DEBUG|EVENT|TRACE)\]| - (?:WARNING|INFO|DEBUG) - )")
_CLASS = re.compile(rb"(?:^|[\s\]>:.)])([A-Z]\w{0,60})$")
_CLASS_BYTES = 64
_OF_DATA = "GetNext"
_OF_LAUNCHER = ("ChildFailedError", "Distributed job exited with exception")  # torchrun; msrun of MindSpore 2.9.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Note:
    """One message of an end. ``name``: of the message; ``text``: its line, cut."""

    name: str
    place: Place
    family: Family
    time: str
    values: Mapping[str, Value]
    process: Process
    text: str

    @property
    def at(self) -> int:
        return self.place.offset


@dataclass(kw_only=True)
class EndNotes:
    """What one rank says of its end, after its last step. ``loads``: weights are being read."""

    steps: Steps = field(default_factory=Steps)
    alive_at: int = -1
    loads: bool = False
    is_over: bool = False
    _first: list[_Note] = field(default_factory=list)
    _last: deque[_Note] = field(default_factory=lambda: deque(maxlen=_MOST_NOTES // 2))

    @property
    def _notes(self) -> list[_Note]:
        return [*self._first, *self._last]

    def take(self, hit: Hit) -> None:
        says = hit.message.says
        if says is Says.ENDED:
            self._take_end(hit)
            return
        self.loads = says is Says.LOADS
        if says in (Says.ALIVE, Says.OVER):
            self.alive_at, self.is_over = hit.place.offset, says is Says.OVER
            self._first.clear()
            self._last.clear()
        if says is Says.ALIVE:
            done, total = hit.values.get("step"), hit.values.get("steps")
            self.steps = Steps(done=done if isinstance(done, int) else 0, total=total if isinstance(total, int) else 0)

    def _take_end(self, hit: Hit) -> None:
        if _LEVEL.match(hit.line[: hit.at]) is not None or self._is_said_again(hit):
            return
        is_real = _ONLY_IF.get(hit.message.name)
        if is_real is not None and not is_real(hit):
            return
        values = dict(hit.values)
        family = hit.message.family or _of_values(values)
        if family is Family.PYTHON:
            values["reason"] = name = _class_of(hit)
            family = _of_exception(name, str(values.get("detail", "")))
        if (marker := marker_of(hit)) is not None and marker.device >= 0:
            values.setdefault("device", marker.device)
        if family is not None and not (family is Family.GONE and self.is_over):
            self._put(
                _Note(
                    name=hit.message.name,
                    place=hit.place,
                    family=family,
                    time=time_of(hit),
                    values=values,
                    process=process_of(hit),
                    text=text_of(hit),
                )
            )

    def _is_said_again(self, hit: Hit) -> bool:
        """On one line, which would otherwise take as long as it likes."""
        last = self._last[-1] if self._last else self._first[-1] if self._first else None
        return last is not None and (last.name, last.place.line, last.place.path) == (
            hit.message.name,
            hit.place.line,
            hit.place.path,
        )

    def _put(self, note: _Note) -> None:
        (self._first if len(self._first) < _MOST_NOTES // 2 else self._last).append(note)

    def absorb(self, other: EndNotes) -> None:
        """Take what stands beside one's own, of lines that bear no rank."""
        both = sorted([*self._notes, *other._notes], key=lambda one: one.at)
        for notes in (self, other):
            notes._first.clear()
            notes._last.clear()
        for note in both:
            self._put(note)

    def distance(self, other: EndNotes) -> int | None:
        """In bytes between messages of both; None where one of them has none."""
        return min((abs(mine.at - its.at) for mine in self._notes for its in other._notes), default=None)

    def ending(self, who: Who, size_bytes: int) -> Ending | None:
        """``size_bytes``: of the log."""
        chosen = self._chosen(size_bytes)
        if chosen is None:
            return None
        about = [one for one in self._notes if one is chosen or abs(one.at - chosen.at) <= NEAR_BYTES]
        about = [chosen, *(one for one in about if one is not chosen and _tells_of(one, chosen))]
        values = {name: value for one in reversed(about) for name, value in one.values.items()}
        device, rank = values.get("device"), values.get("rank")
        return Ending(
            rank=rank if who.rank is None and isinstance(rank, int) else who.rank,
            device=device if isinstance(device, int) else who.device,
            family=_family(chosen.family, values),
            path=chosen.place.path,
            line=chosen.place.line,
            offset=chosen.at,
            time=chosen.time,
            messages=tuple(dict.fromkeys(one.name for one in about)),
            values=values,
            after=self.steps,
            is_over=self.is_over,
            is_loading=self.loads,
            process=next((one.process for one in about if one.process.pid), chosen.process),
            text=chosen.text,
        )

    def _chosen(self, size_bytes: int) -> _Note | None:
        """The first of those that are nearest to a cause. What a process does in its last moments counts where
        nothing else is told, and a message without a word of its own only where no other one stands beside it."""
        told = {one.name for one in self._notes}
        notes = [one for one in self._notes if FIRST not in told or one.name not in _OF_ALL]
        exact = [one for one in notes if not one.family.is_generic]
        known = [
            one
            for one in notes
            if not one.family.is_generic
            or (
                all(abs(one.at - other.at) > NEAR_BYTES for other in exact)
                and (one.family is not Family.PYTHON or size_bytes - one.at <= END_BYTES)
            )
        ]
        return min(known, key=lambda one: (one.family.is_late, one.family.role.value, one.at), default=None)


def _tells_of(one: _Note, chosen: _Note) -> bool:
    """Whether a message that stands near adds to what another one tells."""
    return one.family is chosen.family or one.family in (Family.TASK, Family.KERNEL)


def _of_values(values: Mapping[str, Value]) -> Family | None:
    """The family of a message that names a code, a reason, or what a process ended with."""
    code, reason, ended_with = values.get("code"), values.get("reason"), values.get("exit")
    if isinstance(code, int):
        return of_code(code)
    if isinstance(reason, str):
        return of_reason(reason)
    if ended_with == _SIGKILL:
        return Family.KILLED
    if ended_with == _SIGTERM:
        return Family.STOPPED
    return Family.CRASH if ended_with in _CRASHES else Family.EXITED


def _family(family: Family, values: Mapping[str, Value]) -> Family:
    """What the messages about it say together."""
    if family in (Family.TASK, Family.KERNEL, Family.KERNEL_TIMEOUT) and _OF_DATA in str(values.get("kernel", "")):
        return Family.DATA_LATE
    if family is Family.KERNEL and "ecc error" in str(values.get("detail", "")).lower():
        return Family.DEVICE_MEMORY
    return family


def _of_exception(name: str, detail: str) -> Family:
    if name == "MemoryError":
        return Family.HOST_MEMORY
    return Family.EXITED if name in _OF_LAUNCHER or detail.startswith(_OF_LAUNCHER) else Family.PYTHON


def _class_of(hit: Hit) -> str:
    """The name of an exception that the message begins in the end of; "" where it is none."""
    end = hit.at + next((len(word) for word in (b"Error", b"Exception") if hit.line.startswith(word, hit.at)), 0)
    found = _CLASS.search(hit.line[max(0, end - _CLASS_BYTES) : end])
    return found[1].decode("ascii", "replace") if found else ""


def _is_of_python(hit: Hit) -> bool:
    """It ends a traceback; not of an exception that nobody could catch, as while an object goes."""
    return bool(_class_of(hit)) and bool(frames(hit)) and b"Exception ignored in" not in hit.before[-_FRAMES_BYTES:]


_FRAMES_BYTES = 2**12
_ONLY_IF: Mapping[str, Callable[[Hit], bool]] = {
    "killed-alone": lambda hit: hit.line.strip() == b"Killed",
    "python": _is_of_python,
    "python-exception": _is_of_python,
    "python-bare": _is_of_python,
    "interrupted": lambda hit: bool(frames(hit)),
}
