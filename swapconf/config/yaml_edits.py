"""TEXT + KEYS -> TEXT: some keys of one mapping of a YAML get other values, come or go; every other byte stays.

A value is replaced where it stands, in the style of the mapping around it. Comments that stood inside of it come above
its key; one behind the key stays there. Places are those of the parser, so that quoted keys, tabs, line ends of Windows
and a last line without an end are as they were.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

from swapconf.config.rewriting import CannotRewrite
from swapconf.config.spans import SourceText, TextSpan, applied
from swapconf.config.yaml_comments import comments
from swapconf.config.yaml_lines import at_column
from swapconf.config.yaml_text import dump, dump_inline
from swapconf.words.phrases import phrase

_COLON = re.compile(r"[ \t]*:(?=[ \t\r\n\x85\u2028\u2029]|\Z)")
_ANCHOR = re.compile(r"&[^\s,\[\]{}]+[ \t]+")
_JSON_COLON = re.compile(r"[ \t]*:")  # in flow style, behind a quoted key


def with_keys(
    text: str, path: Sequence[str], new: Mapping[str, Any], gone: Collection[str] = (), *, beside: Collection[str] = ()
) -> str:
    """The text where the mapping at ``path`` has the ``new`` keys, and none of those that are ``gone``.

    A mapping that is missing, or an empty value in its place, is written in block style; what is not there yet comes
    behind the last of its kind, that is of ``new`` and ``beside``, else behind all others. Raises CannotRewrite.
    """
    return _Editor(text).edited(path, new, gone, {*new, *beside})


@dataclass(frozen=True, slots=True)
class _Child:
    """``key: value`` of a mapping, by the parser's nodes. ``colon``: the character behind the colon."""

    name: str
    key: yaml.Node
    value: yaml.Node
    colon: int

    @property
    def is_alias(self) -> bool:
        """An alias is the very node of its anchor, which stands before it."""
        return bool(self.value.start_mark.index < self.key.start_mark.index)


class _Editor:
    def __init__(self, text: str) -> None:
        self.text = text
        self.source = SourceText(text)
        self.eol = self.source.line_break
        self.comments = [(self.source.at(comment.line, comment.column), comment.text) for comment in comments(text)]

    # --- finding ----------------------------------------------------------------------------------------------------

    def edited(self, path: Sequence[str], new: Mapping[str, Any], gone: Collection[str], kind: set[str]) -> str:
        node, rest = self._descended(path)
        if not new and not gone:
            return self.text
        if rest:
            for name in reversed(rest):
                new = {name: dict(new)}
            gone = ()
        return applied(self.text, self._spans(node, new, gone, kind))

    def _descended(self, path: Sequence[str]) -> tuple[yaml.MappingNode, list[str]]:
        """The innermost mapping on a path, and the names of those that are missing in it."""
        node, rest = self._mapping(self.source.root, "."), list(path)
        while rest:
            child = self._child(node, rest[0])
            if child is None or _is_null(child.value):
                break
            if child.is_alias:
                raise _shared(child)
            node = self._mapping(child.value, ".".join(path))
            rest.pop(0)
        return node, rest

    @staticmethod
    def _mapping(node: yaml.Node | None, name: str) -> yaml.MappingNode:
        if not isinstance(node, yaml.MappingNode):
            raise CannotRewrite(
                phrase("`{path}` is no mapping", path=name), phrase("write its keys below it, one a line")
            )
        return node

    def _child(self, node: yaml.MappingNode, name: str) -> _Child | None:
        found = [child for child in self._children(node) if child.name == name]
        if found[1:]:
            raise CannotRewrite(phrase("the key `{key}` stands twice", key=name), phrase("keep one of the two"))
        return found[0] if found else None

    def _children(self, node: yaml.MappingNode) -> list[_Child]:
        return [_Child(str(key.value), key, value, self._behind_colon(node, key)) for key, value in node.value]

    def _behind_colon(self, node: yaml.MappingNode, key: yaml.Node) -> int:
        """-1 where the key is none of `key: value` on one line."""
        pattern = _JSON_COLON if node.flow_style else _COLON
        found = pattern.match(self.text, key.end_mark.index) if isinstance(key, yaml.ScalarNode) else None
        return found.end() if found else -1

    # --- editing ----------------------------------------------------------------------------------------------------

    def _spans(
        self, node: yaml.MappingNode, new: Mapping[str, Any], gone: Collection[str], kind: set[str]
    ) -> list[TextSpan]:
        here = {name: child for name in (*new, *gone) if (child := self._child(node, name)) is not None}
        for child in here.values():
            self._checked(node, child)
        removed = [child for child in self._children(node) if child.name in gone and child.name in here]
        missing = {name: value for name, value in new.items() if name not in here}
        if node.flow_style:
            return self._in_flow(node, {name: new[name] for name in new if name in here}, removed, missing)
        spans = [span for name in new if name in here for span in self._replaced(here[name], new[name])]
        spans += [span for child in removed for span in self._removed(child)]
        return [*spans, *self._inserted(node, missing, removed, kind)]

    def _checked(self, node: yaml.MappingNode, child: _Child) -> None:
        """Raises CannotRewrite where the value of a key cannot be replaced."""
        if child.is_alias:
            raise _shared(child)
        if child.colon < 0 or not (node.flow_style or self._starts_line(child)):
            line = child.key.start_mark.line + 1
            raise CannotRewrite(
                phrase("line {line}: `{key}` stands inside another line", line=line, key=child.name),
                phrase("give it a line of its own"),
            )

    def _starts_line(self, child: _Child) -> bool:
        at = child.key.start_mark.index
        return not self.text[self.source.line_start(at) : at].strip(" ")

    def _replaced(self, child: _Child, value: Any) -> list[TextSpan]:
        """In block style: what is behind the colon becomes another value."""
        start, column = child.value.start_mark.index, child.key.start_mark.column
        lines = at_column(dump({"_": value}).splitlines(), 0, column)
        first, below = lines[0].strip()[2:], lines[1:]  # behind the colon; on lines of their own
        if _is_block(child.value):
            end = self.source.line_end(self.content_end(child.value))
            line_end = self.source.line_end(child.colon)
            tail = _in_column(self._tail(child.colon, line_end), len(first))
            inside = self._said(line_end, end)
        else:
            end = child.value.end_mark.index
            inside = self._said(child.colon, end)
            last = self.source.line_end(end)
            if not below and start > child.colon:
                first = self.text[child.colon : start] + self._anchor(child.value) + first.lstrip()
            tail = _in_column(self.text[end:last], len(first) - (end - max(child.colon, self.source.line_start(end))))
            end = last
        made = [first, *below]
        made[-1 if first else 0] += tail
        return [*self._hoisted(child, inside), TextSpan(child.colon, end, self.eol.join(made).rstrip(" "))]

    def _anchor(self, value: yaml.Node) -> str:
        """The anchor before a value, which others may ask for."""
        found = _ANCHOR.match(self.text, value.start_mark.index)
        return found[0] if found else ""

    def _tail(self, start: int, end: int) -> str:
        """The comment between two places of a line, with the blanks before it; no anchor, no tag."""
        said = [index for index, _ in self.comments if start <= index < end]
        if not said:
            return ""
        blank = said[0]
        while blank > start and self.text[blank - 1] in " \t":
            blank -= 1
        return self.text[blank:end]

    def _removed(self, child: _Child) -> list[TextSpan]:
        """In block style: the lines of a key; the comments on them stay, each on a line of its own."""
        start = self.source.line_start(child.key.start_mark.index)
        end = self.source.line_end(self.content_end(child.value))
        kept = "".join(f"{' ' * child.key.start_mark.column}{said}{self.eol}" for said in self._said(start, end))
        after = self.source.next_line(end)
        if kept and after == end:
            kept = kept.removesuffix(self.eol)
        return [TextSpan(start, after, kept)]

    def _hoisted(self, child: _Child, said: Iterable[str]) -> list[TextSpan]:
        start = self.source.line_start(child.key.start_mark.index)
        indent = " " * child.key.start_mark.column
        kept = "".join(f"{indent}{comment}{self.eol}" for comment in said)
        return [TextSpan(start, start, kept)] if kept else []

    def _said(self, start: int, end: int) -> list[str]:
        """The comments that begin between two places."""
        return [said.rstrip() for index, said in self.comments if start <= index < end]

    def _inserted(
        self, node: yaml.MappingNode, missing: Mapping[str, Any], removed: Sequence[_Child], kind: set[str]
    ) -> list[TextSpan]:
        """In block style: keys that are not there yet, behind the last of their ``kind``, else behind all others."""
        if not missing:
            return []
        column = node.value[0][0].start_mark.column
        lines = at_column(dump(dict(missing)).splitlines(), 0, column)
        kept = [child for child in self._children(node) if child not in removed]
        if not kept:
            start = self.source.line_start(node.value[0][0].start_mark.index)
            return [TextSpan(start, start, "".join(f"{line}{self.eol}" for line in lines))]
        anchor = next((child for child in reversed(kept) if child.name in kind), kept[-1])
        end = self._end_with_comments(anchor, column)
        apart = [""] if node is self.source.root else []
        return [TextSpan(end, end, "".join(f"{self.eol}{line}" for line in (*apart, *lines)))]

    def _end_with_comments(self, child: _Child, column: int) -> int:
        """The end of the last line of a key, and of comments behind it that are indented deeper."""
        last = child.key.end_mark.index if child.is_alias else self.content_end(child.value)
        end = self.source.line_end(max(last, child.key.end_mark.index))
        alone = {self.source.line_start(index): index for index, _ in self.comments}
        reach = end
        while (start := self.source.next_line(reach)) > reach and start < len(self.text):
            at = alone.get(start)
            blank = not self.text[start : self.source.line_end(start)].strip()
            if not blank and (at is None or self.text[start:at].strip() or at - start <= column):
                break
            reach = self.source.line_end(start)
            end = end if blank else reach
        return end

    def content_end(self, node: yaml.Node) -> int:
        """Behind the last character of a value; the parser ends a block only where the next thing begins."""
        end = node.end_mark.index
        if not _is_block(node) and not (isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")):
            return int(end)
        said = {index: index + len(comment) for index, comment in self.comments}
        while True:
            stripped = node.start_mark.index + len(self.text[node.start_mark.index : end].rstrip())
            start = next((index for index, last in said.items() if last >= stripped > index), None)
            if (
                start is None
                or start <= node.start_mark.index
                or self.text[self.source.line_start(start) : start].strip()
            ):
                return int(stripped)
            end = start

    def _in_flow(
        self, node: yaml.MappingNode, changed: Mapping[str, Any], removed: Sequence[_Child], missing: Mapping[str, Any]
    ) -> list[TextSpan]:
        children = self._children(node)
        spans = []
        for child in children:
            if child.name in changed:
                start, end = child.value.start_mark.index, child.value.end_mark.index
                blank = " " if start == child.colon else ""
                said = self._anchor(child.value) + dump_inline(changed[child.name])
                spans.append(TextSpan(start, end, blank + said))
        kept = [child for child in children if child not in removed]
        new = ", ".join(f"{name}: {dump_inline(value)}" for name, value in missing.items())
        last = kept[-1].value.end_mark.index if kept else node.start_mark.index + 1
        if kept and kept[-1].is_alias:
            raise _shared(kept[-1])
        for child, following in pairwise(children):
            if child in removed and child.key.start_mark.index < last:
                spans.append(TextSpan(child.key.start_mark.index, following.key.start_mark.index))
        behind = children[-1].value.end_mark.index if children and children[-1] in removed else last
        spans.append(TextSpan(last, behind, (", " if kept and new else "") + new))
        for span in spans:
            if self._said(span.start, span.end):
                raise CannotRewrite(
                    phrase("a comment stands inside of what has to change"), phrase("give each key a line of its own")
                )
        return spans


def _in_column(tail: str, longer: int) -> str:
    """What is behind a value that is so much longer than before: a comment in a column stays in it."""
    said = tail.lstrip(" ")
    blanks = len(tail) - len(said)
    return " " * max(2, blanks - longer) + said if blanks > 1 and said.startswith("#") else tail


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and not node.flow_style


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _shared(child: _Child) -> CannotRewrite:
    return CannotRewrite(
        phrase("`{key}` is an alias of line {line}", key=child.name, line=child.value.start_mark.line + 1),
        phrase("write its value out"),
    )
