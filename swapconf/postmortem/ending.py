"""ENDING: how a rank died of something else than memory, as the messages about it tell it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swapconf.postmortem.failure import Process
from swapconf.postmortem.families import Family
from swapconf.postmortem.message import Value


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The last step that a log tells; 0 for none. ``total``: of the epoch, 0 where it is not told."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """One rank's end.

    Attributes:
        rank, device: None where neither log nor file name tells.
        family: What ended it.
        path, line: Of the message that tells it; the line counts from 1.
        offset: Of that message in the log, in bytes.
        time: As the log writes it, so that times of one run can be compared as text; "" where it does not tell.
        messages: The names of all messages about it.
        values: What they say, by name (see ``message.VALUES``).
        after: The last step before it.
        is_over: Training had ended as it should before.
        is_loading: Weights were being read, and no step was done since.
        process: Who printed it.
        text: The line of the message, cut.
    """

    rank: int | None
    device: int | None
    family: Family
    path: Path
    line: int
    offset: int
    time: str
    messages: tuple[str, ...]
    values: Mapping[str, Value] = field(default_factory=dict)
    after: Steps = field(default_factory=Steps)
    is_over: bool = False
    is_loading: bool = False
    process: Process = field(default_factory=Process)
    text: str = ""

    @property
    def awaited(self) -> int | None:
        """The rank that this one waited for, or missed; None where it is not told."""
        node = self.word("node")
        return int(node) if node.isdecimal() else self.number("remote")

    def word(self, name: str) -> str:
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        value = self.values.get(name)
        return value if isinstance(value, int) else None
