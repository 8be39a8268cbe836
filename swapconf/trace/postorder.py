"""GRAPH -> its nodes in MindSpore's order: as it sorts them (`TopoSort`), and prints them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from swapconf.trace.launch_graph import NO_NODE

AnyNode = TypeVar("AnyNode", bound=Hashable)


def postorder(ends: Iterable[AnyNode], inputs: Callable[[AnyNode], Iterable[AnyNode]]) -> list[AnyNode]:
    """What some nodes need and these, each behind its inputs, the first one first. Of nodes in a circle each comes
    once."""
    order, seen = list[AnyNode](), set[AnyNode]()
    for end in ends:
        if end in seen:
            continue
        seen.add(end)
        stack: list[tuple[AnyNode, Iterator[AnyNode]]] = [(end, iter(inputs(end)))]
        while stack:
            node, left = stack[-1]
            following = next((given for given in left if given not in seen), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(inputs(following))))
    return order


def printed(inputs: Sequence[Sequence[int]], end: int) -> list[int]:
    """The nodes of a launch graph. ``inputs``: of each node; ``end``: of the graph."""
    return postorder([end], lambda node: (given for given in inputs[node] if given != NO_NODE))
