"""EDITS -> CELLS: read the operator tree of a real decoder layer, and make edits on it.

Works on ``mindspore.nn.Cell`` but imports nothing of mindspore: the names ``_cells`` and ``_primitives`` are enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import Any, TypeAlias

from swapconf.decide.edits import Edit, Offload, RecomputeCell, RecomputePrimitive
from swapconf.models.network import LayerTemplate, Operator

_Fact: TypeAlias = "tuple[str, str, bool | None, bool]"  # path, class name, preset recompute, whether it is a cell


class LayerReader:
    """Reads the template of a ``mindspore.nn.Cell``: every cell and primitive below it, by attribute path.

    Equal layers get one template object. ``executed``, ``saved`` and ``consumers`` stay unknown: they need a compiled
    graph.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[_Fact, ...], LayerTemplate] = {}

    def read(self, layer: Any) -> LayerTemplate:
        facts: list[_Fact] = [("", type(layer).__name__, None, True)]
        _collect(layer, "", None, facts)
        key = tuple(facts)
        if key not in self._known:
            operators = tuple(
                Operator(path=path, kind="cell" if is_cell else "primitive", type=kind, preset_recompute=preset)
                for path, kind, preset, is_cell in facts[1:]
            )
            self._known[key] = LayerTemplate(name="layer", cell=type(layer).__name__, operators=operators)
        return self._known[key]


def read_layer(layer: Any, name: str = "layer") -> LayerTemplate:
    """The template of one layer, under a name."""
    return replace(LayerReader().read(layer), name=name)


def _collect(cell: Any, prefix: str, preset: bool | None, facts: list[_Fact]) -> None:
    """``preset``: True below a cell that the model itself recomputes; a flag on a primitive is stronger."""
    if cell._has_config_recompute:
        preset = True
    for name, primitive in cell._primitives.items():
        if primitive is not None:
            facts.append((prefix + name, type(primitive).__name__, primitive.attrs.get("recompute", preset), False))
    for name, child in cell._cells.items():
        if child is not None:
            facts.append((prefix + name, type(child).__name__, None, True))
            _collect(child, f"{prefix}{name}.", preset, facts)


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
            # MindSpore's add_prim_attr hides the method of that name behind the attribute, once it is set
            type(target).recompute(target, edit.on)
        else:
            target.add_prim_attr("recompute_comm_op", edit.on)


def _operator(layer: Any, path: str) -> Any:
    return reduce(getattr, path.split("."), layer) if path else layer
