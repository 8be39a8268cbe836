"""What a migration says about each thing that a YAML asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from swapconf.words.findings import Origin
from swapconf.words.phrases import mark, phrase


class Fate(Enum):
    """What became of a thing; the value is its heading."""

    LOST = mark("cannot be carried over")
    CHANGED = mark("changes its meaning")
    CARRIED = mark("carried over")
    CHECK = mark("to be checked")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One line of the report. ``remedy``: what to do about it, "" for nothing."""

    fate: Fate
    origin: Origin
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.origin.place}  {self.origin.path}" if self.origin.path else self.origin.place
        if not self.remedy:
            return phrase("{place}: {text}", place=place, text=self.text)
        return phrase("{place}: {text}; {remedy}", place=place, text=self.text, remedy=self.remedy)


def lost(origin: Origin, text: str, remedy: str) -> Item:
    return Item(fate=Fate.LOST, origin=origin, text=text, remedy=remedy)


def changed(origin: Origin, text: str, remedy: str = "") -> Item:
    return Item(fate=Fate.CHANGED, origin=origin, text=text, remedy=remedy)


def carried(origin: Origin, text: str) -> Item:
    return Item(fate=Fate.CARRIED, origin=origin, text=text)


def to_check(origin: Origin, text: str, remedy: str = "") -> Item:
    return Item(fate=Fate.CHECK, origin=origin, text=text, remedy=remedy)


def anything_lost(items: Iterable[Item]) -> bool:
    return any(item.fate is Fate.LOST for item in items)
