"""FINDINGS -> TEXT or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import joined, phrase, plural, show

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def as_json(findings: Sequence[Finding]) -> str:
    """In ASCII: nothing in it commands a terminal, and a name that is no text can be written, too."""
    return json.dumps([finding.as_record() for finding in findings], indent=2)


def as_lines(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """(line, style) for each finding; control characters from the file are made visible."""
    return [(printable(str(finding)), _COLOURS[finding.severity]) for finding in findings]


def summary(findings: Sequence[Finding], num_files: int) -> str:
    """``2 errors, 1 note in 3 files``, or that nothing was found."""
    files = plural(num_files, "{count} file", "{count} files")
    counts = Counter(finding.severity for finding in findings)
    parts = [_counted(severity, counts[severity]) for severity in sorted(counts, reverse=True)]
    return (
        phrase("{findings} in {files}", findings=joined(", ", parts), files=files)
        if parts
        else phrase("nothing found in {files}", files=files)
    )


def _counted(severity: Severity, count: int) -> str:
    if severity is Severity.ERROR:
        return plural(count, "{count} error", "{count} errors")
    if severity is Severity.WARNING:
        return plural(count, "{count} warning", "{count} warnings")
    return plural(count, "{count} note", "{count} notes")


def printable(text: str) -> str:
    """One line in the language in use, whatever a name from a file holds: control sequences become visible escapes."""
    shown = show(text)
    return shown if shown.isprintable() else "".join(_visible(char) for char in shown)


def _visible(char: str) -> str:
    return char if char.isprintable() else repr(char)[1:-1]
