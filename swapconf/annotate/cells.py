"""Read the operator tree of a real decoder layer [mindspore cells, but imports none: duck-typed on ``_cells``]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swapconf.network import LayerTemplate, Operator


def read_layer(layer: Any, name: str = "layer") -> LayerTemplate:
    """The template of a ``mindspore.nn.Cell``: every cell and primitive below it, by attribute path.

    ``executed``, ``saved`` and ``consumers`` stay unknown: they need a compiled graph.
    """
    return LayerTemplate(name=name, cell=type(layer).__name__, operators=tuple(_walk(layer, "")))


def _walk(cell: Any, prefix: str) -> Iterator[Operator]:
    for name, primitive in cell._primitives.items():
        if primitive is not None:
            yield Operator(
                path=prefix + name,
                kind="primitive",
                type=type(primitive).__name__,
                preset_recompute=primitive.attrs.get("recompute"),
            )
    for name, child in cell._cells.items():
        if child is not None:
            yield Operator(path=prefix + name, kind="cell", type=type(child).__name__)
            yield from _walk(child, f"{prefix}{name}.")
