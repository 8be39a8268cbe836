"""SCOPE: the name of the cells around a kernel, as MindSpore writes it into graphs and traces.

``Default/network-N/model-LlamaModel/layers-CellList/0-LLamaDecodeLayer/attention-LLamaAttention/wq-Linear`` is the cell
``attention.wq`` of layer 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LAYER = re.compile(r"(?:^|.*/)(\w+)-\w+/layers-CellList/(\d+)-\w+(?:/(.*))?$")
EXTRA_BLOCK = "mtp"


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
