"""EDITS -> CELLS: read the operator tree of a real decoder layer, and make edits on it.

Works on ``mindspore.nn.Cell`` but imports nothing of mindspore: the names ``_cells`` and ``_primitives`` are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

from swapconf.annotate.edits import Edit, Offload, RecomputeCell, RecomputePrimitive
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


def apply(layer: Any, edits: Iterable[Edit]) -> None:
    """Make the edits on a real decoder layer (``mindspore.nn.Cell``), in order.

    Raises AttributeError when the layer has no operator at an edit's path.
    """
    for edit in edits:
        target = _operator(layer, edit.path)
        if isinstance(edit, Offload):
            if hasattr(target, "_offload"):
                target._offload(backward_prefetch=edit.prefetch)
            else:
                target.offload(backward_prefetch=edit.prefetch)
        elif isinstance(edit, RecomputeCell):
            target.recompute(**edit.options)
        elif isinstance(edit, RecomputePrimitive):
            target.recompute(edit.on)
        else:
            target.add_prim_attr("recompute_comm_op", edit.on)


def _operator(layer: Any, path: str) -> Any:
    return reduce(getattr, path.split("."), layer) if path else layer
