"""NODES: a YAML file as plain values that remember where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from swapconf.words.findings import Finding, Origin

Scalar: TypeAlias = "str | int | float | bool | None"
Plain: TypeAlias = "Scalar | list[Plain] | dict[str, Plain]"


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``key: value`` of a mapping, with the place of the key (1-based). ``file``: as that of a node."""

    key: str
    line: int
    column: int
    value: Node
    file: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A YAML value and its place. Exactly one of scalar, items, entries is meaningful, by ``kind``.

    ``text`` is the scalar as written when it was written plain (unquoted), else None. ``is_tuple``: a list that a
    Python caller gave as a tuple; YAML itself has none. ``file``: where it stands, "" for the file of the document.
    """

    kind: str  # "scalar", "list", "mapping"
    line: int
    column: int
    scalar: Scalar = None
    text: str | None = None
    items: tuple[Node, ...] = ()
    entries: dict[str, Entry] = field(default_factory=dict)
    is_tuple: bool = False
    file: str = ""

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
class Included:
    """A file whose values a document has, too, because it names it."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file whose top level is a mapping, and what its reading already found.

    Attributes:
        text: What stands in the file, with its comments; "" for a config that comes from no file.
        is_changed: Its values are not only those of the text, as after overrides on a command line.
        included: The other files that its values come from, as they were read.
        moved: Where the file has the values of a path, by that path; itself where it is not named.
    """

    file: str
    root: Node
    findings: tuple[Finding, ...] = ()
    text: str = ""
    is_changed: bool = False
    included: tuple[Included, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()

    def origin(self, node: Node, path: str) -> Origin:
        return self._origin(node, path)

    def key_origin(self, entry: Entry, path: str) -> Origin:
        return self._origin(entry, path)

    def _origin(self, place: Node | Entry, path: str) -> Origin:
        file = place.file or self.file
        return Origin(file=file, line=place.line, column=place.column, path=self.written(path, file))

    def written(self, path: str, file: str) -> str:
        """What a file calls a path: all but the document's own has each value at its own path."""
        if file == self.file:
            for read, stands in self.moved:
                if path == read or path.startswith((f"{read}.", f"{read}[")):
                    return stands + path[len(read) :]
        return path

    def line_of(self, entry: Entry) -> str:
        """The line of a key, for a text about this file; with the name of another file where it stands there."""
        return f"{entry.line}" if entry.file in ("", self.file) else f"{entry.line} ({entry.file})"

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
    return replace(like, root=borrowed(value, like.root), findings=(), is_changed=True)


def borrowed(value: Any, place: Node) -> Node:
    """A plain value as a node, at the places of another one where that has the same path."""
    nothing = Node("", place.line, place.column, file=place.file)
    if isinstance(value, dict):
        entries = {}
        for key, item in value.items():
            known = place.entries.get(str(key))
            entries[str(key)] = Entry(
                str(key),
                known.line if known else place.line,
                known.column if known else place.column,
                borrowed(item, known.value if known else nothing),
                known.file if known else place.file,
            )
        return Node("mapping", place.line, place.column, entries=entries, file=place.file)
    if isinstance(value, (list, tuple)):
        places = [*place.items, *[nothing] * (len(value) - len(place.items))]
        return Node(
            "list",
            place.line,
            place.column,
            items=tuple(map(borrowed, value, places)),
            is_tuple=isinstance(value, tuple),
            file=place.file,
        )
    same = place.kind == "scalar" and type(place.scalar) is type(value) and place.scalar == value
    scalar = value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
    return Node("scalar", place.line, place.column, scalar=scalar, text=place.text if same else None, file=place.file)


def nowhere(file: str = "<config>") -> Document:
    """An empty document, for configs that come from no file."""
    return Document(file=file, root=Node("mapping", 0, 0))
