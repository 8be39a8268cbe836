"""FINDINGS -> GITLAB: a Code Quality report, which GitLab shows in a merge request."""

from __future__ import annotations

import json
from collections.abc import Sequence

from swapconf.report.places import fingerprints, shown_path
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase, show

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def as_code_quality(findings: Sequence[Finding]) -> str:
    """JSON text. A finding about a whole file is put on its first line, as the format has no other place for it."""
    return json.dumps(
        [
            {
                "description": show(
                    phrase(
                        "{path}: {message}; {hint}",
                        path=finding.origin.path or phrase("(file)"),
                        message=finding.message,
                        hint=finding.hint,
                    )
                ),
                "check_name": finding.rule,
                "fingerprint": fingerprint,
                "severity": _SEVERITIES[finding.severity],
                "location": {"path": shown_path(finding.origin.file), "lines": {"begin": max(1, finding.origin.line)}},
            }
            for finding, fingerprint in zip(findings, fingerprints(findings), strict=True)
        ],
        indent=2,
    )
