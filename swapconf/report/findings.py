"""FINDINGS -> TEXT or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from swapconf.errors import Finding, Severity

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def as_json(findings: Sequence[Finding]) -> str:
    """In ASCII: nothing in it commands a terminal, and a name that is no text can be written, too."""
    return json.dumps([finding.as_record() for finding in findings], indent=2)


def as_lines(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """(line, style) for each finding; control characters from the file are made visible."""
    return [(printable(str(finding)), _COLOURS[finding.severity]) for finding in findings]


def summary(findings: Sequence[Finding], num_files: int) -> str:
    """``2 errors, 1 note in 3 files``, or that nothing was found."""
    files = f"{num_files} file{'s' * (num_files != 1)}"
    counts = Counter(finding.severity for finding in findings)
    parts = [f"{counts[severity]} {severity.value}{'s' * (counts[severity] > 1)}"
             for severity in sorted(counts, reverse=True)]
    return f"{', '.join(parts)} in {files}" if parts else f"nothing found in {files}"


def printable(text: str) -> str:
    """One line, whatever a name from a file holds: terminal control sequences become visible escapes."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
