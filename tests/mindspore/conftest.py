"""What tests want to have told at the end of a run although nothing failed."""

from __future__ import annotations

from typing import Any

import pytest

TOLD = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if told := config.stash.get(TOLD, []):
        terminalreporter.section("agreement on random strategies")
        for text in told:
            terminalreporter.write_line(text)
