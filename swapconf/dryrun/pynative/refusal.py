"""STUDY + PATH -> FINDING: that something of PyNative mode has no dry run, at its line."""

from __future__ import annotations

from swapconf.study.study import Study
from swapconf.words.findings import Finding, Origin, Severity

RULE = "pynative-no-dry-run"


def value_at(study: Study, path: str) -> object:
    """What stands there, None where nothing does."""
    entry = study.document.entry_at(path)
    return entry.value.scalar if entry is not None else None


def count_at(study: Study, path: str) -> int | None:
    value = value_at(study, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def refusal(study: Study, path: str, message: str, hint: str, severity: Severity = Severity.ERROR) -> Finding:
    """At its line, or at that of the section where it is not written."""
    document = study.document
    way = document.way_to(path)
    origin = document.key_origin(way[-1], path) if way else Origin(file=document.file, path=path)
    return Finding(origin=origin, rule=RULE, severity=severity, message=message, hint=hint)
