"""SCOPE: the name of the cells around a kernel, as MindSpore writes it into graphs and traces.

``Default/network-N/model-LlamaModel/layers-CellList/0-LLamaDecodeLayer/attention-LLamaAttention/wq-Linear`` is the cell
``attention.wq`` of layer 0.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

_LAYER = re.compile(r"(?:^|.*/)(\w+)-\w+/layers-CellList/(\d+)-\w+(?:/(.*))?$")
EXTRA_BLOCK = "mtp"
GRADIENTS = "Gradients/"  # before the name of what computes a gradient


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kernel stands: the name of its layer ("": outside the layers of this model) and the dotted path of its
    cell from there ("": the layer itself)."""

    layer: str
    cell: str


@dataclass(frozen=True, slots=True)
class InLayer:
    """``is_extra``: a layer of multi-token prediction, which has a list of its own. ``cell``: dotted path from the
    layer, "" for the layer itself."""

    index: int
    is_extra: bool
    cell: str


def in_layer(scope: str) -> InLayer | None:
    """Where in the layers a scope is; None outside of them."""
    match = _LAYER.match(scope)
    if match is None:
        return None
    cells = [element.partition("-")[0] for element in (match[3] or "").split("/") if "-" in element]
    return InLayer(int(match[2]), match[1] == EXTRA_BLOCK, ".".join(cells))


def place_of(scope: str, num_layers: int) -> Place:
    """``.../layers-CellList/0-LLamaDecodeLayer/attention-LLamaAttention`` -> layer 0, ``attention``."""
    found = in_layer(scope)
    if found is None:
        return Place("", scope)
    if found.is_extra:
        return Place(f"{EXTRA_BLOCK}{found.index}", found.cell)
    return Place(str(found.index), found.cell) if found.index < num_layers else Place("", scope)


def descends(path: str, roots: Set[str]) -> bool:
    """The path of an operator or cell stands at or below one of these; "" is the layer."""
    return "" in roots or path in roots or any(path.startswith(f"{root}.") for root in roots)
