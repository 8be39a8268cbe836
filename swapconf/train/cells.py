"""EDITS -> CELLS: read the operator tree of a real decoder layer, and make edits on it.

Works on ``mindspore.nn.Cell`` but imports nothing of mindspore: the names ``_cells`` and ``_primitives`` are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Any, TypeAlias

from swapconf.decide.edits import Edit, Offload, RecomputeCell, RecomputePrimitive
from swapconf.models.network import LayerTemplate, Operator
from swapconf.train.own import Owners

# What a template is made of: of a cell its class, whether the model recomputes it, the name, class and flag of each
# primitive in it, one behind the other, and the cells in it by name
_Shape: TypeAlias = "tuple[type, bool, tuple[Any, ...], tuple[tuple[str, _Shape], ...]]"


class LayerReader:
    """Reads the template of a ``mindspore.nn.Cell``: every cell and primitive below it, by attribute path.

    Equal layers get one template object. ``executed``, ``saved`` and ``consumers`` stay unknown: they need a compiled
    graph. ``owners``: gives each layer primitives of its own on the way, so that it can be edited next.
    """

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._known: dict[_Shape, LayerTemplate] = {}

    def read(self, layer: Any) -> LayerTemplate:
        self._owners.begin()
        shape = _shape(layer, self._owners)
        if shape not in self._known:
            operators = tuple(_operators(shape, "", None))
            self._known[shape] = LayerTemplate(name="layer", cell=type(layer).__name__, operators=operators)
        return self._known[shape]


def read_layer(layer: Any, name: str = "layer") -> LayerTemplate:
    """The template of one layer, under a name."""
    return replace(LayerReader(Owners()).read(layer), name=name)


def _shape(cell: Any, owners: Owners) -> _Shape:
    """Flat, as a tuple for each primitive would take more time than all else here."""
    primitives: list[Any] = []
    for name, found in list(cell._primitives.items()):
        if found is not None:
            primitive = owners.own(cell, name, found)
            primitives += (name, type(primitive), primitive.attrs.get("recompute"))
    cells = [(name, _shape(child, owners)) for name, child in cell._cells.items() if child is not None]
    return type(cell), cell._has_config_recompute, tuple(primitives), tuple(cells)


def _operators(shape: _Shape, prefix: str, preset: bool | None) -> Iterator[Operator]:
    """``preset``: True below a cell that the model itself recomputes; a flag on a primitive is stronger."""
    _, is_recomputed, primitives, cells = shape
    around = True if is_recomputed else preset
    for name, kind, flag in zip(primitives[::3], primitives[1::3], primitives[2::3], strict=True):
        recompute = around if flag is None else flag
        yield Operator(path=prefix + name, kind="primitive", type=kind.__name__, preset_recompute=recompute)
    for name, inner in cells:
        yield Operator(path=prefix + name, kind="cell", type=inner[0].__name__)
        yield from _operators(inner, f"{prefix}{name}.", around)


def apply(layer: Any, edits: Iterable[Edit]) -> None:
    """Make the edits on a real decoder layer (``mindspore.nn.Cell``), in order.

    Raises AttributeError when the layer has no operator at an edit's path.
    """
    for edit in edits:
        target = _operator(layer, edit.path)
        if isinstance(edit, Offload):
            _offload(target, edit.prefetch)
        elif isinstance(edit, RecomputeCell):
            target.recompute(**edit.options)
        elif isinstance(edit, RecomputePrimitive):
            # MindSpore's add_prim_attr hides the method of that name behind the attribute, once it is set
            type(target).recompute(target, edit.on)
        else:
            target.add_prim_attr("recompute_comm_op", edit.on)


def _offload(target: Any, prefetch: int) -> None:
    """What ``Cell.offload`` and ``Primitive._offload`` leave behind, in less time: they check the number anew for each
    primitive.

    Source: MindSpore 2.7.1 to 2.10.0, nn/cell.py and ops/primitive.py; tests/mindspore/test_annotate.py compares.
    """
    for primitive in _primitives(target) if hasattr(target, "_primitives") else (target,):
        primitive.add_prim_attr("offload", True)
        primitive.add_prim_attr("backward_prefetch", prefetch)


def _primitives(cell: Any) -> Iterator[Any]:
    yield from (primitive for primitive in cell._primitives.values() if primitive is not None)
    for child in cell._cells.values():
        if child is not None:
            yield from _primitives(child)


def _operator(layer: Any, path: str) -> Any:
    return reduce(getattr, path.split("."), layer) if path else layer
