"""The reports for machines: each is read back as its reader would read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from swapconf.report.github import as_commands
from swapconf.report.gitlab import as_code_quality
from swapconf.report.junit import as_junit
from swapconf.report.places import fingerprints, shown_path
from swapconf.report.sarif import as_sarif
from swapconf.study.pages import pages
from swapconf.words.findings import Finding, Origin, Severity

SARIF = Draft4Validator(json.loads((Path(__file__).parents[1] / "schemas/sarif-2.1.0-rtm.5.json").read_text("utf-8")))
HOSTILE = "50% of a,b:c\r\n::error::injected\x1b[2J <b>&\"' \ufffe 中文"


def finding(
    message: str = "wrong",
    *,
    file: str = "a b/c%.yaml",
    line: int = 3,
    rule: str = "op-no-match",
    severity: Severity = Severity.ERROR,
    path: str = "swap_config.op_swap[0].op_name",
) -> Finding:
    return Finding(
        origin=Origin(file=file, line=line, column=7 if line else 0, path=path),
        rule=rule,
        severity=severity,
        message=message,
        hint="correct it",
    )


findings = st.lists(
    st.builds(
        finding,
        st.text(),
        file=st.sampled_from(["a.yaml", "b c.yaml", "ü#%.yaml"]),
        line=st.integers(0, 3),
        rule=st.sampled_from(sorted(pages())),
        severity=st.sampled_from(Severity),
        path=st.text(max_size=8),
    ),
    max_size=6,
)


# --- GitHub -----------------------------------------------------------------------------------------------------------


def parsed(command: str) -> tuple[str, dict[str, str], str]:
    """As the runner reads it: properties up to the first `::`, then percent escapes are undone."""
    match = re.fullmatch(r"(?s)::(\w+) ([^:]*)::(.*)", command)
    assert match, command
    properties = dict(pair.split("=", 1) for pair in match[2].split(","))
    return match[1], {key: unquote(value) for key, value in properties.items()}, unquote(match[3])


def test_an_annotation_points_to_the_line() -> None:
    (command,) = as_commands([finding()])
    assert parsed(command) == (
        "error",
        {"file": "a b/c%.yaml", "line": "3", "col": "7", "title": "swapconf op-no-match"},
        "swap_config.op_swap[0].op_name: wrong\ncorrect it",
    )


def test_an_annotation_of_a_file_has_no_line() -> None:
    (command,) = as_commands([finding(line=0, severity=Severity.NOTE)])
    kind, properties, _ = parsed(command)
    assert kind == "notice"
    assert "line" not in properties


@given(st.text())
def test_nothing_in_a_message_starts_another_command(text: str) -> None:
    (command,) = as_commands([finding(text, file=f"{text.replace(chr(0), '')[:5]}.yaml")])
    assert not {"\r", "\n"} & set(command)
    assert parsed(command)[0] == "error"


# --- GitLab -----------------------------------------------------------------------------------------------------------


@given(findings)
def test_code_quality_has_what_gitlab_needs(found: list[Finding]) -> None:
    records = json.loads(as_code_quality(found))
    assert [record["location"]["lines"]["begin"] for record in records] == [max(1, f.origin.line) for f in found]
    assert {record["severity"] for record in records} <= {"info", "minor", "major", "critical", "blocker"}
    assert len({record["fingerprint"] for record in records}) == len(found)


def test_a_fingerprint_outlives_a_move_of_the_line_but_not_of_the_key() -> None:
    before, moved = fingerprints([finding(line=3)]), fingerprints([finding("line 9 names it first", line=40)])
    assert before == moved
    assert before != fingerprints([finding(path="swap_config.op_swap[1].op_name")])
    assert before != fingerprints([finding(rule="bad-type")])


# --- JUnit ------------------------------------------------------------------------------------------------------------


@given(findings, st.booleans())
def test_junit_counts_what_fails(found: list[Finding], strict: bool) -> None:
    top = ElementTree.fromstring(as_junit(found, ["clean.yaml"], strict=strict).encode("utf-8", "replace"))
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    assert len(top.findall(".//failure")) == sum(f.severity in failing for f in found) == int(top.attrib["failures"])
    assert sum(int(suite.attrib["tests"]) for suite in top) == len(top.findall(".//testcase"))
    assert len(top.findall(".//testcase")) == len(found) + 1


def test_control_characters_do_not_break_the_xml() -> None:
    (failure,) = ElementTree.fromstring(as_junit([finding(HOSTILE)], [], strict=False)).iter("failure")
    assert "<b>&\"'" in failure.attrib["message"]
    assert "\\x1b[2J" in failure.attrib["message"]


# --- SARIF ------------------------------------------------------------------------------------------------------------


@given(findings, st.booleans())
def test_sarif_follows_the_schema(found: list[Finding], readable: bool) -> None:
    log = json.loads(as_sarif(found, pages(), "1.2", readable=readable))
    assert [error.message for error in SARIF.iter_errors(log)] == []
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [f.rule for f in found]


def test_sarif_places_and_pages() -> None:
    (run,) = json.loads(as_sarif([finding()], pages(), "1.2"))["runs"]
    (place,) = run["results"][0]["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b/c%25.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3, "startColumn": 7},
    }
    page = next(rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "op-no-match")
    assert page["shortDescription"]["text"].startswith("an operator pattern that matches no operator")
    assert "Fails: `op_name: Attention`" in page["help"]["markdown"]


def test_a_broken_log_is_refused() -> None:
    log = json.loads(as_sarif([finding()], pages(), "1.2"))
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert list(SARIF.iter_errors(log))


# --- paths ------------------------------------------------------------------------------------------------------------


def test_paths_are_told_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(tmp_path / "x" / "a.yaml")) == "x/a.yaml"
    assert shown_path("./x/../a.yaml") == "a.yaml"
    assert shown_path("..hidden.yaml") == "..hidden.yaml"
    assert shown_path("../a.yaml") == str(tmp_path.parent / "a.yaml")
