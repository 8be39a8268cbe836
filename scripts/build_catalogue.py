#!/usr/bin/env python3
"""Bring swapconf/locale up to date with the phrases and help texts in the code: collect them, keep what is
translated, compile.

    python scripts/build_catalogue.py

Prints what is not translated yet; write that into the .po file and run it again.
"""

import io
import json
import re
from datetime import datetime, timezone
from pathlib import Path

from babel.messages import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from swapconf.cli import help as helping
from swapconf.cli.main import COMMANDS
from swapconf.cli.main import main as swapconf

ROOT = Path(__file__).resolve().parents[1]
LOCALE = ROOT / "swapconf" / "locale"
KEYWORDS = {"phrase": None, "mark": None, "plural": (2, 3)}
_CHANGING = ('"Project-Id', '"Report-Msgid', '"POT-Creation-Date', '"PO-Revision-Date', '"Last-Translator',
             '"Language-Team', '"Generated-By')  # of the header: would differ from one build to the next
_NO_DATE = datetime(2026, 1, 1, tzinfo=timezone.utc)
HEAD = "# Messages of swapconf. Made by scripts/build_catalogue.py; write translations here and run it again."


def help_texts():
    """(text, file) of the helps: no templates, so a brace in them is only a brace."""
    commands = {name: swapconf.get_command(None, name) for name in COMMANDS} | {"main": swapconf}
    for name, command in commands.items():
        for text in helping.texts(command):
            yield text, f"swapconf/cli/{name}.py"


def collected():
    """A catalogue of every phrase in the code and in the templates of pages, without translations."""
    found = Catalog(project="swapconf", header_comment=HEAD)
    methods = [("**.py", "python"), ("**.schema.json", expectations), ("**.j2", "jinja2")]
    loud = {"**.j2": {"silent": "false"}}  # else jinja passes over a template that it cannot read
    for file, _, message, _, _ in extract_from_dir(ROOT / "swapconf", method_map=methods, options_map=loud,
                                                   keywords=KEYWORDS):
        found.add(message, locations=[(f"swapconf/{file}", 0)])
    for text, file in help_texts():
        found.add(text, locations=[(file, 0)])
    return found


def expectations(stream, _keywords, _tags, options):
    """Babel's extraction from a schema: what a value is expected to be, which findings quote."""
    for line, text in enumerate(stream, start=1):
        for found in re.findall(r'"x-expected": ("(?:[^"\\]|\\.)*")', text.decode()):
            yield line, None, json.loads(found), []


def place(language):
    """The .po file of a language; its .mo stands beside it."""
    return LOCALE / language / "LC_MESSAGES" / "swapconf.po"


def translated(language):
    """The catalogue of a language as its .po file has it."""
    file = place(language)
    if not file.exists():
        return Catalog(locale=language)
    with file.open("rb") as stream:
        found = read_po(stream, locale=language)
    found.creation_date = found.revision_date = _NO_DATE
    return found


def renewed(language):
    """The phrases of the code with the translations that there are, in the order of the texts."""
    old, new = translated(language), Catalog(locale=language, project="swapconf", header_comment=HEAD, fuzzy=False)
    for message in sorted(collected(), key=lambda message: str(message.id)):
        if message.id:
            known = old.get(message.id)
            new.add(message.id, known.string if known else None, locations=sorted(set(message.locations)))
    return new


def as_po(catalogue):
    stream = io.BytesIO()
    write_po(stream, catalogue, width=120, omit_header=False, include_lineno=False)
    lines = stream.getvalue().decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_CHANGING))


def as_mo(catalogue):
    stream = io.BytesIO()
    write_mo(stream, catalogue)
    return stream.getvalue()


def missing(catalogue):
    """The phrases without a translation."""
    return [message.id for message in catalogue if message.id and not any(
        [message.string] if isinstance(message.string, str) else message.string or ())]


def main():
    for file in sorted(LOCALE.glob("*/LC_MESSAGES/swapconf.po")):
        language = file.parts[-3]
        catalogue = renewed(language)
        file.write_text(as_po(catalogue), encoding="utf-8")
        file.with_suffix(".mo").write_bytes(as_mo(translated(language)))
        for message in missing(catalogue):
            print(f"{language}: not translated: {message!r}")


if __name__ == "__main__":
    main()
