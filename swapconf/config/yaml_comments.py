"""TEXT -> COMMENTS: the comments of a YAML, which its parser drops, and one more; a ``#`` inside a value is none."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from swapconf.config.spans import SourceText, TextSpan, applied
from swapconf.config.yaml_document import Loader

_HASH = re.compile(r"(?<![^\s])#[^\r\n\x85\u2028\u2029]*")
_BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")  # what YAML 1.1 ends a line with


@dataclass(frozen=True, kw_only=True, slots=True)
class Comment:
    """``text`` from its ``#`` on, and its place from 1. ``about``: the line it stands on, or, where it has that line
    to itself, the next line that is neither empty nor a comment."""

    text: str
    line: int
    column: int
    about: int


def comments(text: str) -> tuple[Comment, ...]:
    """Every comment of a YAML that can be parsed."""
    spans = [
        (event.start_mark.index, event.end_mark.index)
        for event in yaml.parse(text, Loader=Loader)
        if isinstance(event, yaml.ScalarEvent) and event.start_mark and event.end_mark
    ]
    starts = [0, *(match.end() for match in _BREAK.finditer(text))]
    begins = [begin for begin, _ in spans]
    return tuple(_comment(text, match, starts) for match in _outside(text, begins, spans))


def with_comment(text: str, line: int | None, comment: str, *, mark: str) -> str:
    """The text with ``# comment`` above a line (from 1), indented as that is, and without every other such line that
    begins with ``mark``; with no line, only without those."""
    source = SourceText(text)
    starts = {source.at(said.line, said.column): said.text for said in comments(text)}
    spans = [
        TextSpan(source.line_start(index), source.next_line(index))
        for index, said in starts.items()
        if said.startswith(f"# {mark}") and source.begins_line(index)
    ]
    if line is not None:
        start = source.at(line, 1)
        indent = text[start : start + len(text[start:]) - len(text[start:].lstrip(" "))]
        spans.append(TextSpan(start, start, f"{indent}# {comment}{source.line_break}"))
    return applied(text, spans)


def _outside(text: str, begins: list[int], spans: list[tuple[int, int]]) -> Iterator[re.Match[str]]:
    """Matches that start in no scalar; what starts in one may hide a comment behind it."""
    position = 0
    while match := _HASH.search(text, position):
        around = bisect_right(begins, match.start()) - 1
        inside = around >= 0 and match.start() < spans[around][1]
        if not inside:
            yield match
        position = spans[around][1] if inside else match.end()


def _comment(text: str, match: re.Match[str], starts: list[int]) -> Comment:
    line = bisect_right(starts, match.start())
    column = match.start() - starts[line - 1] + 1
    alone = not text[starts[line - 1] : match.start()].strip()
    return Comment(text=match.group(), line=line, column=column, about=_below(text, starts, line) if alone else line)


def _below(text: str, starts: list[int], line: int) -> int:
    for number in range(line + 1, len(starts) + 1):
        end = starts[number] if number < len(starts) else len(text)
        content = text[starts[number - 1] : end].strip()
        if content and not content.startswith("#"):
            return number
    return line
