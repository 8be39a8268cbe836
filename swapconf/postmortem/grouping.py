"""HITS -> FAILURES of each rank: several messages tell of one failure, and a message may be printed several times."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from swapconf.files.log_folder import RANK_TAG, number
from swapconf.postmortem.failure import Failure, Frame, Process
from swapconf.postmortem.holders import Printings
from swapconf.postmortem.message import Framework, Memory, Says, Value
from swapconf.postmortem.scan import Hit

NEAR_BYTES = 2**16  # messages of one failure are not further apart
ALIGNED_BYTES = 2**20  # the pool rounds up what it is asked by less

_LIMITS = (
    "limit",
    "user_limit",
    "device_total",
    "reserved_others",
    "used_peak",
    "mapped_peak",
)  # hold for all of a log
_MOST_KNOWN, _MOST_RECENT, _MOST_FRAMES, _MOST_RANKS = 256, 16, 200, 10_000
_TEXT_BYTES = 300
_SAME_MESSAGE_BYTES = 4096  # only the first line of a message bears the rank
_TIME = re.compile(rb"(\d{4}-\d\d-\d\d)[-T ](\d\d:\d\d:\d\d)(?:[.,](\d{3}))?")
_TIME_BYTES = 4096
_RANK = re.compile(rb"RankID:(\d{1,6})\b")
_FRAME = re.compile(rb'File "([^"\n]{1,300})", line \d{1,7}, in ([\w<>.]{1,100})')
_TRACEBACK = b"Traceback (most recent call last)"
_BEHIND_FRAMES = 2048  # bytes from the last frame to the message
_CALLERS = (
    ("/mindspore/", Framework.MINDSPORE),
    ("/mindformers/", Framework.MINDSPORE),
    ("/torch/", Framework.TORCH_NPU),
    ("/torch_npu/", Framework.TORCH_NPU),
)
_PREFIX = re.compile(rb"\[[A-Z]{4,9}\] (\w{1,30})\((\d{1,9}),(\w{1,20}),")
# of a plog: the name of the process, and the thread behind the place in CANN's sources
_PLOG_PREFIX = re.compile(
    rb"\[([A-Z]{4,9})\] (\w{1,30})\((\d{1,9}), ?[^,()\n]{1,64}\) ?:[-:. \d]{10,40}(?:\[[^\]\n]{1,120}\] ?(\d{1,9}) )?"
)
_FAILING = (b"ERROR", b"CRITICAL")  # levels of a plog; CANN tries smaller pages after a warning


@dataclass(kw_only=True)
class _Group:
    """The messages about one failure, so far. ``is_told``: it is the first one, of which all is told."""

    first: Hit
    end: int
    time: str = ""
    is_told: bool = False
    said: dict[str, dict[str, Value]] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    memory: Memory = Memory.DEVICE
    framework: Framework | None = None
    frames: tuple[Frame, ...] = ()

    def fits(self, hit: Hit) -> bool:
        """Whether it may tell of the same failure."""
        if hit.place.offset - self.end > NEAR_BYTES:
            return False
        if self.said.get(hit.message.name, hit.values) != hit.values:
            return False
        mine, others = (_tensor(values) for values in (self.values, hit.values))
        return mine is None or others is None or abs(mine - others) <= ALIGNED_BYTES

    @classmethod
    def of(cls, hit: Hit) -> _Group:
        made = cls(first=hit.let_go(), end=hit.place.offset, time=_time(hit), is_told=True)
        made.take(hit)
        return made

    def take(self, hit: Hit) -> None:
        self.said[hit.message.name] = hit.values
        self.values = {**hit.values, **self.values}
        self.end = max(self.end, hit.place.offset)
        if hit.message.says is Says.FAILED:
            if hit.message.memory is Memory.HOST:
                self.memory = Memory.HOST
            if self.framework in (None, Framework.CANN):
                self.framework = hit.message.framework
            if self.is_told:
                self.frames = self.frames or frames(hit)

    def failure(self, rank: int | None, limits: dict[str, Value]) -> Failure:
        hit = self.first
        own = _RANK.search(hit.line)
        return Failure(
            rank=int(own[1]) if rank is None and own else rank,
            path=hit.place.path,
            line=hit.place.line,
            time=self.time,
            messages=tuple(self.said),
            framework=_framework(self.framework or hit.message.framework, self.frames),
            memory=self.memory,
            values={**limits, **self.values},
            frames=self.frames,
            process=process_of(hit),
            text=_text(hit),
        )


@dataclass(kw_only=True)
class RankNotes:
    """What one rank said. ``num_others``: failures after the first; ``tried``: the first attempt that failed."""

    first: _Group | None = None
    num_others: int = 0
    tried: Hit | None = None
    limits: dict[str, Value] = field(default_factory=dict)
    printings: Printings = field(default_factory=Printings)
    ended: list[str] = field(default_factory=list)
    _open: _Group | None = None
    _recent: deque[Hit] = field(default_factory=lambda: deque(maxlen=_MOST_RECENT))
    _known: dict[object, None] = field(default_factory=dict)

    def take(self, hit: Hit) -> None:
        if hit.message.says is Says.HELD:
            self.printings.take(hit, process_of(hit).pid, _time(hit))
            return
        if hit.message.says is Says.FAILED and not _is_warning(hit):
            self._take_failure(hit)
            return
        if hit.message.says is Says.STATE:
            self.limits.update(_limits(hit.values, self.limits))
        elif self.tried is None:
            self.tried = hit.let_go()
        if self._open is not None and self._open.fits(hit):
            self._open.take(hit)
        if self.first is None:
            self._recent.append(hit.let_go())

    def _take_failure(self, hit: Hit) -> None:
        key = hit.message.name, tuple(hit.values.items())
        if key in self._known:
            if self._open is not None:
                self._open.end = max(self._open.end, hit.place.offset)
            return
        if len(self._known) < _MOST_KNOWN:
            self._known[key] = None
        for group in (self.first, self._open):  # a kernel's own word may come after the failure of another thread
            if group is not None and group.fits(hit):
                group.take(hit)
                return
        if self.first is not None:
            self.num_others += 1
            self._open = _Group(first=hit.let_go(), end=hit.place.offset)  # of these, no more is told
            self._open.said[hit.message.name] = self._open.values = hit.values
            return
        self.first = self._open = _Group.of(hit)
        for before in reversed(self._recent):
            if hit.place.offset - before.place.offset <= NEAR_BYTES and self._open.fits(before):
                self._open.take(before)

    def failure(self, rank: int | None) -> Failure | None:
        return self.first.failure(rank, self.limits) if self.first else None


def by_rank(hits: Iterable[Hit], rank: int | None) -> dict[int | None, RankNotes]:
    """What each rank said. ``rank``: whose log it is by its name; None where each line may tell."""
    notes: dict[int | None, RankNotes] = {}
    key, end = rank, 0
    for hit in hits:
        tag = RANK_TAG.match(hit.line) if rank is None else None
        if tag:
            key = number(tag)
        elif hit.place.offset - end > _SAME_MESSAGE_BYTES:
            key = rank
        end = hit.place.offset
        notes.setdefault(key if key in notes or len(notes) < _MOST_RANKS else rank, RankNotes()).take(hit)
    return notes


def frames(hit: Hit) -> tuple[Frame, ...]:
    """The traceback that ends in the message."""
    text = hit.before
    at = text.rfind(_TRACEBACK)
    if at < 0:
        return ()
    found = list(islice(_FRAME.finditer(text, at), _MOST_FRAMES))
    if not found or len(text) - found[-1].end() > _BEHIND_FRAMES:
        return ()
    return tuple(
        Frame(file=match[1].decode("utf-8", "replace"), function=match[2].decode("utf-8", "replace")) for match in found
    )


def _framework(told: Framework, traceback: tuple[Frame, ...]) -> Framework:
    """Where CANN alone speaks, the traceback tells who called it."""
    if told is Framework.CANN:
        for frame in reversed(traceback):
            for word, framework in _CALLERS:
                if word in frame.file:
                    return framework
    return told


def _tensor(values: dict[str, Value]) -> int | None:
    value = values.get("tensor", values.get("asked"))
    return value if isinstance(value, int) else None


def _limits(values: dict[str, Value], known: dict[str, Value]) -> dict[str, Value]:
    """The last word counts, but of peaks the highest."""
    found = {name: value for name, value in values.items() if name in _LIMITS}
    for name in ("used_peak", "mapped_peak"):
        before, now = known.get(name), found.get(name)
        if isinstance(before, int) and isinstance(now, int):
            found[name] = max(before, now)
    return found


def _time(hit: Hit) -> str:
    """The last time of day that was printed, in one form, so that logs can be compared."""
    match = _TIME.search(hit.line) or next(iter(list(_TIME.finditer(hit.before[-_TIME_BYTES:]))[::-1]), None)
    if match is None:
        return ""
    day, time, part = (text.decode() if text else "" for text in match.groups())
    return f"{day} {time}.{part}".rstrip(".")


def _text(hit: Hit) -> str:
    """The message without the prefix of a logger."""
    behind = hit.line.rfind(b"] ", 0, hit.at)
    begin = max(behind + 2 if behind >= 0 else 0, hit.at - _TEXT_BYTES // 2)
    return hit.line[begin : begin + _TEXT_BYTES].decode("utf-8", "replace").strip()


def process_of(hit: Hit) -> Process:
    match = _PREFIX.search(hit.line)
    if match is None:
        match = _PLOG_PREFIX.search(hit.line)
    if match is None:
        return Process()
    component, pid, thread = (part.decode() if part else "" for part in match.groups()[-3:])
    return Process(component=component, pid=pid, thread=thread)


def _is_warning(hit: Hit) -> bool:
    """Whether CANN itself logs it as less than an error."""
    if hit.message.framework is not Framework.CANN:
        return False
    match = _PLOG_PREFIX.search(hit.line[: hit.at])
    return match is not None and match[1] not in _FAILING
