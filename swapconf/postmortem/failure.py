"""FAILURE: an allocation that failed, as the messages about it tell it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swapconf.postmortem.holders import Holder
from swapconf.postmortem.message import Framework, Memory, Value

_ASKED = ("tensor", "asked", "device_asked")


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """One line of a traceback of Python."""

    file: str
    function: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """Who printed it, as MindSpore's prefix tells; "" for what is not told."""

    component: str = ""
    pid: str = ""
    thread: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One allocation that failed.

    Attributes:
        rank: None where neither log nor file name tells.
        path, line: Of the first message; the line counts from 1.
        offset: Of that message in the log, in bytes.
        time: As the log writes it, so that times of one run can be compared as text; "" where it does not tell.
        messages: The names of all messages about it.
        memory: Which one ran out.
        values: What they say, by name (see ``message.VALUES``), with what the log says elsewhere of its limits.
        frames: The traceback of Python above it, the innermost last.
        text: The line of the first message, cut.
        holders: What each module of its process held then, as the driver tells.
        is_loading: The log tells that weights were being read, and no step was done.
    """

    rank: int | None
    path: Path
    line: int
    time: str
    messages: tuple[str, ...]
    framework: Framework
    memory: Memory
    values: Mapping[str, Value]
    frames: tuple[Frame, ...] = ()
    process: Process = field(default_factory=Process)
    text: str = ""
    holders: tuple[Holder, ...] = ()
    offset: int = 0
    is_loading: bool = False

    def size(self, *names: str) -> int | None:
        """The first of these values that is known and a number."""
        return next((value for name in names if isinstance(value := self.values.get(name), int)), None)

    def word(self, name: str) -> str:
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    @property
    def asked_bytes(self) -> int | None:
        """Of the tensor where it is told, else as the pool was asked, else as the device was asked."""
        return self.size(*_ASKED)

    @property
    def unreal_size(self) -> str:
        """What was asked for, as the log writes it, where no memory has so much, or none can: "" for a real size."""
        shape = self.word("shape")
        return next((word for name in _ASKED if (word := self.word(name))), "") or shape
