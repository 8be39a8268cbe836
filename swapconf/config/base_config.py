"""DOCUMENT -> DOCUMENT: a training YAML with the files that its `base_config` names, as mindformers merges them.

Of several files, a later one replaces whole sections of an earlier one; the YAML itself is merged into what they give,
mapping by mapping, and wins. A relative path means the folder of the file that names it, and an included file may
include others. So it is from mindformers 0.3.0 to 2.1.0 (``MindFormerConfig._file2dict`` and ``_merge_a_into_b`` in
tools/register/config.py); PyNative training of 2.0 and 2.1 reads one file, and stops at the key
(``BaseConfig.from_dict`` in pynative/config/config.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from swapconf.config.config import Dialect
from swapconf.config.dialects import dialect_of
from swapconf.config.meant import meant
from swapconf.config.nodes import Document, Entry, Included, Node
from swapconf.config.remedies import describe
from swapconf.config.yaml_document import parse, read_text
from swapconf.words.findings import Finding, Severity, SwapconfError
from swapconf.words.phrases import phrase

Reader: TypeAlias = Callable[[str], str]

KEY = "base_config"
RULE = "base-config"
_MAX_FILES = 64  # however they include each other; mindformers of 2023 named eight in one YAML
_MAX_LEVELS = 16
_MAX_CHARACTERS = 400_000  # together; each file has the bounds of any YAML
_SUFFIXES = (".yaml", ".yml")


def of_file(path: str | Path) -> Document:
    """The document in a file, with what it includes. Raises SwapconfError when the file itself cannot be read."""
    return of_text(read_text(path), str(path))


def of_text(text: str, file: str, read: Reader = read_text) -> Document:
    """The same for a text at hand. ``read``: gives the text of an included file, or raises SwapconfError."""
    return followed(parse(text, file), read)


def followed(document: Document, read: Reader = read_text) -> Document:
    """The document with the values of what it includes, each with its place; itself where it includes nothing.

    What cannot be included becomes a finding, where it is named.
    """
    named = document.root.entries.get(KEY)
    odd = tuple(_elsewhere(document)) if "base" in document.text else ()
    if named is None:
        return replace(document, findings=(*document.findings, *odd)) if odd else document
    reader = _Reader(read)
    root = reader.merged(document, (os.path.realpath(document.file),))
    whole = replace(document, root=root, included=tuple(reader.included.values()))
    if dialect_of(whole, legacy=False) is Dialect.PYNATIVE:
        reader.findings.append(_pynative(document, named))
    return replace(whole, findings=(*document.findings, *odd, *reader.findings))


class _Reader:
    """Reads the files, each time that one is named, as mindformers does."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._files = _MAX_FILES
        self._characters = _MAX_CHARACTERS
        self.findings: list[Finding] = []
        self.included: dict[str, Included] = {}

    def merged(self, document: Document, above: tuple[str, ...]) -> Node:
        """``above``: the files that led here, this one last, by their true paths."""
        own = {key: entry for key, entry in document.root.entries.items() if key != KEY}
        named = document.root.entries.get(KEY)
        entries: dict[str, Entry] = {}
        if named is not None:
            items = named.value.items if named.value.kind == "list" else (named.value,)
            for index, item in enumerate(items):
                path = f"{KEY}[{index}]" if named.value.kind == "list" else KEY
                entries.update(self._entries(document, item, path, above))
        return replace(document.root, entries=self._over(document, own, entries, ""))

    def _entries(self, document: Document, item: Node, path: str, above: tuple[str, ...]) -> dict[str, Entry]:
        """What one named file gives."""
        name = item.scalar
        if not isinstance(name, str) or not name or "\0" in name:
            expected = phrase("expected the path of a YAML file, found {found}", found=describe(item))
            return self._told(document, item, path, expected, phrase("name a file, or a list of files"))
        file = os.path.join(os.path.dirname(document.file), name)
        if os.pardir not in file.split(os.sep):  # behind a link, `..` may be another folder than it seems
            file = os.path.normpath(file)
        true = os.path.realpath(file)
        if true in above:
            endless = phrase("{file} includes itself, so that mindformers never comes to an end", file=file)
            return self._told(document, item, path, endless, phrase("take it out of one of the files"))
        self._files -= 1
        if self._files < 0 or len(above) > _MAX_LEVELS:
            return self._too_much(document, item, path)
        try:
            text = self._read(file)
        except SwapconfError as error:
            missing = phrase("{file} cannot be included: {reason}", file=file, reason=error.findings[0].message)
            hint = phrase("correct the path; a relative one means the folder of this file")
            return self._told(document, item, path, missing, hint)
        self._characters -= len(text)
        if self._characters < 0:
            return self._too_much(document, item, path)
        self.included[file] = Included(file, text)
        try:
            found = parse(text, file)
        except SwapconfError as error:
            self.findings.extend(error.findings)
            return {}
        self.findings.extend(found.findings)
        return self.merged(found, (*above, true)).entries

    def _over(self, document: Document, own: dict[str, Entry], below: dict[str, Entry], path: str) -> dict[str, Entry]:
        """Mappings in both are merged, else the document's own value counts."""
        entries = dict(below)
        for key, entry in own.items():
            here = f"{path}.{key}" if path else key
            base = below.get(key)
            entries[key] = entry
            if base is None or entry.value.kind != "mapping":
                continue
            if base.value.kind == "list" and not entry.value.entries:
                entries[key] = base
            elif base.value.kind == "mapping":
                inner = self._over(document, entry.value.entries, base.value.entries, here)
                entries[key] = replace(entry, value=replace(entry.value, entries=inner))
            elif base.value.kind == "list" or base.value.scalar is not None:
                self._clash(document, entry, base, here)
        return entries

    def _clash(self, document: Document, entry: Entry, base: Entry, path: str) -> None:
        """Source: ``_merge_a_into_b`` copies what stands below as a dict."""
        self.findings.append(
            Finding(
                origin=document.key_origin(entry, path),
                rule=RULE,
                severity=Severity.ERROR,
                message=phrase(
                    "mindformers stops: `{key}` is a section here, and {found} in line {line} of {file}",
                    key=path,
                    found=describe(base.value),
                    line=base.line,
                    file=base.file,
                ),
                hint=phrase("make it a section there, too, or leave it out there"),
            )
        )

    def _too_much(self, document: Document, item: Node, path: str) -> dict[str, Entry]:
        bounds = phrase(
            "too much is included: {files} files, {levels} levels and {size:,} characters are read at most",
            files=_MAX_FILES,
            levels=_MAX_LEVELS,
            size=_MAX_CHARACTERS,
        )
        return self._told(document, item, path, bounds, phrase("join some of them"))

    def _told(self, document: Document, item: Node, path: str, message: str, hint: str) -> dict[str, Entry]:
        self.findings.append(
            Finding(origin=document.origin(item, path), rule=RULE, severity=Severity.ERROR, message=message, hint=hint)
        )
        return {}


def _elsewhere(document: Document) -> Iterator[Finding]:
    """Files that are named where, or as, mindformers does not look for them."""
    for key, entry in document.root.entries.items():
        if key != KEY and _names_files(entry.value) and meant(key, (KEY,)):
            yield Finding(
                origin=document.key_origin(entry, key),
                rule="unknown-section",
                severity=Severity.ERROR,
                message=phrase("nothing reads `{key}`, so that its files are not included", key=key),
                hint=phrase("`{name}` was probably meant; rename it", name=KEY),
            )
        for inner in entry.value.entries.values():
            if inner.key == KEY and _names_files(inner.value):
                yield Finding(
                    origin=document.key_origin(inner, f"{key}.{KEY}"),
                    rule="section-misplaced",
                    severity=Severity.WARNING,
                    message=phrase("mindformers follows `{key}` at the top level only", key=KEY),
                    hint=phrase("move it to the top level of the YAML"),
                )


def _names_files(node: Node) -> bool:
    names = [item.scalar for item in (node.items if node.kind == "list" else (node,))]
    return bool(names) and all(isinstance(name, str) and name.endswith(_SUFFIXES) for name in names)


def _pynative(document: Document, named: Entry) -> Finding:
    return Finding(
        origin=document.key_origin(named, KEY),
        rule=RULE,
        severity=Severity.ERROR,
        message=phrase("PyNative training reads one file: it stops at `base_config`"),
        hint=phrase("write the sections of the included files into this one"),
    )
