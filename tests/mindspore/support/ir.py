"""Reads what MindSpore dumps with ``save_graphs``: which primitive of which cell a node calls, and its swap flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NODE = re.compile(
    r"  %\d+\(.*\{instance name: (?P<name>\w+)\}(?: primitive_attrs: \{(?P<attributes>.*?)\})?"
    r"(?: cnode_attrs: \{(?P<marks>.*?)\})?"
)
_SCOPE = re.compile(r"# Fullname with scope: \((?P<scope>.*)/")
_PREFETCH = re.compile(r"backward_prefetch: I64\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Node:
    """A call of a primitive. ``path``: from the outermost cell. ``prefetch``: None where swap is not flagged.

    ``recomputed``: MindSpore's own mark, set in the optimised graph.
    """

    path: str
    prefetch: int | None
    recomputed: bool
    backward: bool


def nodes(dump: Path) -> Iterator[Node]:
    """The calls of primitives that are attributes of a cell, in the order of the dump."""
    call = None
    for line in dump.read_text(encoding="utf-8").splitlines():
        if line.startswith("  %"):
            call = _NODE.match(line)
        elif call and (scope := _SCOPE.search(line)):
            top, *cells = scope["scope"].split("/")
            path = ".".join([*(cell.partition("-")[0] for cell in cells), call["name"]])
            recomputed = "recompute: Bool(1)" in (call["marks"] or "")
            yield Node(path, _prefetch(call["attributes"] or ""), recomputed, top == "Gradients")
            call = None


def _prefetch(attributes: str) -> int | None:
    if "offload: Bool(1)" not in attributes:
        return None
    found = _PREFETCH.search(attributes)
    assert found, f"offload without backward_prefetch: {attributes}"
    return int(found[1])
