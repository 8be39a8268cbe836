"""CELLS -> FLAGS: which primitives of a built network are flagged for swap and recompute, read back from them.

A dry run leaves this beside its trace as ``flags.json``, so that what was decided, what the real cells carry and what
the executed graph did can be compared. Works on ``mindspore.nn.Cell`` but imports nothing of mindspore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RECOMPUTED = "recompute_"  # what MindSpore puts before the scope of a recomputed cell (2.9.0, Cell.recompute)
_LAYER = re.compile(r"(?:^|\.)(?P<extra>mtp\.)?layers\.(?P<index>\d+)\.(?P<path>.+)")
_EXTRA = "mtp"


@dataclass(frozen=True, kw_only=True)
class Flags:
    """By (layer name, path of the primitive).

    Primitives outside the layers are left out.

    Attributes:
        swapped: Its ``backward_prefetch``.
        recomputed: By its own flag, or below a recomputed cell and not flagged off.
    """

    swapped: Mapping[tuple[str, str], int]
    recomputed: frozenset[tuple[str, str]]


def of_network(network: Any) -> dict[str, dict[str, Any]]:
    """By path from the network, the primitives that carry a flag."""
    found: dict[str, dict[str, Any]] = {}
    for path, cell in network.cells_and_names():
        below = (cell.get_scope() or "").startswith(_RECOMPUTED)
        for name, primitive in cell._primitives.items():
            if primitive is None:
                continue
            flags: dict[str, Any] = {}
            if primitive.attrs.get("offload"):
                flags["prefetch"] = int(primitive.attrs["backward_prefetch"])
            if primitive.attrs.get("recompute", below):
                flags["recompute"] = True
            if flags:
                found[".".join(filter(None, (path, name)))] = flags
    return found


def read(path: Path) -> Flags:
    """Raises OSError and ValueError for a file that is not there, or is not this."""
    found = json.loads(path.read_text(encoding="utf-8"))
    swapped, recomputed = {}, set()
    for name, flags in found.items():
        site = site_of(name)
        if site is not None and "prefetch" in flags:
            swapped[site] = int(flags["prefetch"])
        if site is not None and flags.get("recompute"):
            recomputed.add(site)
    return Flags(swapped=swapped, recomputed=frozenset(recomputed))


def site_of(path: str) -> tuple[str, str] | None:
    """``model.decoder.layers.1.mlp.mul`` -> ("1", "mlp.mul"); None outside the layers."""
    found = _LAYER.search(path)
    return None if found is None else (_EXTRA * bool(found["extra"]) + found["index"], found["path"])
