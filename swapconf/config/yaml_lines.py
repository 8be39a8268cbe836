"""TEXT -> LINES: where an entry of a YAML file stands, its comments, and its lines at another indentation.

A migration changes lines of a few entries and leaves every other byte alone. (A round trip through ruamel.yaml 0.19
does not: it changed lines outside these sections in 30 of the 30 training YAMLs that mindformers r1.8.0 ships.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from swapconf.config.nodes import Entry


@dataclass(frozen=True, slots=True)
class LineSpan:
    """Lines ``first`` up to, not including, ``end``, counted from 0; the key stands in line ``key``, and before it
    the comments that belong to it."""

    first: int
    key: int
    end: int


def split(text: str) -> list[str]:
    """Lines with their ends; only line feeds end a line, as an editor counts them."""
    lines = text.split("\n")
    kept = [f"{line}\n" for line in lines[:-1]]
    return [*kept, lines[-1]] if lines[-1] else kept


def span(lines: Sequence[str], entry: Entry) -> LineSpan:
    """The lines of a ``key: value`` in block style: its own, and all that are indented deeper.

    Comments right above it, at its own column, belong to it; blank lines and comments behind it that are not indented
    deeper belong to what follows.
    """
    key, column = entry.line - 1, entry.column - 1
    first, end = key, key + 1
    while first and lines[first - 1].startswith(" " * column + "#"):
        first -= 1
    for index in range(key + 1, len(lines)):
        text = lines[index].strip()
        deeper = _indent(lines[index]) > column
        if text and not text.startswith("#") and not deeper and not _item_of(lines[index], column):
            break
        if text and (deeper or not text.startswith("#")):
            end = index + 1
    return LineSpan(first, key, end)


def starts_line(lines: Sequence[str], entry: Entry) -> bool:
    """Whether nothing stands before the key; in a flow mapping (`{a: 1, b: 2}`) something does."""
    return not lines[entry.line - 1][: entry.column - 1].strip()


def has_block_value(entry: Entry) -> bool:
    """Whether the value is a mapping that begins below its key."""
    return entry.value.kind == "mapping" and bool(entry.value.entries) and entry.value.line > entry.line


def at_column(lines: Iterable[str], column: int, wanted: int) -> list[str]:
    """Lines whose outermost ones stand at ``column``, moved to ``wanted`` (both from 0)."""
    return [
        line if not line.strip() else " " * max(_indent(line) + wanted - column, 0) + line.lstrip(" ") for line in lines
    ]


def comments(lines: Iterable[str]) -> Iterator[str]:
    """The comments in these lines, each from its ``#`` on."""
    for line in lines:
        quote = ""
        for index, char in enumerate(line):
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"" and (index == 0 or line[index - 1] in " [{,:("):
                quote = char
            elif char == "#" and (index == 0 or line[index - 1] in " \t"):
                yield line[index:].rstrip()
                break


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _item_of(line: str, column: int) -> bool:
    """A list may stand at the column of its key."""
    return _indent(line) == column and line.lstrip().startswith("- ")
