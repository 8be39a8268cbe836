from __future__ import annotations

import re

import pytest

from swapconf.config.yaml_comments import comments
from swapconf.study import ignores
from swapconf.study.pages import pages
from swapconf.words.findings import Finding, Origin, Severity

COMMENTED = """\
# one
a: 'no # comment'   # two
b: |
  # none

# three

# four
c: a#b
d: [1,  # five
    2]
é: "\\" # none" # six
"""


@pytest.mark.parametrize("text", [COMMENTED, COMMENTED.replace("\n", "\r\n")])
def test_comments_and_the_line_each_is_about(text: str) -> None:
    assert [(c.text, c.line, c.column, c.about) for c in comments(text)] == [
        ("# one", 1, 1, 2),
        ("# two", 2, 21, 2),
        ("# three", 6, 1, 9),
        ("# four", 8, 1, 9),
        ("# five", 10, 9, 10),
        ("# six", 12, 16, 12),
    ]


def found(line: int, rule: str) -> Finding:
    return Finding(
        origin=Origin(file="a.yaml", line=line, column=3),
        rule=rule,
        severity=Severity.ERROR,
        message="wrong",
        hint="correct it",
    )


def applied(text: str, *given: Finding) -> list[str]:
    left = ignores.apply(given, ignores.read(text, "a.yaml"), pages())
    return [f"{finding.origin.line}:{finding.origin.column} {finding.rule}" for finding in left]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1  # swapconf: ignore[bad-type] a probe",
        "a: 1  # swapconf: ignore[bad-value, bad-type]: a probe",
        "a: 1  #swapconf:ignore[ bad-type ] a probe",
    ],
)
def test_a_comment_silences_its_line(text: str) -> None:
    assert applied(text, found(1, "bad-type"), found(1, "bad-value")) in ([], ["1:3 bad-value"])


def test_a_comment_silences_the_line_below() -> None:
    text = "# swapconf: ignore[bad-type] a probe\na: 1\nb: 2\n"
    assert applied(text, found(2, "bad-type"), found(3, "bad-type")) == ["3:3 bad-type"]


def test_a_comment_does_not_silence_other_rules() -> None:
    text = "a: 1  # swapconf: ignore[bad-type] a probe"
    assert applied(text, found(1, "bad-type"), found(1, "bad-value")) == ["1:3 bad-value"]


@pytest.mark.parametrize(
    ("comment", "rule"),
    [
        ("ignore[bad-type] nothing is wrong here", "ignore-unused"),
        ("ignore[bad-tipe] a typo", "ignore-unknown-rule"),
        ("ignore everything", "ignore-unknown-rule"),
        ("ignore[]", "ignore-unknown-rule"),
    ],
)
def test_a_comment_that_does_nothing_is_told(comment: str, rule: str) -> None:
    assert applied(f"a: 1  # swapconf: {comment}") == [f"1:7 {rule}"]


def test_a_reason_is_asked_for() -> None:
    assert applied("a: 1 # swapconf: ignore[bad-type]", found(1, "bad-type")) == ["1:6 ignore-without-reason"]


def test_a_value_is_no_comment() -> None:
    text = "a: '# swapconf: ignore[bad-type] no'\nb: |\n  # swapconf: ignore[bad-type] no\n"
    assert applied(text, found(1, "bad-type"), found(3, "bad-type")) == ["1:3 bad-type", "3:3 bad-type"]


def test_a_near_rule_is_named() -> None:
    (told,) = ignores.apply([], ignores.read("a: 1 # swapconf: ignore[bad-tipe] x", "a.yaml"), pages())
    assert re.search("`bad-type` was probably meant", told.hint)
