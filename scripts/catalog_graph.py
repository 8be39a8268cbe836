"""Read what a compiled training graph says about tagged primitives [text of a MindSpore IR dump; no mindspore].

A ``lazy_inline`` network compiles to one forward and one backward graph, whose names carry the marks below.
MindSpore's own offload pass has then inserted a MoveTo after every flagged node that a backward node reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

FORWARD_MARK = "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
TAG = "swapconf_tag"
# They pass a value on without computing anything, so a reader behind one reads the node before it.
_TRANSPARENT = {"TupleGetItem", "MakeTuple", "Depend", "Load", "MoveTo"}

_NODE = re.compile(r"^  %(\d+)\(.*?\) = (?:PrimFunc_)?(\w+)\((.*)$")
_TAG = re.compile(TAG + r": I64\((\d+)\)")
_SCOPE = re.compile(r"# (?:Fullname with scope|Scope): \((.*)\)")
_ARGUMENT = re.compile(r"%(\d+)\b")


@dataclass(kw_only=True)
class Node:
    """One node of the forward graph. ``owner``: what its tag stands for."""

    primitive: str
    arguments: tuple[int, ...]
    tag: int | None
    to_host: bool
    scope: str = ""
    owner: tuple[str, str] | None = None
    readers: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of the primitives, each (layer, path): in the graph; moved by the offload pass; who reads its output."""

    executed: frozenset[tuple[str, str]]
    saved: frozenset[tuple[str, str]]
    consumers: dict[tuple[str, str], frozenset[tuple[str, str]]]


def read_facts(text: str, owner_of: Callable[[int, str], tuple[str, str] | None]) -> Facts:
    """``owner_of``: tag and scope of a node -> (layer, path) of its primitive, or None if of no interest."""
    nodes = _forward_nodes(text.splitlines())
    for number, node in nodes.items():
        node.owner = None if node.tag is None else owner_of(node.tag, node.scope)
        for argument in _read(node):
            if argument in nodes:
                nodes[argument].readers.append(number)
    consumers: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for number, node in nodes.items():
        if node.owner is not None:
            layer = node.owner[0]
            found = consumers.setdefault(node.owner, set())
            found.update(reader for reader in _tagged_readers(nodes, number) if reader[0] == layer)
    sources = (_source(nodes, node.arguments[0]) for node in nodes.values() if node.to_host)
    return Facts(
        executed=frozenset(consumers),
        saved=frozenset(owner for owner in sources if owner is not None),
        consumers={owner: frozenset(found) for owner, found in consumers.items()},
    )


def _forward_nodes(lines: Iterable[str]) -> dict[int, Node]:
    nodes: dict[int, Node] = {}
    inside = False
    last: Node | None = None
    for line in lines:
        if line.startswith("subgraph @"):
            inside = FORWARD_MARK in line.split("(", 1)[0]
        elif inside and (match := _NODE.match(line)):
            last = nodes[int(match[1])] = _node(match[2], match[3])
        elif last is not None and not last.scope and (match := _SCOPE.search(line)):
            last.scope = match[1]
    return nodes


def _node(primitive: str, rest: str) -> Node:
    arguments = re.split(r"\) (?:\{instance name|primitive_attrs|cnode_attrs|cnode_primal_attrs)", rest, maxsplit=1)[0]
    tag = _TAG.search(rest)
    return Node(
        primitive=primitive,
        arguments=tuple(int(number) for number in _ARGUMENT.findall(arguments)),
        tag=int(tag[1]) if tag else None,
        to_host=primitive == "MoveTo" and '"CPU"' in arguments,
    )


def _read(node: Node) -> tuple[int, ...]:
    """A Depend only waits for its further arguments; MoveTo copies its first."""
    return node.arguments[:1] if node.primitive in ("Depend", "MoveTo") else node.arguments


def _tagged_readers(nodes: dict[int, Node], number: int) -> Iterator[tuple[str, str]]:
    waiting, seen = [number], {number}
    while waiting:
        for reader in nodes[waiting.pop()].readers:
            owner = nodes[reader].owner
            if owner is not None:
                yield owner
            elif nodes[reader].primitive in _TRANSPARENT and reader not in seen:
                seen.add(reader)
                waiting.append(reader)


def _source(nodes: dict[int, Node], number: int) -> tuple[str, str] | None:
    """The primitive whose output a copy to the host takes."""
    while nodes[number].owner is None and nodes[number].primitive == "TupleGetItem":
        number = nodes[number].arguments[0]
    return nodes[number].owner
