"""FINDINGS -> JUNIT: one test suite per file, for servers that show test reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from swapconf.report.places import shown_path
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import show

_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")  # XML 1.0, production 2


def as_junit(findings: Sequence[Finding], files: Iterable[str], *, strict: bool) -> str:
    """XML text. A finding that fails the check is a failed test, any other a passed one that says it.

    ``files``: every file that was checked; a clean one is a suite with one passed test. ``strict``: warnings fail.
    """
    top = ElementTree.Element("testsuites", name="swapconf")
    least = Severity.WARNING if strict else Severity.ERROR
    total = 0
    for file in dict.fromkeys([*files, *(finding.origin.file for finding in findings)]):
        found = [finding for finding in findings if finding.origin.file == file]
        failed = sum(finding.severity.rank >= least.rank for finding in found)
        suite = ElementTree.SubElement(
            top,
            "testsuite",
            name=_clean(shown_path(file)),
            errors="0",
            skipped="0",
            tests=str(len(found) or 1),
            failures=str(failed),
        )
        for finding in found:
            _case(suite, finding, fails=finding.severity.rank >= least.rank)
        if not found:
            ElementTree.SubElement(suite, "testcase", classname=_clean(shown_path(file)), name="nothing found")
        total += failed
    top.set("tests", str(sum(int(suite.get("tests", "0")) for suite in top)))
    top.set("failures", str(total))
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True)


def _case(suite: ElementTree.Element, finding: Finding, *, fails: bool) -> None:
    place = finding.origin
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_clean(shown_path(place.file)),
        line=str(place.line),
        name=_clean(f"{finding.rule} {place.path or '(file)'}"),
    )
    if fails:
        told = ElementTree.SubElement(case, "failure", type=finding.rule, message=_clean(finding.message))
    else:
        told = ElementTree.SubElement(case, "system-out")
    told.text = _clean(str(finding))


def _clean(text: str) -> str:
    """In the language in use. XML cannot hold control characters, not even escaped ones."""
    return _NOT_XML.sub(lambda match: repr(match.group())[1:-1], show(text))
