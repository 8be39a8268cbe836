"""What tests want to have told at the end of a run although nothing failed."""

from __future__ import annotations

from typing import Any

TOLD = "told"  # the property of a test, so that it reaches the end of the run from another process, too


def pytest_terminal_summary(terminalreporter: Any) -> None:
    told = [text for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)
            for name, text in report.user_properties if name == TOLD and report.when == "call"]
    if told:
        terminalreporter.section("agreement on random strategies")
        for text in told:
            terminalreporter.write_line(text)
