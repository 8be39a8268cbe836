"""TEXT -> SPANS: which characters of a YAML to replace so that one value changes, or one key or entry goes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import yaml

from swapconf.config.yaml_document import Loader
from swapconf.words.findings import Origin

Step: TypeAlias = "tuple[yaml.CollectionNode, int]"  # a list or mapping, and which of its children
Chain: TypeAlias = "tuple[Step, ...]"

_REST = re.compile(r"[ \t]*(#[^\r\n]*)?(\r\n|\n|\r|\Z)")
_BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")  # what YAML 1.1 ends a line with
_BEFORE_KEY = re.compile(r"[ \t]*")
_BEFORE_ITEM = re.compile(r"[ \t]*-[ \t]+")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters ``start`` to ``end`` (without it), and what is to stand there."""

    start: int
    end: int
    text: str = ""


def applied(text: str, spans: Iterable[TextSpan]) -> str:
    """The text with every span replaced. They stand apart; of insertions at one place the first comes first."""
    made, position = [], 0
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        made += [text[position : span.start], span.text]
        position = span.end
    return "".join([*made, text[position:]])


class SourceText:
    """A YAML that can be parsed. None is the answer wherever its form makes an edit unsure.

    ``root``: the parser's node of the top level, with marks; None for a text without one.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in _BREAK.finditer(text))]
        loader = Loader(text)
        try:
            self.root: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()

    def offset(self, place: Origin) -> int:
        """The index of the character at a place."""
        return self.at(place.line, place.column)

    def at(self, line: int, column: int) -> int:
        """The index of the character at a line and column, both from 1."""
        return self._starts[min(line, len(self._starts)) - 1] + column - 1

    @property
    def line_break(self) -> str:
        """What ends the first line."""
        found = _BREAK.search(self.text)
        return "\r\n" if found and found.group() == "\r\n" else "\n"

    def line_start(self, index: int) -> int:
        """Where the line of a character begins."""
        return self._starts[bisect_right(self._starts, index) - 1]

    def begins_line(self, index: int) -> bool:
        """Whether nothing but blanks stands before a character on its line."""
        return not self.text[self.line_start(index) : index].strip()

    def line_end(self, index: int) -> int:
        """Where the line of a character ends, before its break."""
        found = _BREAK.search(self.text, index)
        return found.start() if found else len(self.text)

    def next_line(self, index: int) -> int:
        """Where the next line begins; the end of the text behind the last one."""
        found = _BREAK.search(self.text, index)
        return found.end() if found else len(self.text)

    def scalar(self, place: Origin) -> str | None:
        """The text of the scalar (a value or a key) that starts at a place."""
        node = self._node(self._chain(place), place)
        return str(node.value) if isinstance(node, yaml.ScalarNode) else None

    def value(self, place: Origin) -> Any:
        """What YAML 1.1 reads in that scalar."""
        node = self._node(self._chain(place), place)
        return yaml.safe_load(self.text[_start(node) : _end(node)]) if isinstance(node, yaml.ScalarNode) else None

    def replaced(self, place: Origin, value: str) -> TextSpan | None:
        """The scalar with another text, in the quotes that it has."""
        node = self._node(self._chain(place), place)
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">") or self.text[_start(node)] in "&!*":
            return None
        if node.style == "'":
            value = "'" + value.replace("'", "''") + "'"
        elif node.style == '"':
            value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return TextSpan(_start(node), _end(node), value)

    def without_key(self, place: Origin) -> TextSpan | None:
        """Without the key that starts at a place, and its value; the only key of a mapping stays."""
        chain = self._chain(place)
        return self._without(*chain[-1]) if chain and isinstance(chain[-1][0], yaml.MappingNode) else None

    def without_entry(self, place: Origin) -> TextSpan | None:
        """Without the entry of ``layer_swap`` or ``op_swap`` in which a place is; the only entry stays."""
        steps = [step for step in self._chain(place)[:4] if isinstance(step[0], yaml.SequenceNode)]
        return self._without(*steps[0]) if steps else None

    def _chain(self, place: Origin) -> Chain:
        """The way from the top to what starts at a place; of several such things the outermost."""
        return self._chains.get((place.line, place.column), ())

    @cached_property
    def _chains(self) -> dict[tuple[int, int], Chain]:
        """Every way, by the line and column of what it leads to."""
        found: dict[tuple[int, int], Chain] = {}
        ways: list[tuple[yaml.Node | None, Chain]] = [(self.root, ())]
        seen: set[int] = set()  # ids, as an alias is the very node of its anchor, and nodes that look alike are not
        while ways:
            node, way = ways.pop()
            if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
                continue
            seen.add(id(node))
            for index, child in enumerate(node.value):
                parts = child if isinstance(node, yaml.MappingNode) else (child,)
                here = (*way, (node, index))
                for part in parts:
                    found.setdefault(_place(part), here)
                ways.append((parts[-1], here))
        return found

    @staticmethod
    def _node(chain: Chain, place: Origin) -> yaml.Node | None:
        if not chain:
            return None
        parent, index = chain[-1]
        parts = parent.value[index] if isinstance(parent, yaml.MappingNode) else (parent.value[index],)
        return next((part for part in parts if _stands_at(part, place)), None)

    def _without(self, parent: yaml.CollectionNode, index: int) -> TextSpan | None:
        ends = [
            (_start(child[0]), _end(child[1])) if isinstance(parent, yaml.MappingNode) else (_start(child), _end(child))
            for child in parent.value
        ]
        if len(ends) == 1:
            return None
        start, end = ends[index]
        if parent.flow_style:
            return TextSpan(start, ends[index + 1][0]) if index + 1 < len(ends) else TextSpan(ends[index - 1][1], end)
        return self._lines(start, end, _BEFORE_KEY if isinstance(parent, yaml.MappingNode) else _BEFORE_ITEM)

    def _lines(self, start: int, end: int, before: re.Pattern[str]) -> TextSpan | None:
        """Whole lines, if nothing else stands on them."""
        line = max(self.text.rfind("\n", 0, start), self.text.rfind("\r", 0, start)) + 1
        rest = _REST.match(self.text, end)
        return TextSpan(line, rest.end()) if rest and before.fullmatch(self.text, line, start) else None


def _start(node: yaml.Node) -> int:
    return int(node.start_mark.index)


def _end(node: yaml.Node) -> int:
    """Where the last character of a value is; the mark of a block ends only before whatever comes next."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    return int(node.end_mark.index)


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _stands_at(node: yaml.Node, place: Origin) -> bool:
    return _place(node) == (place.line, place.column)
