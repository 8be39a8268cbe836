"""FINDINGS -> SARIF 2.1.0: for code scanning, and for whatever else shows results of static analysis."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swapconf.report.places import fingerprints, shown_path
from swapconf.words.findings import Finding
from swapconf.words.phrases import phrase, show

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(findings: Sequence[Finding], pages: Mapping[str, str], version: str, *, readable: bool = True) -> str:
    """JSON text with one run. ``pages``: the manual page of every rule. ``readable``: no file failed to be read."""
    rules = {name: index for index, name in enumerate(pages)}
    run = {
        "tool": {
            "driver": {
                "name": "swapconf",
                "version": version,
                "rules": [_rule(name, page) for name, page in pages.items()],
            }
        },
        "invocations": [{"executionSuccessful": readable}],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, rules, fingerprint)
            for finding, fingerprint in zip(findings, fingerprints(findings), strict=True)
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(name: str, page: str) -> dict[str, Any]:
    sentence, _, rest = page.removeprefix(f"{name}: ").partition("\n")
    text = f"{sentence}\n{rest}".strip()
    return {
        "id": name,
        "shortDescription": {"text": sentence},
        "help": {"text": text.replace("``", "`"), "markdown": text.replace("``", "`")},
    }


def _result(finding: Finding, rules: Mapping[str, int], fingerprint: str) -> dict[str, Any]:
    place = finding.origin
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(place.file)}}
    if place.line:
        location["physicalLocation"]["region"] = {"startLine": place.line, "startColumn": place.column}
    if place.path:
        location["logicalLocations"] = [{"fullyQualifiedName": place.path, "kind": "member"}]
    known = {"ruleIndex": rules[finding.rule]} if finding.rule in rules else {}
    text = show(phrase("{message}; {hint}", message=finding.message, hint=finding.hint))
    return {
        "ruleId": finding.rule,
        **known,
        "level": finding.severity.value,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"swapconf/v1": fingerprint},
    }


def _artifact(file: str) -> dict[str, str]:
    shown = shown_path(file)
    if shown.startswith("/"):
        return {"uri": Path(shown).as_uri()}
    return {"uri": quote(shown), "uriBaseId": "%SRCROOT%"}
