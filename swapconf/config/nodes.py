"""NODES: a YAML file as plain values that remember where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from swapconf.words.findings import Finding, Origin

Scalar: TypeAlias = "str | int | float | bool | None"
Plain: TypeAlias = "Scalar | list[Plain] | dict[str, Plain]"


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``key: value`` of a mapping, with the place of the key (1-based)."""

    key: str
    line: int
    column: int
    value: Node


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A YAML value and its place. Exactly one of scalar, items, entries is meaningful, by ``kind``.

    ``text`` is the scalar as written when it was written plain (unquoted), else None. ``is_tuple``: a list that a
    Python caller gave as a tuple; YAML itself has none.
    """

    kind: str  # "scalar", "list", "mapping"
    line: int
    column: int
    scalar: Scalar = None
    text: str | None = None
    items: tuple[Node, ...] = ()
    entries: dict[str, Entry] = field(default_factory=dict)
    is_tuple: bool = False

    def get(self, key: str) -> Node | None:
        entry = self.entries.get(key)
        return entry.value if entry else None

    def plain(self) -> Plain:
        """The value without its places."""
        if self.kind == "mapping":
            return {key: entry.value.plain() for key, entry in self.entries.items()}
        if self.kind == "list":
            return [item.plain() for item in self.items]
        return self.scalar


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file whose top level is a mapping, and what its reading already found.

    Attributes:
        text: What stands in the file, with its comments; "" for a config that comes from no file.
        is_changed: Its values are not only those of the text, as after overrides on a command line.
    """

    file: str
    root: Node
    findings: tuple[Finding, ...] = ()
    text: str = ""
    is_changed: bool = False

    def origin(self, node: Node, path: str) -> Origin:
        return Origin(file=self.file, line=node.line, column=node.column, path=path)

    def key_origin(self, entry: Entry, path: str) -> Origin:
        return Origin(file=self.file, line=entry.line, column=entry.column, path=path)

    def way_to(self, path: str) -> tuple[Entry, ...]:
        """The entries on the way to a dotted path, as far as they are written."""
        way: list[Entry] = []
        for key in path.split("."):
            entry = (way[-1].value if way else self.root).entries.get(key)
            if entry is None:
                break
            way.append(entry)
        return tuple(way)

    def entry_at(self, path: str) -> Entry | None:
        way = self.way_to(path)
        return way[-1] if len(way) == path.count(".") + 1 else None


def from_plain(value: Any, like: Document) -> Document:
    """Plain Python values (dicts, lists, tuples, scalars) as a document; places come from ``like`` where it has the
    same path, so that a config changed on the command line still points into its file."""
    return Document(file=like.file, root=borrowed(value, like.root), text=like.text, is_changed=True)


def borrowed(value: Any, place: Node) -> Node:
    """A plain value as a node, at the places of another one where that has the same path."""
    if isinstance(value, dict):
        entries = {}
        for key, item in value.items():
            known = place.entries.get(str(key))
            entries[str(key)] = Entry(
                str(key),
                known.line if known else place.line,
                known.column if known else place.column,
                borrowed(item, known.value if known else Node("", place.line, place.column)),
            )
        return Node("mapping", place.line, place.column, entries=entries)
    if isinstance(value, (list, tuple)):
        spare = Node("", place.line, place.column)
        places = [*place.items, *[spare] * (len(value) - len(place.items))]
        return Node(
            "list",
            place.line,
            place.column,
            items=tuple(map(borrowed, value, places)),
            is_tuple=isinstance(value, tuple),
        )
    same = place.kind == "scalar" and type(place.scalar) is type(value) and place.scalar == value
    scalar = value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
    return Node("scalar", place.line, place.column, scalar=scalar, text=place.text if same else None)


def nowhere(file: str = "<config>") -> Document:
    """An empty document, for configs that come from no file."""
    return Document(file=file, root=Node("mapping", 0, 0))
