"""ENTRIES of a tuple of saved values, as numbers.

A value is its node. A parameter, which is no node, tells its place in the tuple of the baseline; one that the strategy
adds is the tie behind which the backward pass reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swapconf.trace.launch_graph import DEPEND, NO_NODE
from swapconf.whatif.graph.nodes import Nodes


def entries(values: Sequence[int], is_none: Callable[[int], bool]) -> list[int]:
    """``values``: what the tuple of the baseline holds. ``is_none``: a parameter."""
    return [NO_NODE - 1 - place if is_none(value) else value for place, value in enumerate(values)]


def place_of(entry: int) -> int:
    """That of a parameter of the baseline."""
    return NO_NODE - 1 - entry


def is_of_baseline(entry: int) -> bool:
    """A parameter that the baseline hands on."""
    return entry < NO_NODE


def is_parameter(nodes: Nodes, entry: int) -> bool:
    """Not what the baseline itself ties a parameter to, as one that it sends to another stage."""
    is_added = entry >= nodes.count and nodes.primitive[entry] == DEPEND
    return is_of_baseline(entry) or (is_added and nodes.inputs[entry][0] == NO_NODE)
