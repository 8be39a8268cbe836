"""HITS -> FAILURES of each rank: several messages tell of one failure, and a message may be printed several times."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from swapconf.memory.figures import Figures
from swapconf.postmortem.ends import NEAR_BYTES as NEAR_END_BYTES
from swapconf.postmortem.ends import EndNotes
from swapconf.postmortem.failure import Failure, Frame
from swapconf.postmortem.hit_context import frames, is_warning, process_of, text_of, time_of
from swapconf.postmortem.holders import Printings
from swapconf.postmortem.message import OF_AN_END, Framework, Memory, Says, Value
from swapconf.postmortem.scan import Hit
from swapconf.postmortem.who import Who, Whose

NEAR_BYTES = 2**16  # messages of one failure are not further apart
ALIGNED_BYTES = 2**20  # the pool rounds up what it is asked by less

_LIMITS = (
    "limit",
    "user_limit",
    "device_total",
    "reserved_others",
    "used_peak",
    "mapped_peak",
    "summed_peak",
)  # hold for all of a log
_MOST_KNOWN, _MOST_RECENT, _MOST_RANKS = 256, 16, 10_000
_RANK = re.compile(rb"RankID:(\d{1,6})\b")
_CALLERS = (
    ("/mindspore/", Framework.MINDSPORE),
    ("/mindformers/", Framework.MINDSPORE),
    ("/torch/", Framework.TORCH_NPU),
    ("/torch_npu/", Framework.TORCH_NPU),
)


@dataclass(kw_only=True)
class _Group:
    """The messages about one failure, so far. ``is_told``: it is the first one, of which all is told. ``is_loading``:
    weights were being read."""

    first: Hit
    end: int
    time: str = ""
    is_told: bool = False
    is_loading: bool = False
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
    def of(cls, hit: Hit, is_loading: bool) -> _Group:
        made = cls(first=hit.let_go(), end=hit.place.offset, time=time_of(hit), is_told=True, is_loading=is_loading)
        made.take(hit)
        return made

    def take(self, hit: Hit) -> None:
        self.said[hit.message.name] = hit.values
        self.values = {**hit.values, **self.values}
        self.end = max(self.end, hit.place.offset)
        is_failure = hit.message.says is Says.FAILED
        if self.framework in (None, Framework.CANN) and (is_failure or hit.message.framework is not Framework.CANN):
            self.framework = hit.message.framework
        if is_failure:
            if hit.message.memory is Memory.HOST:
                self.memory = Memory.HOST
            if self.is_told:
                self.frames = self.frames or frames(hit)

    def failure(self, who: Who, limits: dict[str, Value]) -> Failure:
        hit = self.first
        own = _RANK.search(hit.line)
        device: dict[str, Value] = {} if who.device is None else {"device": who.device}
        return Failure(
            rank=int(own[1]) if who.rank is None and own else who.rank,
            path=hit.place.path,
            line=hit.place.line,
            offset=hit.place.offset,
            is_loading=self.is_loading,
            time=self.time,
            messages=tuple(self.said),
            framework=_framework(self.framework or hit.message.framework, self.frames),
            memory=self.memory,
            values={**limits, **device, **self.values},
            frames=self.frames,
            process=process_of(hit),
            text=text_of(hit),
        )


@dataclass(kw_only=True)
class RankNotes:
    """What one rank said. ``num_others``: failures after the first; ``tried``: the first attempt that failed."""

    first: _Group | None = None
    num_others: int = 0
    tried: Hit | None = None
    limits: dict[str, Value] = field(default_factory=dict)
    printings: Printings = field(default_factory=Printings)
    ends: EndNotes = field(default_factory=EndNotes)
    _open: _Group | None = None
    _recent: deque[Hit] = field(default_factory=lambda: deque(maxlen=_MOST_RECENT))
    _known: dict[object, None] = field(default_factory=dict)

    def take(self, hit: Hit) -> None:
        if hit.message.says in OF_AN_END:
            self.ends.take(hit)
            return
        if hit.message.says is Says.HELD:
            self.printings.take(hit, process_of(hit).pid, time_of(hit))
            return
        if hit.message.says is Says.FAILED and not is_warning(hit):
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
        self.first = self._open = _Group.of(hit, self.ends.loads)
        for before in reversed(self._recent):
            if hit.place.offset - before.place.offset <= NEAR_BYTES and self._open.fits(before):
                self._open.take(before)

    def failure(self, who: Who) -> Failure | None:
        return self.first.failure(who, self.limits) if self.first else None

    @property
    def figures(self) -> Figures:
        values = {**self.limits, **(self.first.values if self.first else {})}

        def size(name: str) -> int | None:
            value = values.get(name)
            return value if isinstance(value, int) else None

        return Figures(
            used_peak=size("used_peak"),
            mapped_peak=size("mapped_peak"),
            summed_peak=size("summed_peak"),
            limit=size("limit"),
            device=size("device_total"),
            pool=size("pool_total"),
            in_use=size("in_use"),
            free=size("device_free"),
        )


def by_rank(hits: Iterable[Hit], rank: int | None) -> dict[Who, RankNotes]:
    """What each rank said. ``rank``: whose log it is by its name; None where each line may tell."""
    notes: dict[Who, RankNotes] = {}
    whose = Whose(rank=rank)
    for hit in hits:
        who = whose.of(hit)
        notes.setdefault(who if who in notes or len(notes) < _MOST_RANKS else Who(rank=rank), RankNotes()).take(hit)
    if Who() in notes:
        _share_out(notes[Who()].ends, [one.ends for who, one in notes.items() if who != Who()])
    return notes


def _share_out(untold: EndNotes, others: list[EndNotes]) -> None:
    """A report may begin with lines that bear no rank, beside others that do."""
    near = [(distance, one) for one in others if (distance := one.distance(untold)) is not None]
    if near and min(near, key=lambda pair: pair[0])[0] <= NEAR_END_BYTES:
        min(near, key=lambda pair: pair[0])[1].absorb(untold)


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
    for name in ("used_peak", "mapped_peak", "summed_peak"):
        before, now = known.get(name), found.get(name)
        if isinstance(before, int) and isinstance(now, int):
            found[name] = max(before, now)
    return found
