"""TEXT -> ASCII: characters that look like one of ASCII and are none, as a Chinese input method or a paste leaves them.

Full-width forms (U+FF01 to U+FF5E) and the ideographic full stop and comma come from input methods, typographic quotes
and no-break spaces from documents, Cyrillic and Greek letters from other keyboards.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from swapconf.words.phrases import joined, phrase

_LETTERS = {
    "а": "a",
    "А": "A",
    "В": "B",
    "с": "c",
    "С": "C",
    "е": "e",
    "Е": "E",
    "Н": "H",
    "і": "i",
    "І": "I",
    "ј": "j",
    "К": "K",
    "М": "M",
    "о": "o",
    "О": "O",
    "р": "p",
    "Р": "P",
    "ѕ": "s",
    "Т": "T",
    "х": "x",
    "Х": "X",
    "у": "y",
    "ԁ": "d",
    "ո": "n",
    "ԝ": "w",
    "һ": "h",
    "ӏ": "l",
    "α": "a",
    "Α": "A",
    "Β": "B",
    "Ε": "E",
    "Η": "H",
    "Ι": "I",
    "Κ": "K",
    "Μ": "M",
    "Ν": "N",
    "ν": "v",
    "ο": "o",
    "Ο": "O",
    "ρ": "p",
    "Ρ": "P",
    "Τ": "T",
    "Χ": "X",
    "Ζ": "Z",
}
_MARKS = {
    "“": '"',
    "”": '"',
    "„": '"',
    "«": '"',
    "»": '"',
    "‘": "'",
    "’": "'",
    "´": "'",
    "、": ",",
    "。": ".",
    "–": "-",
    "—": "-",
    "−": "-",
    "‐": "-",
    "＼": "\\",
}
_SPACES = {"\u3000": " ", "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u2003": " ", "\u2002": " ", "\u2009": " "}
_NOTHING = ("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff")  # no width at all
_ASCII = {
    **_LETTERS,
    **_MARKS,
    **_SPACES,
    **dict.fromkeys(_NOTHING, ""),
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
}
_TABLE = str.maketrans(_ASCII)


def in_ascii(text: str) -> str:
    """The text as it looks, in ASCII where a character is a lookalike."""
    return text if text.isascii() else text.translate(_TABLE)


def strangers(text: str) -> tuple[str, ...]:
    """The lookalikes in a text, each once, in order."""
    return () if text.isascii() else tuple(dict.fromkeys(char for char in text if char in _ASCII))


def indented_by(text: str) -> str:
    """The first space that YAML does not take for one, in front of a key; "" where there is none."""
    return next((char for char in text[: len(text) - len(text.lstrip())] if char in _SPACES), "")


def told(text: str) -> str:
    """What is strange about the characters of a text, in words; "" if nothing is."""
    return joined("; ", _told(strangers(text))) if strangers(text) else ""


def _told(chars: tuple[str, ...]) -> Iterator[str]:
    for char in chars[:3]:
        name, code = unicodedata.name(char, "?"), f"U+{ord(char):04X}"
        if char in _SPACES:
            yield phrase("it has {code} ({name}), which is no space to YAML", code=code, name=name)
        elif char in _NOTHING:
            yield phrase("it has {code} ({name}), which nobody sees", code=code, name=name)
        else:
            yield phrase(
                "its `{char}` is {code} ({name}), not the ASCII `{ascii}`",
                char=char,
                code=code,
                name=name,
                ascii=_ASCII[char],
            )
