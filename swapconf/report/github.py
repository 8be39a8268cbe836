"""FINDINGS -> GITHUB: workflow commands, which GitHub Actions shows as annotations on the lines of a change."""

from __future__ import annotations

from collections.abc import Iterable

from swapconf.report.findings_text import printable
from swapconf.report.places import shown_path
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
# GitHub, actions/toolkit core/src/command.ts: what a message and a property must not hold
_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def as_commands(findings: Iterable[Finding]) -> list[str]:
    """One line each; the hint stands on the second line of the annotation."""
    return [_command(finding) for finding in findings]


def _command(finding: Finding) -> str:
    place = finding.origin
    properties = {"file": printable(shown_path(place.file))}
    if place.line:
        properties |= {"line": str(place.line), "col": str(place.column)}
    properties["title"] = f"swapconf {finding.rule}"
    written = ",".join(f"{key}={value.translate(_IN_PROPERTY)}" for key, value in properties.items())
    what = f"{printable(place.path or phrase('(file)'))}: {printable(finding.message)}"
    message = f"{what}\n{printable(finding.hint)}".translate(_IN_MESSAGE)
    return f"::{_COMMANDS[finding.severity]} {written}::{message}"
