#!/usr/bin/env python3
"""Bring swapconf/locale up to date with the phrases and help texts in the code: collect them, keep what is
translated, compile.

    python scripts/build_translations.py

Prints what is not translated yet; write that into the .po file and run it again.
"""

import io
import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

import click
from babel.messages import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from swapconf.cli import help as helping
from swapconf.cli.main import COMMANDS
from swapconf.cli.main import main as swapconf

ROOT = Path(__file__).resolve().parents[1]
LOCALE = ROOT / "swapconf" / "words" / "locale"
KEYWORDS = {"phrase": None, "mark": None, "plural": (2, 3)}
_CHANGING = (
    '"Project-Id',
    '"Report-Msgid',
    '"POT-Creation-Date',
    '"PO-Revision-Date',
    '"Last-Translator',
    '"Language-Team',
    '"Generated-By',
)  # of the header: would differ from one build to the next
_NO_DATE = datetime(2026, 1, 1, tzinfo=timezone.utc)
HEAD = "# Messages of swapconf. Made by scripts/build_translations.py; write translations here and run it again."


def help_texts() -> Iterator[tuple[str, str]]:
    """(text, file) of the helps: no templates, so a brace in them is only a brace."""
    root = click.Context(swapconf)
    commands = {name: swapconf.get_command(root, name) for name in COMMANDS} | {"main": swapconf}
    for name, command in commands.items():
        assert command is not None
        for text in helping.texts(command):
            yield text, f"swapconf/cli/{name}.py"


def collected() -> Catalog:
    """A catalogue of every phrase in the code and in the templates of pages, without translations."""
    found = Catalog(project="swapconf", header_comment=HEAD)
    methods: list[tuple[str, Any]] = [("**.py", "python"), ("**.schema.json", expectations), ("**.j2", "jinja2")]
    loud = {"**.j2": {"silent": "false"}}  # else jinja passes over a template that it cannot read
    for file, _, message, _, _ in extract_from_dir(
        ROOT / "swapconf", method_map=methods, options_map=loud, keywords=KEYWORDS
    ):
        found.add(message, locations=[(f"swapconf/{file}", 0)])
    for text, file in help_texts():
        found.add(text, locations=[(file, 0)])
    return found


def expectations(
    stream: BinaryIO, _keywords: Any, _tags: Any, options: Any
) -> Iterator[tuple[int, None, str, list[str]]]:
    """Babel's extraction from a schema: what a value is expected to be, which findings quote."""
    for line, text in enumerate(stream, start=1):
        for found in re.findall(r'"x-expected": ("(?:[^"\\]|\\.)*")', text.decode()):
            yield line, None, json.loads(found), []


def place(language: str) -> Path:
    """The .po file of a language; its .mo stands beside it."""
    return LOCALE / language / "LC_MESSAGES" / "swapconf.po"


def translated(language: str) -> Catalog:
    """The catalogue of a language as its .po file has it."""
    return _read(place(language).read_bytes(), language)


def _read(po: bytes, language: str) -> Catalog:
    found = read_po(io.BytesIO(po), locale=language)
    found.creation_date = found.revision_date = _NO_DATE
    return found


def renewed(language: str) -> Catalog:
    """The phrases of the code with the translations that there are, in the order of the texts."""
    old, new = translated(language), Catalog(locale=language, project="swapconf", header_comment=HEAD, fuzzy=False)
    for message in sorted(collected(), key=lambda message: str(message.id)):
        if message.id:
            known = old.get(message.id)
            new.add(message.id, known.string if known else None, locations=sorted(set(message.locations)))
    return new


def as_po(catalogue: Catalog) -> str:
    stream = io.BytesIO()
    write_po(stream, catalogue, width=120, omit_header=False, include_lineno=False)
    lines = stream.getvalue().decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_CHANGING))


class _OfAnyBabel(Catalog):
    """A catalogue whose header does not tell which version of Babel wrote it."""

    def __iter__(self) -> Iterator[Message]:
        for message in super().__iter__():
            if not message.id:
                message.string = re.sub("Generated-By: .*\n?", "", str(message.string))
            yield message


def as_mo(catalogue: Catalog) -> bytes:
    stream, lasting = io.BytesIO(), _OfAnyBabel(locale=catalogue.locale, fuzzy=False)
    lasting.creation_date = lasting.revision_date = _NO_DATE
    for message in catalogue:
        if message.id:
            lasting.add(message.id, message.string)
    write_mo(stream, lasting)
    return stream.getvalue()


def missing(catalogue: Catalog) -> list[Any]:
    """The phrases without a translation."""
    return [
        message.id
        for message in catalogue
        if message.id and not any([message.string] if isinstance(message.string, str) else message.string or ())
    ]


def languages() -> list[str]:
    return sorted(file.parts[-3] for file in LOCALE.glob("*/LC_MESSAGES/swapconf.po"))


def files() -> Iterator[tuple[Path, bytes]]:
    """Each .po and .mo file, and what it has to hold."""
    for language in languages():
        po = as_po(renewed(language)).encode()
        yield place(language), po
        yield place(language).with_suffix(".mo"), as_mo(_read(po, language))


def untranslated() -> Iterator[tuple[str, Any]]:
    """(language, phrase)"""
    for language in languages():
        yield from ((language, text) for text in missing(renewed(language)))


def main() -> None:
    for file, content in files():
        file.write_bytes(content)
    for language, text in untranslated():
        print(f"{language}: not translated: {text!r}")


if __name__ == "__main__":
    main()
