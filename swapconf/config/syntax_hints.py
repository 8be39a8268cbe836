"""SYNTAX ERROR -> HINT: what was probably meant on a line that is no YAML: a backslash in double quotes, lookalikes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from swapconf.words.lookalikes import strangers, told
from swapconf.words.phrases import phrase

_QUOTED = re.compile(r'"([^"]*)"')
_COMMENT = re.compile(r"(^|\s)#.*$")
_LONGEST = 80  # of a text that a hint repeats


def of(problem: str, places: Sequence[tuple[int, int]], text: str) -> tuple[int, int, str]:
    """Line and column to point at, and what to do there. ``places``: those the parser names, the worst first."""
    lines = text.splitlines()
    line, column = places[0]
    written = lines[line - 1] if 0 < line <= len(lines) else ""
    if problem.startswith("found unknown escape character"):
        quoted = next((match for match in _QUOTED.finditer(written) if match.start() < column <= match.end()), None)
        if quoted is not None and len(quoted[1]) <= _LONGEST and "'" not in quoted[1]:
            return (
                line,
                quoted.start() + 1,
                phrase(
                    "in double quotes a backslash begins an escape; write it in single quotes: '{text}'", text=quoted[1]
                ),
            )
        return line, column, phrase("in double quotes a backslash begins an escape; use single quotes")
    for number in _around(places, len(lines)):
        indent = lines[number - 1][: -len(lines[number - 1].lstrip()) or None]
        if "\t" in indent:
            return number, indent.index("\t") + 1, phrase("a tab indents this line; YAML takes spaces only")
        bare = _COMMENT.sub("", lines[number - 1])
        if strangers(bare):
            first = min(bare.index(char) for char in strangers(bare))
            return number, first + 1, phrase("{strange}; write it in ASCII", strange=told(bare))
    opened = places[-1]
    if problem.startswith("did not find expected ',' or ") and opened[0] < line:
        return *opened, phrase("this bracket is not closed before line {line}; close it", line=line)
    return line, column, phrase("check indentation (spaces only), colons, quotes and brackets here")


def _around(places: Sequence[tuple[int, int]], count: int) -> list[int]:
    """The lines that the parser names, and those before them, where what it missed may stand."""
    near = [number for line, _ in places for number in (line, line - 1)]
    return [number for number in dict.fromkeys(near) if 0 < number <= count]
