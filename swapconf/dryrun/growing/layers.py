"""NAMES of layers in a run with fewer of them -> names of the layers of the whole model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.words.phrases import phrase

_LAYER = re.compile(r"((?:^|[./])layers(?:-CellList/|\.))(\d+)(?=[-.])")
_EXTRA = re.compile(r"(?:^|[./])mtp(?:-\w+)?[./]")
_OPERATOR = re.compile(r"(.*-op)\d+$")


@dataclass(frozen=True, slots=True)
class Numbering:
    """``whole``: [layers of the run] their numbers in the whole model. ``first``, ``size``: the row of equal layers
    that is repeated. ``stride``: layers of a period."""

    whole: Sequence[int]
    first: int
    size: int
    stride: int

    def natural(self, layer: int) -> int:
        """The number in the whole model of a layer that the run has. Raises CannotGrow."""
        if layer >= len(self.whole):
            raise CannotGrow(
                phrase("the trace names a layer {layer}, and the run has {count}", layer=layer, count=len(self.whole))
            )
        return self.whole[layer]

    def at(self, layer: int, turn: int) -> int:
        """The number of a layer at a turn, wherever in the row it is."""
        low = self.first
        return self.whole[low] + layer - low + self.stride * turn

    def holds(self, layer: int) -> bool:
        return self.first <= layer < self.first + self.size

    @property
    def templates(self) -> range:
        """As many layers as a period has, from the middle: one is like each that is added."""
        start = max(self.first - (-self.size // 2) - self.stride, self.first)
        return range(start, min(start + self.stride, self.first + self.size))


def layer_in(name: str) -> int:
    """-1 outside of the layers, and in extra prediction layers."""
    found = _LAYER.search(name)
    return -1 if found is None or _EXTRA.search(name) else int(found[2])


def with_layer(name: str, layer: int) -> str:
    return _LAYER.sub(lambda match: f"{match[1]}{layer}", name, count=1)


@dataclass(frozen=True)
class Operators:
    """Gives each launch of a graph a name of its own: the one that it should have, or the next free number of its
    operator."""

    _taken: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)

    def own(self, name: str) -> str:
        found = _OPERATOR.match(name)
        if name in self._taken and found:
            number = self._next.get(found[1], 0)
            while (name := f"{found[1]}{number}") in self._taken:
                number += 1
            self._next[found[1]] = number + 1
        self._taken.add(name)
        return name
