"""TEXT + SETTINGS -> APPLIED: which keys count that mindformers alone drops, by ``# swapconf: apply[key, ...]``.

A comment holds for its file, wherever it stands; ``apply = ["key"]`` in the settings, for all YAMLs below them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from swapconf.upstream import dropped
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "apply-comment"
_MARK = r"#\s*swapconf:\s*apply\b(?:\[(?P<keys>[^\]]*)\])?"


def read(texts: Mapping[str, str]) -> tuple[frozenset[str], tuple[Finding, ...]]:
    """The keys that the comments of a YAML and of what it includes have count, and what is wrong with the comments.
    ``texts``: by file; they must be such that can be parsed."""
    keys: set[str] = set()
    wrong: list[Finding] = []
    for file, text in texts.items():
        if "swapconf:" in text:
            _read(text, file, keys, wrong)
    return frozenset(keys), tuple(wrong)


def _read(text: str, file: str, keys: set[str], wrong: list[Finding]) -> None:
    from swapconf.config.yaml_comments import comments  # few YAMLs have any for swapconf

    for comment in comments(text):
        if match := re.match(_MARK, comment.text):
            named = {name.strip() for name in (match["keys"] or "").split(",") if name.strip()}
            keys |= named & dropped.KEYS
            wrong += _wrong(Origin(file=file, line=comment.line, column=comment.column), named)


def _wrong(origin: Origin, named: set[str]) -> Iterator[Finding]:
    for name in sorted(named - dropped.KEYS):
        yield _error(origin, phrase("`{key}` is no key that mindformers drops", key=name), meant(name))
    if not named:
        write = phrase("write `# swapconf: apply[{key}]`", key=dropped.MP_COMM)
        yield _error(origin, phrase("this comment names no key: it changes nothing"), write)


def _error(origin: Origin, message: str, hint: str) -> Finding:
    return Finding(origin=origin, rule=RULE, severity=Severity.ERROR, message=message, hint=hint)


def meant(name: str) -> str:
    """What to write for a key that is none of these."""
    close = get_close_matches(name, dropped.KEYS, n=1)
    return (
        phrase("`{name}` was probably meant", name=close[0])
        if close
        else phrase("known are {names}", names=", ".join(sorted(dropped.KEYS)))
    )
