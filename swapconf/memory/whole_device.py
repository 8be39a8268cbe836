"""POOL + WHAT IS BESIDE IT -> WHOLE DEVICE: what a card holds while a job runs, in parts, each with its range.

MindSpore's pool is known to the byte; what others hold beside it is not, so that a part has the least, the middle and
the most that was measured, and its origin. A gate uses the most. `context.max_device_memory` bounds the pool alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from swapconf.words.phrases import joined, mark, phrase, show, unpacked
from swapconf.words.units import show_bytes


class PartName(Enum):
    """What holds memory of a card. ``elsewhere``: in PyNative mode, what the pools of other ranks and other moments
    hold more than the one that is known."""

    POOL = "pool"
    WORKSPACE = "workspace"
    COMMUNICATION = "communication"
    SYMMETRIC = "symmetric"
    IDLE = "idle"
    RUNTIME = "runtime"
    ELSEWHERE = "elsewhere"


_LABELS = {
    PartName.POOL: mark("MindSpore's pool"),
    PartName.WORKSPACE: mark("operator workspace"),
    PartName.COMMUNICATION: mark("buffers of HCCL"),
    PartName.SYMMETRIC: mark("symmetric heap"),
    PartName.IDLE: mark("idle card"),
    PartName.RUNTIME: mark("runtime"),
    PartName.ELSEWHERE: mark("pool of other ranks and moments"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """``origin``: how the range is known. ``unknown``: what is not in it, as how much it is is not known; "" for
    nothing."""

    name: PartName
    least_bytes: int
    middle_bytes: int
    most_bytes: int
    origin: str
    unknown: str = ""

    @property
    def words(self) -> str:
        """``buffers of HCCL 800.0M``, ``runtime 256.0M to 922.0M``, ``operator workspace 0B to 16.0M (not known of
        MegaMoe)``."""
        if self.unknown:
            return phrase("{range} ({unknown})", range=self._range, unknown=self.unknown)
        return self._range

    @property
    def _range(self) -> str:
        least, most = show_bytes(self.least_bytes), show_bytes(self.most_bytes)
        what = phrase(_LABELS[self.name])
        if self.least_bytes == self.most_bytes:
            return phrase("{what} {size}", what=what, size=most)
        return phrase("{what} {least} to {most}", what=what, least=least, most=most)


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeDevice:
    """``card_bytes``: the memory of the card."""

    parts: tuple[Part, ...]
    card_bytes: int

    @property
    def least_bytes(self) -> int:
        return sum(part.least_bytes for part in self.parts)

    @property
    def middle_bytes(self) -> int:
        return sum(part.middle_bytes for part in self.parts)

    @property
    def most_bytes(self) -> int:
        return sum(part.most_bytes for part in self.parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """What a card holds beside MindSpore's pool. ``joins_fragments``: the pool has virtual memory."""

    parts: tuple[Part, ...]
    card_bytes: int
    joins_fragments: bool = True

    @property
    def most_bytes(self) -> int:
        return sum(part.most_bytes for part in self.parts)

    @property
    def room_bytes(self) -> int:
        """What is left for a pool where all else takes the most."""
        return max(self.card_bytes - self.most_bytes, 0)

    def without(self, name: PartName) -> Beside:
        return replace(self, parts=tuple(part for part in self.parts if part.name is not name))

    def whole(self, pool_bytes: int, origin: str, used_bytes: int | None = None) -> WholeDevice:
        """The pool with what is beside it.

        Args:
            pool_bytes: The peak of the pool with fragments, the most that it takes.
            origin: How that is known.
            used_bytes: What tensors hold at their peak: with virtual memory, MindSpore's default, a card's pool took
                0.1 % more than that (docs/evidence/pynative.md). None where it is not known, or nothing joins
                fragments.
        """
        least = pool_bytes if used_bytes is None or not self.joins_fragments else min(used_bytes, pool_bytes)
        pool = Part(name=PartName.POOL, least_bytes=least, middle_bytes=least, most_bytes=pool_bytes, origin=origin)
        return WholeDevice(parts=(pool, *self.parts), card_bytes=self.card_bytes)


def exact(name: PartName, size_bytes: int, origin: str) -> Part:
    return Part(name=name, least_bytes=size_bytes, middle_bytes=size_bytes, most_bytes=size_bytes, origin=origin)


def device_line(whole: WholeDevice, card: str) -> str:
    """What a card holds in all, part by part, and whether it may be more than it has."""
    line = phrase(
        "a card holds {least} to {most}, about {middle}: {parts}",
        least=show_bytes(whole.least_bytes),
        most=show_bytes(whole.most_bytes),
        middle=show_bytes(whole.middle_bytes),
        parts=joined(", ", [part.words for part in whole.parts if part.most_bytes or part.unknown]),
    )
    if whole.most_bytes <= whole.card_bytes:
        return line
    return phrase(
        "{line}; at most {over} more than the {size} of {card}",
        line=line,
        over=show_bytes(whole.most_bytes - whole.card_bytes),
        size=show_bytes(whole.card_bytes),
        card=card,
    )


def as_record(whole: WholeDevice, worded: Callable[[str], str] = show) -> dict[str, Any]:
    """The JSON form. ``worded``: makes its texts; by default in the language in use."""
    return {
        "least_bytes": whole.least_bytes,
        "middle_bytes": whole.middle_bytes,
        "most_bytes": whole.most_bytes,
        "card_bytes": whole.card_bytes,
        "headroom_bytes": whole.card_bytes - whole.most_bytes,
        "parts": [
            {
                "part": part.name.value,
                "least_bytes": part.least_bytes,
                "middle_bytes": part.middle_bytes,
                "most_bytes": part.most_bytes,
                "origin": worded(part.origin),
                "unknown": worded(part.unknown),
            }
            for part in whole.parts
        ],
    }


def beside_of_record(data: Mapping[str, Any]) -> Beside:
    """As a cache keeps it. Raises ValueError, LookupError and TypeError where it is none."""
    parts = (
        Part(
            **{
                **row,
                "name": PartName(row["name"]),
                **{text: unpacked(row[text]) for text in ("origin", "unknown") if text in row},
            }
        )
        for row in data["parts"]
    )
    return Beside(parts=tuple(parts), card_bytes=data["card_bytes"], joins_fragments=data["joins_fragments"])
