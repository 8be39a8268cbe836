"""TOML -> SETTINGS: ``.swapconf.toml``, or ``[tool.swapconf]`` of pyproject.toml, and what is wrong in it."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from swapconf.files.opening import read_bytes
from swapconf.models import catalog, own_layers
from swapconf.models.own_layers import OwnLayers
from swapconf.study.pages import pages
from swapconf.upstream import dropped
from swapconf.upstream.dropped import MP_COMM
from swapconf.upstream.facts import Installed, Versions, installed
from swapconf.upstream.versions import BadVersion, checked
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

OFF = "off"
_MAX_BYTES = 2**20
_KEYS = ("severity", "families", "layers", "mindspore", "mindformers", "apply")
_FILES = (".swapconf.toml", "pyproject.toml")
_DECODE_LINE = r"at line (\d+), column (\d+)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a repository settles for its YAMLs, from ``.swapconf.toml`` or ``[tool.swapconf]`` of pyproject.toml.

    ``file``: where it is written, "" where nothing is settled. ``severity``: by rule, None for off. ``families``: by
    name of a model class of one's own, the catalog family whose layers it has; ``layers``: the folder of a run that has
    read them. ``mindspore``, ``mindformers``: versions
    to check for, None for what is installed here. ``apply``: keys of `recompute_config` that count although mindformers
    alone drops them (`upstream.dropped`).
    """

    file: str = ""
    severity: Mapping[str, Severity | None] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    layers: Mapping[str, str] = field(default_factory=dict)
    mindspore: str | None = None
    mindformers: str | None = None
    apply: frozenset[str] = frozenset()

    def versions(
        self, mindspore: str | None = None, mindformers: str | None = None, here: Installed | None = None
    ) -> Versions:
        """The versions to check for; those that are given win over the settings, these over what is installed
        (``here``, where it was looked up before)."""
        return Versions.among(
            installed() if here is None else here, mindspore or self.mindspore, mindformers or self.mindformers
        )

    def layers_of(self, classes: Iterable[str]) -> OwnLayers | None:
        """Those of the first of these model classes that a run has read."""
        folder = next((self.layers[name] for name in classes if name in self.layers), None)
        return None if folder is None else own_layers.read(Path(folder))


NONE = Settings()


def settings_of(file: str) -> tuple[Settings, tuple[Finding, ...]]:
    """The settings that hold for a YAML, and what is wrong with them."""
    return settings_in(os.path.dirname(os.path.abspath(file)))


def settings_in(folder: str) -> tuple[Settings, tuple[Finding, ...]]:
    """The settings that hold in a folder, and what is wrong with them."""
    found = find(Path(folder))
    return (NONE, ()) if found is None else read(found, pages(), catalog.families())


def find(folder: Path) -> Path | None:
    """The settings file that holds in a folder: the nearest one upwards; ``.swapconf.toml`` before pyproject.toml."""
    for parent in (folder, *folder.parents):
        for name in _FILES:
            file = parent / name
            if file.is_file() and (name != "pyproject.toml" or _mentions_us(file)):
                return file
    return None


def _mentions_us(file: Path) -> bool:
    try:
        return (
            re.search(rb"^\s*\[\s*tool\s*\.\s*[\"']?swapconf\b", read_bytes(file, _MAX_BYTES), re.MULTILINE) is not None
        )
    except OSError:
        return False


def read(file: Path, rules: Collection[str], families: Collection[str]) -> tuple[Settings, tuple[Finding, ...]]:
    """The settings of a file and what is wrong in it; what is wrong settles nothing.

    ``rules``, ``families``: the names that exist.
    """
    if sys.version_info >= (3, 11):  # here, because few repositories have settings
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = read_bytes(file, _MAX_BYTES)
        if len(data) > _MAX_BYTES:
            raise OSError(errno.EFBIG, phrase("larger than {size:,} bytes", size=_MAX_BYTES))
        text = data.decode("utf-8")
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        place = re.search(_DECODE_LINE, str(error))  # tomllib tells it in the text only, and not at the end of the file
        line, column = (int(place[1]), int(place[2])) if place else (0, 0)
        origin = Origin(file=_shown(file), line=line, column=column)
        return Settings(), (
            _finding(
                origin,
                phrase("cannot be read: {reason}", reason=getattr(error, "strerror", None) or error),
                phrase("correct the file; nothing in it is used"),
            ),
        )
    reader = _Reader(_shown(file), text, inside=file.name == "pyproject.toml")
    section: Any = tables.get("tool", {}).get("swapconf", {}) if reader.inside else tables
    return reader.settings(section, rules, families), tuple(reader.findings)


def _shown(file: Path) -> str:
    """A path as a person would write it: relative to the current folder where the file is below it."""
    here = Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


class _Reader:
    def __init__(self, file: str, text: str, *, inside: bool) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.inside = inside
        self.findings: list[Finding] = []

    def settings(self, section: Any, rules: Collection[str], families: Collection[str]) -> Settings:
        if not isinstance(section, Mapping):
            self._wrong((), phrase("expected a table"), phrase("write [tool.swapconf]"))
            return Settings()
        for key in section:
            if key not in _KEYS:
                self._wrong((key,), phrase("unknown key `{key}`", key=key), _meant(key, _KEYS))
        return Settings(
            file=self.file,
            severity=self._severity(section.get("severity", {}), rules),
            families=self._families(section.get("families", {}), families),
            layers=self._layers(section.get("layers", {})),
            mindspore=self._version(section, "mindspore"),
            mindformers=self._version(section, "mindformers"),
            apply=self._apply(section.get("apply", [])),
        )

    def _severity(self, table: Any, rules: Collection[str]) -> dict[str, Severity | None]:
        words: dict[str, Severity | None] = {OFF: None, **{severity.value: severity for severity in Severity}}
        chosen = {}
        for rule, word in self._table("severity", table, phrase("expected a table of rules")).items():
            if rule not in rules:
                self._wrong(("severity", rule), phrase("there is no rule `{rule}`", rule=rule), _meant(rule, rules))
            elif not isinstance(word, str) or word not in words:
                self._wrong(
                    ("severity", rule),
                    phrase("`{word}` is not a severity", word=word),
                    phrase("write one of {words}", words=", ".join(words)),
                )
            else:
                chosen[rule] = words[word]
        return chosen

    def _families(self, table: Any, known: Collection[str]) -> dict[str, str]:
        chosen = {}
        for name, family in self._table(
            "families", table, phrase("expected a table from model class to family")
        ).items():
            if not isinstance(family, str) or family not in known:
                self._wrong(
                    ("families", name),
                    phrase("the catalog has no family `{family}`", family=family),
                    _meant(str(family), known),
                )
            else:
                chosen[name] = family
        return chosen

    def _layers(self, table: Any) -> dict[str, str]:
        chosen = {}
        for name, folder in self._table("layers", table, phrase("expected a table from model class to folder")).items():
            place = Path(self.file).parent / str(folder)
            if own_layers.read(place) is None:
                self._wrong(
                    ("layers", name),
                    phrase("no dry run has left layers of a model in {folder}", folder=place),
                    phrase("name the folder of a rank, such as DIR/rank_0 after `swapconf dryrun --keep DIR`"),
                )
            else:
                chosen[name] = str(place)
        return chosen

    def _apply(self, given: Any) -> frozenset[str]:
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            self._wrong(("apply",), phrase("expected a list of keys"), phrase('write `apply = ["{key}"]`', key=MP_COMM))
            return frozenset()
        for name in given:
            if name not in dropped.KEYS:
                self._wrong(
                    ("apply",), phrase("`{key}` is no key that mindformers drops", key=name), _meant(name, dropped.KEYS)
                )
        return dropped.KEYS & set(given)

    def _version(self, section: Mapping[str, Any], key: str) -> str | None:
        value = section.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._wrong(
                (key,), phrase("`{value}` is not a version", value=value), phrase('write it as text, such as "2.9.0"')
            )
            return None
        try:
            return checked(key, value)
        except BadVersion as error:
            self._wrong((key,), str(error), phrase('write it as text, such as "2.9.0"'))
            return None

    def _table(self, key: str, table: Any, otherwise: str) -> Mapping[str, Any]:
        if isinstance(table, Mapping):
            return table
        self._wrong((key,), otherwise, phrase("write it below [{table}]", table="tool.swapconf." * self.inside + key))
        return {}

    def _wrong(self, path: tuple[str, ...], message: str, hint: str) -> None:
        line, column = self._place(path)
        dotted = ".".join((*("tool", "swapconf") * self.inside, *path))
        self.findings.append(_finding(Origin(file=self.file, line=line, column=column, path=dotted), message, hint))

    def _place(self, path: tuple[str, ...]) -> tuple[int, int]:
        """Line and column of a key; tomllib gives none. Of its table's header where the key is not found."""
        prefix = ("tool", "swapconf") if self.inside else ()
        table: tuple[str, ...] = ()
        header = (0, 0)
        for number, line in enumerate(self.lines, start=1):
            column = len(line) - len(line.lstrip()) + 1
            if match := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
                table = _keys(match[1])
                header = (number, column) if table == (*prefix, *path)[: len(table)] else header
                if table == (*prefix, *path):
                    return number, column
            elif match := re.match(r"\s*([\w.\"' -]+?)\s*=", line):
                written = (*table, *_keys(match[1]))
                if written == (*prefix, *path):
                    return number, column
                if written and written == (*prefix, *path)[: len(written)]:  # the rest is an inline table
                    inner = re.search(rf"\b{re.escape(path[-1])}\b[\"']?\s*=", line)
                    return number, inner.start() + 1 if inner else column
        return header


def _keys(written: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", written))


def _meant(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return (
        phrase("`{name}` was probably meant", name=close[0])
        if close
        else phrase("known are {names}", names=", ".join(sorted(known)[:12]))
    )


def _finding(origin: Origin, message: str, hint: str) -> Finding:
    return Finding(origin=origin, rule="settings", severity=Severity.ERROR, message=message, hint=hint)
