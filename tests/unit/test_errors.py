from __future__ import annotations

from swapconf.words.findings import Finding, Origin, Severity, SwapconfError, has_errors, in_order


def finding(line: int, severity: Severity = Severity.ERROR, rule: str = "rule") -> Finding:
    return Finding(
        origin=Origin(file="f.yaml", line=line, column=2, path="a.b"),
        rule=rule,
        severity=severity,
        message="wrong",
        hint="mend it",
    )


def test_the_line_is_the_promised_one() -> None:
    assert str(finding(3)) == "f.yaml:3:2  a.b: error: wrong; mend it [rule]"


def test_order_is_by_place_and_each_is_said_once() -> None:
    assert in_order([finding(3), finding(1, Severity.NOTE), finding(3)]) == (finding(1, Severity.NOTE), finding(3))


def test_only_errors_are_errors() -> None:
    assert has_errors([finding(1, Severity.NOTE), finding(2)])
    assert not has_errors([finding(1, Severity.NOTE), finding(2, Severity.WARNING)])


def test_an_error_survives_being_raised_again_from_its_text() -> None:
    error = SwapconfError([finding(1)])
    again = type(error)(f"LlamaForCausalLM: {error}")
    assert "f.yaml:1:2" in str(again)
    assert again.findings == ()
