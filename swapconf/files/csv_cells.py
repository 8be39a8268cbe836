"""NAME -> CELL: a name from a trace in a table that a spreadsheet may open."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet compute (OWASP, CSV Injection)


def cell(name: str) -> str:
    """The name as text: one that a spreadsheet would compute gets a quote in front, and what is not printable is
    spelled out. Names that MindSpore gives begin with a letter, and stay as they are."""
    text = name
    if not name.isprintable():
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)
    return f"'{text}" if name.startswith(_FORMULA) else text
