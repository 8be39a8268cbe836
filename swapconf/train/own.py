"""CELLS -> CELLS: every decoder layer gets primitives of its own, so that what one layer asks holds for it alone.

mindformers 1.9.0 has one object for the gating activation of all routers (``GATING_ACTIVATION`` in
``transformer/moe/router.py``); flags set on it for one layer would reach all of them.
"""

from __future__ import annotations

from typing import Any

# what edits set on a primitive: `Offload`, `RecomputePrimitive`, `RecomputeComm`, and `RecomputeCell` with its options
# (MindSpore 2.9.0, nn/cell.py: _mp_comm_recompute, _recompute_slice_activation)
_EDITED = frozenset({"backward_prefetch", "offload", "recompute", "recompute_comm_op", "slice_activation"})
_NOTHING: dict[str, Any] = {}


class Owners:
    """Knows the primitives of the layers that it has seen, by id, as flags are set on an object, whatever it equals."""

    def __init__(self) -> None:
        self._earlier: dict[int, dict[str, Any]] = {}  # of earlier layers: of what edits set, what was there before
        self._mine: dict[int, dict[str, Any]] = {}  # of the layer that is looked at
        self._kept: list[Any] = []  # so that an id stays that of its primitive

    def begin(self) -> None:
        """What comes next is another layer; to be called once for each, before its edits."""
        self._earlier |= self._mine
        self._mine = {}

    def own(self, cell: Any, name: str, primitive: Any) -> Any:
        """The primitive of a cell; what an earlier layer has, too, is replaced by a copy as it was before that layer's
        edits."""
        before = self._earlier.get(id(primitive))
        if before is None:
            attributes = primitive.attrs
            self._mine[id(primitive)] = _NOTHING if _EDITED.isdisjoint(attributes) else _edited(attributes)
            self._kept.append(primitive)
            return primitive
        found = _copy(primitive, before)
        setattr(cell, name, found)
        return found


def _edited(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name in _EDITED}


def _copy(primitive: Any, before: dict[str, Any]) -> Any:
    found = primitive._clone()
    for name in set(_edited(found.attrs)) - set(before):
        found.del_prim_attr(name)
    for name, value in before.items():
        found.add_prim_attr(name, value)
    return found
