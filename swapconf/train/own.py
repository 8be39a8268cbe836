"""CELLS -> CELLS: every decoder layer gets primitives of its own, so that what one layer asks holds for it alone.

mindformers 1.9.0 has one object for the gating activation of all routers (``GATING_ACTIVATION`` in
``transformer/moe/router.py``); flags set on it for one layer would reach all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Owners:
    """Knows the primitives of the layers that it has seen."""

    def __init__(self) -> None:
        # by id, as flags are set on an object, whatever it equals; with the object, so that its id stays its own
        self._seen: dict[int, tuple[Any, dict[str, Any]]] = {}

    def separate(self, layer: Any) -> None:
        """Replace what an earlier layer has, too, by a copy as it was before that layer's edits.

        To be called once for each layer (``mindspore.nn.Cell``), before its edits.
        """
        mine: dict[int, tuple[Any, dict[str, Any]]] = {}
        for cell, name, primitive in _primitives(layer):
            if id(primitive) in self._seen:
                setattr(cell, name, _copy(*self._seen[id(primitive)]))
            else:
                mine[id(primitive)] = primitive, dict(primitive.attrs)
        self._seen |= mine


def _primitives(cell: Any) -> Iterator[tuple[Any, str, Any]]:
    """(the cell that has it, its name there, itself)"""
    for name, primitive in list(cell._primitives.items()):
        if primitive is not None:
            yield cell, name, primitive
    for child in cell._cells.values():
        if child is not None:
            yield from _primitives(child)


def _copy(primitive: Any, attributes: dict[str, Any]) -> Any:
    found = primitive._clone()
    for name in set(found.attrs) - set(attributes):
        found.del_prim_attr(name)
    for name, value in attributes.items():
        found.add_prim_attr(name, value)
    return found
