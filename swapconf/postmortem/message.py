"""MESSAGE: what a framework prints when a run dies, as data; its form becomes a pattern that no line slows down.

A form is the text of the message with its values in braces: ``alloc size: {asked:bytes}``. A value has a name, which
says what it means (`VALUES`), and a kind, which says how it is written (`KINDS`). ``{:gap}`` stands for what differs
between versions, ``[[...]]`` for what some of them leave out. A form begins with a text, so that it is tried at few
places of a line; each of its parts takes a bounded number of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from swapconf.postmortem.amounts import gib_bytes, scaled_bytes, signed_number, small_number, whole_bytes
from swapconf.postmortem.cann_modules import module_name
from swapconf.postmortem.families import Family

Value = int | str
Values = Mapping[str, Value]

VALUES = {
    "tensor": "bytes of the tensor that was to be made; as a text where there cannot be so many",
    "asked": "bytes that were asked of the pool, aligned; the same",
    "device_asked": "bytes that the pool, or a library beside it, asked of the device; the same",
    "shape": "the shape of the tensor that was to be made, or one of its dimensions",
    "limit": "bytes that the pool may take of the device",
    "user_limit": "bytes that max_device_memory asks for the pool",
    "room": "bytes that the pool could still take of the device",
    "device_total": "bytes of the device",
    "device_free": "bytes of the device that nobody holds",
    "pool_total": "bytes that the pool has taken of the device",
    "in_use": "bytes of the pool that tensors hold",
    "by_event": "bytes of the pool that are released, but other streams may still use",
    "idle": "bytes of the pool that nobody holds",
    "eager_free": "bytes of the pool that were given back to be mapped again",
    "used_peak": "the most bytes that tensors held at once",
    "mapped_peak": "the most bytes that the pool held at once, fragments included",
    "summed_peak": "the most that the pools of all cards of a process held, added up",
    "kernel": "the kernel, tensor or actor that asked",
    "planned": "bytes of a graph that was planned ahead, outside of the pool",
    "device_given": "bytes that the device gave, less than the pool asked",
    "reserved_others": "bytes that MindSpore leaves to HCCL and the runtime",
    "purpose": "what the memory is for, in CANN's words",
    "module": "the library that asked, APP for the framework itself",
    "call": "the function of the runtime that failed",
    "device": "the number of the device on its host",
    "rank": "the rank",
    "held": "bytes that one module of a process holds",
    "held_by": "that module",
    "held_in": "the kind of memory that it holds them in",
    "held_on": "the device that it holds them on; none for memory of the host",
    "code": "what a call of CANN returned",
    "reason": "why, in CANN's words",
    "detail": "more of that, as it is printed",
    "remote": "the rank that was waited for",
    "node": "a process of the run, as MindSpore's scheduler or msrun names it",
    "pid": "the number of a process",
    "exit": "the code that a process ended with; below zero: the number of a signal",
    "step": "the last step that was done",
    "steps": "how many there are",
}


def _text(text: bytes) -> str | None:
    return text.decode("utf-8", "replace").strip() or None


@dataclass(frozen=True, slots=True)
class Kind:
    """``pattern``: takes at most so much of a line. ``read``: None for what is no such value."""

    pattern: bytes
    read: Callable[[bytes], Value | None]


KINDS: Mapping[str, Kind] = {
    "bytes": Kind(rb"[-+\w.]{1,40}", whole_bytes),
    "size": Kind(rb"[-+\w.]{1,40}(?: ?(?:[KMGTP]i?B|bytes)\b)?", scaled_bytes),
    "id": Kind(rb"\d{1,19}", small_number),
    "text": Kind(rb"[^\n]{1,600}?", _text),
    "name": Kind(rb"[^\s,;]{1,1000}", _text),
    "word": Kind(rb"\w{1,60}", _text),
    "module": Kind(rb"\d{1,3}", module_name),
    "code": Kind(rb"\d{6}(?!\d)", small_number),
    "signed": Kind(rb"-?\d{1,6}", signed_number),
    "gib": Kind(rb"\d{1,6}\.\d{1,6}", gib_bytes),
    "line": Kind(rb"[^\n]{0,300}", _text),
    "blank": Kind(rb"[ \t]{0,16}", _text),
    "beyond": Kind(rb"more than 1EB", _text),  # of the allocators of PyTorch: 2**60 bytes and more
}
_GAP = rb"[^\n]{0,200}?"
MOST_BYTES = 2**11  # of a message
_MOST_BEGINNINGS = 16
PART = re.compile(r"\{(\w*):(\w+)\}|(\[\[|\]\])")


class Says(Enum):
    """``FAILED``: an allocation failed. ``TRIED``: one attempt failed; the pool tries in other ways. ``STATE``: what
    holds the memory. ``HELD``: what one module of a process holds. ``ENDED``: the run ended, and this is no
    allocation. ``ALIVE``: a step was done. ``LOADS``, ``LOADED``: weights are read, or were. ``OVER``: training ended
    as it should."""

    FAILED = "failed"
    TRIED = "tried"
    STATE = "state"
    HELD = "held"
    ENDED = "ended"
    ALIVE = "alive"
    LOADS = "loads"
    LOADED = "loaded"
    OVER = "over"


OF_AN_END = frozenset({Says.ENDED, Says.ALIVE, Says.LOADS, Says.LOADED, Says.OVER})  # looked for at the end of a log


class Memory(Enum):
    """Which memory an allocation is of."""

    DEVICE = "device"
    HOST = "host"


class Framework(Enum):
    """Who prints it. ``SYSTEM``: the shell, Python, a launcher, the kernel of the host."""

    MINDSPORE = "MindSpore"
    TORCH_NPU = "torch_npu"
    CANN = "CANN"
    SYSTEM = "the system"


@dataclass(frozen=True, kw_only=True)
class Message:
    """One text that a framework prints.

    Attributes:
        name: For tests and JSON.
        form: See the module.
        versions: Which are known to print it.
        source: Where it is written, or was read.
        memory: Of a failure.
        family: Of another end; None where `code` or `reason` tell it.
    """

    name: str
    framework: Framework
    says: Says
    form: str
    versions: str
    source: str
    memory: Memory = Memory.DEVICE
    family: Family | None = None

    @cached_property
    def always(self) -> tuple[bytes, ...]:
        """The texts that each such message has, in order; it begins with the first of them."""
        outside = re.sub(r"\[\[.*?\]\]", "\0", self.form)
        return tuple(text.encode() for text in re.split(r"\{\w*:\w+\}|\0", outside) if text)

    @cached_property
    def values(self) -> Mapping[str, Kind]:
        return {match[1]: KINDS[match[2]] for match in PART.finditer(self.form) if match[1]}

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        made, at = [], 0
        for match in PART.finditer(self.form):
            made.append(re.escape(self.form[at : match.start()].encode()))
            at = match.end()
            if match[3]:
                made.append(b"(?:" if match[3] == "[[" else b")?")
            elif match[2] == "gap":
                made.append(_GAP)
            else:
                name = b"(?P<%s>" % match[1].encode() if match[1] else b"(?:"
                made.append(name + KINDS[match[2]].pattern + b")")
        made.append(re.escape(self.form[at:].encode()))
        return re.compile(b"".join(made))

    def read(self, text: bytes) -> dict[str, Value] | None:
        """The values of the message in a text, as far as they are known; None where the text does not hold it."""
        at, first = -1, self.always[0]
        for _ in range(_MOST_BEGINNINGS):
            at = text.find(first, at + 1)
            if at < 0:
                return None
            if (values := self.read_at(text, at)) is not None:
                return values
        return None

    def read_at(self, text: bytes, at: int) -> dict[str, Value] | None:
        """The same of a message that begins at a place, on one line."""
        place, end = at, at + MOST_BYTES
        for part in self.always:  # in a fraction of the time that the pattern takes to find that one is missing
            place = text.find(part, place, end) + len(part)
            if place < len(part):
                return None
        match = self._pattern.match(text, at, end)
        if match is None:
            return None
        found = ((name, kind.read(value)) for name, kind in self.values.items() if (value := match[name]) is not None)
        return {name: value for name, value in found if value is not None}
